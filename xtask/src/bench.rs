//! `cargo xtask bench`: numbers beside their floor or peer, as ratios. Nothing here passes or fails by time.

mod startup;
mod table;
mod turn;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::steps::succeed;
use crate::workspace::Workspace;

pub use self::table::{Row, Table};

/// What a benchmark runs against.
#[derive(Debug)]
pub struct Release {
    /// The `hostler` binary of the release profile.
    pub hostler: PathBuf,
    /// The workspace that it was built from.
    pub workspace: Workspace,
}

/// One benchmark.
struct Benchmark {
    name: &'static str,
    about: &'static str,
    measure: fn(&Release) -> Result<Table>,
}

const BENCHMARKS: [Benchmark; 2] = [
    Benchmark {
        name: "turn",
        about: "warm and cold first delta and 2 000 deltas through the host, beside driving the executable directly",
        measure: turn::measure,
    },
    Benchmark {
        name: "startup",
        about: "time to the first initialize answer, and memory when idle",
        measure: startup::measure,
    },
];

/// Runs one benchmark, or lists them all.
pub fn run(name: Option<&str>) -> Result<ExitCode> {
    let Some(name) = name else {
        for benchmark in BENCHMARKS {
            println!("{:<10} {}", benchmark.name, benchmark.about);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let benchmark = BENCHMARKS
        .into_iter()
        .find(|benchmark| benchmark.name == name)
        .with_context(|| format!("there is no benchmark called \"{name}\"; `cargo xtask bench` lists them"))?;
    let workspace = Workspace::load()?;
    succeed(workspace.cargo().args(["build", "--release", "--workspace", "--exclude", "xtask", "--bins"]))?;
    let release = Release { hostler: workspace.hostler("release"), workspace };
    let table = (benchmark.measure)(&release)?;
    println!("{}: {}\n\n{table}", benchmark.name, benchmark.about);
    Ok(ExitCode::SUCCESS)
}
