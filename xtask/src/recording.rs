//! `cargo xtask recording`: records the animation at the top of the README from the real page.

mod animation;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};

use crate::steps::{OnFailure, Steps, run_command};
use crate::web::{self, WebProject};
use crate::workspace::Workspace;

/// Where the recording goes, and which host it shows.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Writes the animation to FILE [default: docs/images/recording.gif]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Writes the single frames to DIR too, as PNG files.
    #[arg(long, value_name = "DIR")]
    frames: Option<PathBuf>,
    /// Uses this `hostler` binary [default: one that is built first]
    #[arg(long, value_name = "PATH")]
    hostler: Option<PathBuf>,
}

/// Builds page and host, plays the story in a headless browser, and encodes its frames.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let web = WebProject::new(&workspace);
    let out = options.out.clone().unwrap_or_else(|| workspace.root.join("docs/images/recording.gif"));
    let scratch = tempfile::tempdir().context("failed to create a temporary directory")?;
    let frames = options.frames.clone().unwrap_or_else(|| scratch.path().to_owned());
    let mut steps = Steps::default();
    steps.run_step("page", OnFailure::Abort, || web.ensure_page());
    let hostler = match &options.hostler {
        Some(path) => path.canonicalize().with_context(|| format!("failed to find {}", path.display()))?,
        None => {
            steps.run_step("host", OnFailure::Abort, || web::build_host(&workspace, "dev"));
            workspace.hostler_binary("debug")
        }
    };
    steps.run_step("frames", OnFailure::Abort, || record_frames(&web, &hostler, &frames));
    steps.run_step("encode", OnFailure::Abort, || {
        let bytes = animation::encode_directory(&frames)?;
        std::fs::write(&out, &bytes).with_context(|| format!("failed to write {}", out.display()))?;
        eprintln!("{}: {} KB", out.display(), bytes.len() / 1024);
        Ok(())
    });
    Ok(steps.finish())
}

fn record_frames(web: &WebProject, hostler: &Path, directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("failed to create {}", directory.display()))?;
    let mut node: Command = web.browser_program("scripts/recording.ts", hostler)?;
    run_command(node.arg(directory.canonicalize()?).stdin(Stdio::null()))
}
