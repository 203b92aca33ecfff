//! `cargo xtask test`: every check, in the order in which a person wants to hear of them.

use std::process::ExitCode;

use anyhow::Result;

use crate::failures::Report;
use crate::leaks::Run;
use crate::outside;
use crate::setup;
use crate::steps::{Steps, Then, succeed};
use crate::tools;
use crate::web::Web;
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
    let cargo = |arguments: &[&str]| succeed(workspace.cargo().args(arguments));

    steps.step("tools", Then::Stop, tools::ensure);
    if filter.is_none() {
        steps.step("format", Then::GoOn, || cargo(&["fmt", "--all", "--check"]));
    }
    let web = Web::new(&workspace);
    if filter.is_none() {
        // Before the binary, which has it inside.
        steps.step("page", Then::Stop, || web.ensure_page());
    }
    steps.step("build", Then::Stop, || cargo(&["build", "--workspace", "--exclude", "xtask", "--bins"]));
    steps.step("agents", Then::Stop, || setup::agents(&workspace));
    steps.step("sdks", Then::Stop, || outside::ensure_all(&outside::SDKS));
    if filter.is_none() {
        let lints = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        steps.step("lints", Then::GoOn, || cargo(&lints));
        steps.step("docs", Then::GoOn, || {
            let mut doc = workspace.cargo();
            succeed(doc.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
        });
    }
    let run = Run::begin(&std::env::temp_dir())?;
    if filter.is_none() {
        steps.step("doctests", Then::GoOn, || {
            succeed(run.mark(workspace.cargo().args(["test", "--workspace", "--doc", "--quiet"])))
        });
    }
    steps.step("tests", Then::GoOn, || tests(&workspace, &run, filter));
    if filter.is_none() {
        let hostler = workspace.hostler("debug");
        steps.step("web", Then::GoOn, || web.check(&hostler, |command| run.mark(command)));
        steps.step("browser", Then::GoOn, || web.browser_tests(&hostler, None, |command| run.mark(command)));
    }
    steps.step("leaks", Then::GoOn, || run.check());
    Ok(steps.finish())
}

fn tests(workspace: &Workspace, run: &Run, filter: Option<&str>) -> Result<()> {
    let mut command = workspace.cargo();
    if tools::has_nextest() {
        command.args(["nextest", "run", "--workspace"]);
    } else {
        command.args(["test", "--workspace", "--quiet"]);
    }
    let report = Report::Nextest(workspace.target_directory.join("nextest/default/junit.xml"));
    report.succeed(run.mark(command.args(filter)))
}
