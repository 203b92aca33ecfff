//! `cargo xtask test`: every check, prerequisites and quick checks first.

use std::process::ExitCode;

use anyhow::Result;

use crate::failures::Report;
use crate::leak_check::TestRun;
use crate::pinned_packages;
use crate::required_programs;
use crate::setup;
use crate::steps::{OnFailure, Steps, run_command};
use crate::web::WebProject;
use crate::workspace::Workspace;

/// What to check.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Runs only the tests whose names contain this, and none of the other checks.
    #[arg(long)]
    filter: Option<String>,
}

/// Runs the checks and prints a summary with timings.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    let filter = options.filter.as_deref();
    let cargo = |arguments: &[&str]| run_command(workspace.cargo_command().args(arguments));

    steps.run_step("tools", OnFailure::Abort, required_programs::ensure_programs);
    if filter.is_none() {
        steps.run_step("format", OnFailure::Continue, || cargo(&["fmt", "--all", "--check"]));
    }
    let web = WebProject::new(&workspace);
    if filter.is_none() {
        // Before the binary, which embeds the page.
        steps.run_step("page", OnFailure::Abort, || web.ensure_page());
    }
    steps.run_step("build", OnFailure::Abort, || cargo(&["build", "--workspace", "--exclude", "xtask", "--bins"]));
    steps.run_step("agents", OnFailure::Abort, || setup::install_agents(&workspace));
    steps.run_step("sdks", OnFailure::Abort, || pinned_packages::ensure_packages(&pinned_packages::SDKS));
    if filter.is_none() {
        let lints = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        steps.run_step("lints", OnFailure::Continue, || cargo(&lints));
        steps.run_step("docs", OnFailure::Continue, || {
            let mut doc = workspace.cargo_command();
            run_command(doc.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
        });
    }
    let run = TestRun::begin(&std::env::temp_dir())?;
    steps.run_step("tests", OnFailure::Continue, || run_tests(&workspace, &run, filter));
    if filter.is_none() {
        let hostler = workspace.hostler_binary("debug");
        steps.run_step("web", OnFailure::Continue, || web.check(&hostler, |command| run.mark_command(command)));
        steps.run_step("browser", OnFailure::Continue, || {
            web.browser_tests(&hostler, None, |command| run.mark_command(command))
        });
    }
    steps.run_step("leaks", OnFailure::Continue, || run.check_for_leaks());
    Ok(steps.finish())
}

fn run_tests(workspace: &Workspace, run: &TestRun, filter: Option<&str>) -> Result<()> {
    let mut command = workspace.cargo_command();
    command.args(["nextest", "run", "--workspace"]);
    let report = Report::Nextest(workspace.target_directory.join("nextest/default/junit.xml"));
    report.succeed(run.mark_command(command.args(filter)))
}
