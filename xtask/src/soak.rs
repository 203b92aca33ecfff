//! `cargo xtask soak`: sends very many requests through the gateway, most of them with faults; no resources may
//! leak.

use std::process::ExitCode;

use anyhow::Result;

use crate::steps::run_command;
use crate::workspace::Workspace;

/// Size and seed of the test.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Total number of requests.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    requests: u64,
    /// Seed of the random faults; the same seed repeats the same faults.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the gateway's soak test, which is small by default, in the release profile and at this size.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let mut test = workspace.cargo_command();
    test.args(["test", "--quiet", "--release", "--package", "hostler-gateway", "--test", "soak"]);
    test.args(["--", "--nocapture"]).env("HOSTLER_SOAK_REQUESTS", options.requests.to_string());
    if let Some(seed) = options.seed {
        test.env("HOSTLER_SOAK_SEED", seed.to_string());
    }
    run_command(&mut test)?;
    Ok(ExitCode::SUCCESS)
}
