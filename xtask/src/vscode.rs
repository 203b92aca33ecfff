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

/// How the workbench is driven, and what is kept of it.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where screenshots and logs go [default: `vscode` in cargo's target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Leaves everything running afterwards, for a person, and says at which address; Ctrl-C ends it.
    #[arg(long)]
    keep: bool,
    /// Shows the browser on this machine's screen.
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
    std::fs::create_dir_all(&out).with_context(|| format!("{} could not be created", out.display()))?;
    let orders = json!({
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
    node.arg(workspace.root.join("xtask/vscode/journey.mjs")).arg(orders.to_string());
    exec_command(node)
}
