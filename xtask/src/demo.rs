//! `cargo xtask demo`: builds the page and the binary that embeds it, then runs `hostler demo`.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::steps::{exec_command, exit_code};
use crate::web::WebProject;
use crate::workspace::Workspace;

/// Builds the binary in the dev profile, which is quick, and execs it.
pub fn run(arguments: &[OsString]) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    WebProject::new(&workspace).ensure_page()?;
    let built =
        workspace.cargo_command().args(["build", "--package", "hostler"]).status().context("failed to start cargo")?;
    if !built.success() {
        return Ok(exit_code(built));
    }
    let mut hostler = Command::new(workspace.hostler_binary("debug"));
    hostler.arg("demo").args(arguments);
    exec_command(hostler)
}
