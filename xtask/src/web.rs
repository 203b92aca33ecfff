//! `cargo xtask web`: builds the page into `web/dist`, checks it (types, lints, tests), drives it in a browser, or takes its
//! picture.

mod packages;
mod page;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};

use crate::failures::Report;
use crate::outside;
use crate::steps::{Steps, Then, succeed};
use crate::system;
use crate::workspace::Workspace;

/// What is done with the page.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Checks types and lints and runs the tests, also against the real host, instead of building the page.
    #[arg(long, group = "what")]
    check: bool,
    /// Drives the page in the system's Chromium, on a host of its own: all tests, or the files whose names contain a word.
    #[arg(long, value_name = "WORD", num_args = 0..=1, default_missing_value = "", group = "what")]
    browser: Option<String>,
    /// Takes pictures of the main views, in light, dark and on a phone.
    #[arg(long, value_name = "DIR", group = "what")]
    screenshots: Option<PathBuf>,
    /// The host that is used [default: one that is built for it]
    #[arg(long, value_name = "PATH", requires = "what")]
    hostler: Option<PathBuf>,
}

/// Installs what is missing, then does what was asked for.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let web = Web::new(&workspace);
    let mut steps = Steps::default();
    steps.step("packages", Then::Stop, || web.packages());
    if options.check {
        steps.step("types", Then::GoOn, || succeed(&mut web.script("types")));
        steps.step("lint", Then::GoOn, || succeed(&mut web.script("lint")));
    } else {
        steps.step("page", Then::Stop, || web.build());
    }
    if !options.check && options.browser.is_none() && options.screenshots.is_none() {
        return Ok(steps.finish());
    }
    let hostler = match &options.hostler {
        Some(path) => path.canonicalize().with_context(|| format!("there is no {}", path.display()))?,
        None => {
            steps.step("host", Then::Stop, || host(&workspace, "dev"));
            workspace.hostler("debug")
        }
    };
    if options.check {
        steps.step("tests", Then::GoOn, || succeed(&mut web.tests(&hostler)));
    }
    if let Some(word) = &options.browser {
        let word = (!word.is_empty()).then_some(word.as_str());
        steps.step("browser", Then::GoOn, || web.browser_tests(&hostler, word, |command| command));
    }
    if let Some(directory) = &options.screenshots {
        steps.step("screenshots", Then::GoOn, || {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("{} could not be created", directory.display()))?;
            succeed(web.in_a_browser("screenshots", &hostler)?.arg("--").arg(directory.canonicalize()?))
        });
    }
    Ok(steps.finish())
}

/// A host for the page in a profile (`dev`, `release`), and the agent that it drives.
pub(crate) fn host(workspace: &Workspace, profile: &str) -> Result<()> {
    succeed(workspace.cargo().args(["build", "--package", "hostler", "--profile", profile]))?;
    let directory = if profile == "dev" { "debug" } else { profile };
    succeed(Command::new(workspace.hostler(directory)).args(["agents", "install", "claude"]))
}

/// The page's directory, and what can be done there.
pub(crate) struct Web {
    home: PathBuf,
    /// Where pictures and logs of failed tests go.
    out: PathBuf,
}

impl Web {
    pub(crate) fn new(workspace: &Workspace) -> Self {
        Self { home: workspace.root.join("web"), out: workspace.target_directory.join("browser") }
    }

    /// Sees to it that a binary that is built afterwards has the page in it.
    pub(crate) fn ensure_page(&self) -> Result<()> {
        self.packages()?;
        self.build()
    }

    fn packages(&self) -> Result<()> {
        packages::ensure(&self.home, &outside::cache_home()?.join("hostler").join("tools"))
    }

    fn build(&self) -> Result<()> {
        if !page::ensure(&self.home, || succeed(&mut self.script("build")))? {
            eprintln!("the page in web/dist is up to date");
        }
        Ok(())
    }

    /// The checks that need no browser, one after the other.
    pub(crate) fn check(&self, hostler: &Path, mark: impl Fn(&mut Command) -> &mut Command) -> Result<()> {
        succeed(mark(&mut self.script("types")))?;
        succeed(mark(&mut self.script("lint")))?;
        succeed(mark(&mut self.tests(hostler)))
    }

    /// The tests that need no browser; with a host, none of them is skipped.
    fn tests(&self, hostler: &Path) -> Command {
        let mut npm = self.script("test");
        npm.env("HOSTLER_BIN", hostler);
        npm
    }

    /// The tests in the system's browser: all of them, or the files whose names contain a word.
    pub(crate) fn browser_tests(
        &self,
        hostler: &Path,
        word: Option<&str>,
        mark: impl Fn(&mut Command) -> &mut Command,
    ) -> Result<()> {
        let report = self.out.join("results.json");
        let mut npm = self.in_a_browser("browser", hostler)?;
        npm.args(["--", "--reporter=default", "--reporter=json", "--outputFile.json"]).arg(&report).args(word);
        Report::Vitest(report).succeed(mark(&mut npm))
    }

    /// A script that drives the page in the system's browser.
    pub(crate) fn in_a_browser(&self, name: &str, hostler: &Path) -> Result<Command> {
        let mut npm = self.script(name);
        npm.env("HOSTLER_BIN", hostler).env("CHROMIUM", system::chromium()?).env("BROWSER_OUT", &self.out);
        Ok(npm)
    }

    /// One of the scripts in `package.json`.
    fn script(&self, name: &str) -> Command {
        let mut npm = Command::new("npm");
        npm.args(["run", "--silent", name]).current_dir(&self.home).stdin(Stdio::null());
        npm
    }
}
