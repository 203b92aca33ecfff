//! `cargo xtask web`: builds the page into `web/dist`, checks it (types, lints, tests), tests it in a browser, or
//! takes screenshots.

mod packages;
mod page_build;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};

use crate::failures::Report;
use crate::pinned_packages;
use crate::steps::{OnFailure, Steps, run_command};
use crate::system_packages;
use crate::workspace::Workspace;

/// What to do with the page; without an option, it is built.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Checks types and lints and runs the tests, also against the real host, instead of building the page.
    #[arg(long, group = "what")]
    check: bool,
    /// Tests the page in the system's Chromium, on a temporary host: all files, or those whose names contain FILTER.
    #[arg(long, value_name = "FILTER", num_args = 0..=1, default_missing_value = "", group = "what")]
    browser: Option<String>,
    /// Writes screenshots of the main views to DIR: light, dark, and on a phone.
    #[arg(long, value_name = "DIR", group = "what")]
    screenshots: Option<PathBuf>,
    /// Uses this `hostler` binary [default: one that is built first]
    #[arg(long, value_name = "PATH", requires = "what")]
    hostler: Option<PathBuf>,
}

/// Installs what is missing, then runs the requested action.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let web = WebProject::new(&workspace);
    let mut steps = Steps::default();
    steps.run_step("packages", OnFailure::Abort, || web.ensure_packages());
    if options.check {
        steps.run_step("types", OnFailure::Continue, || run_command(&mut web.npm_script("types")));
        steps.run_step("lint", OnFailure::Continue, || run_command(&mut web.npm_script("lint")));
    } else {
        steps.run_step("page", OnFailure::Abort, || web.build());
    }
    if !options.check && options.browser.is_none() && options.screenshots.is_none() {
        return Ok(steps.finish());
    }
    let hostler = match &options.hostler {
        Some(path) => path.canonicalize().with_context(|| format!("failed to find {}", path.display()))?,
        None => {
            steps.run_step("host", OnFailure::Abort, || build_host(&workspace, "dev"));
            workspace.hostler_binary("debug")
        }
    };
    if options.check {
        steps.run_step("tests", OnFailure::Continue, || run_command(&mut web.test_command(&hostler)));
    }
    if let Some(filter) = &options.browser {
        let filter = (!filter.is_empty()).then_some(filter.as_str());
        steps.run_step("browser", OnFailure::Continue, || web.browser_tests(&hostler, filter, |command| command));
    }
    if let Some(directory) = &options.screenshots {
        steps.run_step("screenshots", OnFailure::Continue, || {
            std::fs::create_dir_all(directory).with_context(|| format!("failed to create {}", directory.display()))?;
            run_command(web.browser_script("screenshots", &hostler)?.arg("--").arg(directory.canonicalize()?))
        });
    }
    Ok(steps.finish())
}

/// Builds a host for the page in a profile (`dev`, `release`), and its agent.
pub(crate) fn build_host(workspace: &Workspace, profile: &str) -> Result<()> {
    run_command(workspace.cargo_command().args(["build", "--package", "hostler", "--profile", profile]))?;
    let directory = if profile == "dev" { "debug" } else { profile };
    run_command(Command::new(workspace.hostler_binary(directory)).args(["agents", "install", "claude"]))
}

/// The page's project directory.
pub(crate) struct WebProject {
    directory: PathBuf,
    /// Directory of screenshots and logs of failed tests.
    browser_output: PathBuf,
}

impl WebProject {
    pub(crate) fn new(workspace: &Workspace) -> Self {
        Self { directory: workspace.root.join("web"), browser_output: workspace.target_directory.join("browser") }
    }

    /// Ensures that a binary that is built afterwards embeds the page.
    pub(crate) fn ensure_page(&self) -> Result<()> {
        self.ensure_packages()?;
        self.build()
    }

    fn ensure_packages(&self) -> Result<()> {
        packages::ensure_node_modules(&self.directory, &pinned_packages::cache_home()?.join("hostler").join("tools"))
    }

    fn build(&self) -> Result<()> {
        if !page_build::ensure_built(&self.directory, || run_command(&mut self.npm_script("build")))? {
            eprintln!("the page in web/dist is up to date");
        }
        Ok(())
    }

    /// Runs the checks that need no browser, one after the other.
    pub(crate) fn check(&self, hostler: &Path, mark: impl Fn(&mut Command) -> &mut Command) -> Result<()> {
        run_command(mark(&mut self.npm_script("types")))?;
        run_command(mark(&mut self.npm_script("lint")))?;
        run_command(mark(&mut self.test_command(hostler)))
    }

    /// Returns the tests that need no browser; with a host, none of them is skipped.
    fn test_command(&self, hostler: &Path) -> Command {
        let mut npm = self.npm_script("test");
        npm.env("HOSTLER_BIN", hostler);
        npm
    }

    /// Runs the tests in the system's browser: all of them, or the files whose names contain a filter.
    pub(crate) fn browser_tests(
        &self,
        hostler: &Path,
        filter: Option<&str>,
        mark: impl Fn(&mut Command) -> &mut Command,
    ) -> Result<()> {
        let report = self.browser_output.join("results.json");
        let mut npm = self.browser_script("browser", hostler)?;
        npm.args(["--", "--reporter=default", "--reporter=json", "--outputFile.json"]).arg(&report).args(filter);
        Report::Vitest(report).succeed(mark(&mut npm))
    }

    /// Returns a script that automates the page in the system's browser.
    pub(crate) fn browser_script(&self, name: &str, hostler: &Path) -> Result<Command> {
        self.with_browser(self.npm_script(name), hostler)
    }

    /// Returns a TypeScript program that automates the page in the system's browser; its arguments follow.
    pub(crate) fn browser_program(&self, file: &str, hostler: &Path) -> Result<Command> {
        let mut node = Command::new("node");
        node.args(["browser/run.mjs", file]).current_dir(&self.directory);
        self.with_browser(node, hostler)
    }

    fn with_browser(&self, mut command: Command, hostler: &Path) -> Result<Command> {
        command
            .env("HOSTLER_BIN", hostler)
            .env("CHROMIUM", system_packages::ensure_chromium()?)
            .env("BROWSER_OUT", &self.browser_output);
        Ok(command)
    }

    /// Returns one of the scripts in `package.json`.
    fn npm_script(&self, name: &str) -> Command {
        let mut npm = Command::new("npm");
        npm.args(["run", "--silent", name]).current_dir(&self.directory).stdin(Stdio::null());
        npm
    }
}
