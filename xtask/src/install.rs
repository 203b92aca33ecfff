//! `cargo xtask install`: builds the page, then installs the release binary that contains it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::steps::{OnFailure, Steps, run_command};
use crate::web::WebProject;
use crate::workspace::Workspace;

/// Where to install.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Installs into DIR/bin [default: the directory of `cargo install`]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Builds the page, then runs `cargo install`.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    steps.run_step("page", OnFailure::Abort, || WebProject::new(&workspace).ensure_page());
    steps.run_step("install", OnFailure::Abort, || {
        let mut cargo = workspace.cargo_command();
        cargo.args(["install", "--locked", "--path", "crates/hostler"]);
        if let Some(root) = &options.root {
            cargo.arg("--root").arg(root);
        }
        run_command(&mut cargo)
    });
    Ok(steps.finish())
}
