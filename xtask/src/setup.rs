//! `cargo xtask setup`: fetches what the tests need, for people who run cargo's own test commands afterwards.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::outside;
use crate::steps::{Steps, Then, succeed};
use crate::tools;
use crate::web::Web;
use crate::workspace::Workspace;

/// Runs the steps that come before the checks in `cargo xtask test`.
pub fn run() -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    steps.step("tools", Then::Stop, tools::ensure);
    steps.step("page", Then::Stop, || Web::new(&workspace).ensure_page());
    steps.step("build", Then::Stop, || succeed(workspace.cargo().args(["build", "--package", "hostler"])));
    steps.step("agents", Then::GoOn, || agents(&workspace));
    steps.step("sdks", Then::GoOn, || outside::ensure_all(&outside::SDKS));
    Ok(steps.finish())
}

/// The real agents that the tests drive, by the project's own command.
pub(crate) fn agents(workspace: &Workspace) -> Result<()> {
    for build in ["native", "js"] {
        let mut hostler = Command::new(workspace.hostler("debug"));
        succeed(hostler.args(["agents", "install", "claude", "--build", build]))?;
    }
    Ok(())
}
