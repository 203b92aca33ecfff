//! `cargo xtask vscode`: runs VS Code's workbench in a headless browser, as a client of Hostler on the scripted
//! model.

mod install;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::pinned_packages;
use crate::steps::{exec_command, run_command};
use crate::workspace::Workspace;

/// How the workbench runs, and what is recorded.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Writes screenshots and logs to DIR [default: `vscode` in cargo's target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Leaves everything running after the last step and prints the address; Ctrl-C ends it.
    #[arg(long)]
    keep: bool,
    /// Shows the browser window.
    #[arg(long)]
    headed: bool,
    /// Writes every frame between workbench and host to `frames.jsonl` beside the screenshots.
    #[arg(long)]
    frames: bool,
}

/// Installs what is missing, builds, and runs the script.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let parts = install::ensure_installed()?;
    run_command(workspace.cargo_command().args(["build", "--package", "hostler"]))?;
    let hostler = workspace.hostler_binary("debug");
    run_command(Command::new(&hostler).args(["agents", "install", "claude"]))?;

    let out = options.out.clone().unwrap_or_else(|| workspace.target_directory.join("vscode"));
    std::fs::create_dir_all(&out).with_context(|| format!("failed to create {}", out.display()))?;
    let settings = json!({
        "hostler": hostler,
        "server": parts.server,
        "playwright": parts.browser,
        "chromium": parts.chromium,
        "cache": pinned_packages::cache_home()?,
        "out": out.canonicalize()?,
        "keep": options.keep,
        "headed": options.headed,
        "frames": options.frames,
    });
    let mut node = Command::new(parts.node.join("bin/node"));
    node.arg(workspace.root.join("xtask/vscode/journey.mjs")).arg(settings.to_string());
    exec_command(node)
}
