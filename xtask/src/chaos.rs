//! `cargo xtask chaos`: injects faults at random times during random work; no acknowledged change may be lost.

use std::process::ExitCode;

use anyhow::Result;

use crate::setup;
use crate::steps::run_command;
use crate::workspace::Workspace;

/// Agent that the host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Agent {
    /// A fast fake agent.
    Fake,
    /// The native build of Claude Code.
    Native,
    /// The build of Claude Code that runs on Node.js.
    Js,
    /// Mostly the fake agent, sometimes a real one.
    Mixed,
}

/// Size and seed of the test.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Total number of runs.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seed of the first run; each further run uses the next number. The same seed repeats the same run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Agent that the host runs.
    #[arg(long, value_enum, default_value_t = Agent::Mixed)]
    agent: Agent,
}

/// Runs the binary's chaos test, which is small by default, at this size.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let agent = match options.agent {
        Agent::Fake => "fake",
        Agent::Native => "native",
        Agent::Js => "js",
        Agent::Mixed => "mixed",
    };
    if options.agent != Agent::Fake {
        run_command(workspace.cargo_command().args(["build", "--package", "hostler", "--bins"]))?;
        setup::install_agents(&workspace)?;
    }
    let mut test = workspace.cargo_command();
    test.args(["test", "--quiet", "--package", "hostler", "--test", "it", "--", "chaos::", "--nocapture"]);
    test.env("HOSTLER_CHAOS_RUNS", options.runs.to_string());
    test.env("HOSTLER_CHAOS_SEED", options.seed.to_string());
    test.env("HOSTLER_CHAOS_AGENT", agent);
    run_command(&mut test)?;
    Ok(ExitCode::SUCCESS)
}
