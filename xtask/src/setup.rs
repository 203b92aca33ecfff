//! `cargo xtask setup`: installs what the tests need, for developers who run cargo's own test commands afterwards.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::pinned_packages;
use crate::required_programs;
use crate::steps::{OnFailure, Steps, run_command};
use crate::web::WebProject;
use crate::workspace::Workspace;

/// Runs the steps that come before the checks in `cargo xtask test`.
pub fn run() -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    steps.run_step("tools", OnFailure::Abort, required_programs::ensure_programs);
    steps.run_step("page", OnFailure::Abort, || WebProject::new(&workspace).ensure_page());
    steps.run_step("build", OnFailure::Abort, || {
        run_command(workspace.cargo_command().args(["build", "--package", "hostler"]))
    });
    steps.run_step("agents", OnFailure::Continue, || install_agents(&workspace));
    steps.run_step("sdks", OnFailure::Continue, || pinned_packages::ensure_packages(&pinned_packages::SDKS));
    Ok(steps.finish())
}

/// Installs the real agents that the tests use, with the project's own command.
pub(crate) fn install_agents(workspace: &Workspace) -> Result<()> {
    for build in ["native", "js"] {
        let mut hostler = Command::new(workspace.hostler_binary("debug"));
        run_command(hostler.args(["agents", "install", "claude", "--build", build]))?;
    }
    Ok(())
}
