//! `cargo xtask bench`: numbers beside a baseline or a peer, as ratios. No result passes or fails by time.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};

use crate::pinned_packages;
use crate::steps::run_command;
use crate::web::{self, WebProject};
use crate::workspace::Workspace;

/// Benchmark.
struct Benchmark {
    /// Package of the bench target; the page's benchmark is a script and has none.
    package: Option<&'static str>,
    name: &'static str,
    about: &'static str,
}

impl Benchmark {
    /// Returns other programs that can be measured.
    fn peers(&self) -> &'static [&'static str] {
        match self.name {
            "gateway" => &["claude-code-router", "litellm"],
            "attachments" => &["sharp"],
            "list_sessions" | "open_chat" | "transcripts" => &["agent-sdk"],
            _ => &[],
        }
    }

    /// Returns whether its peers are measured each time, because the comparison on the same files is the purpose.
    fn always_measures_peers(&self, options: &Options) -> bool {
        options.peers
            || ["list_sessions", "transcripts"].contains(&self.name)
            || (self.name == "open_chat" && options.mb.is_some())
    }
}

/// Which benchmark.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Its name; without one, they are listed.
    name: Option<String>,
    /// Measures other programs in the same run; they are fetched into the cache directory once.
    #[arg(long)]
    peers: bool,
    /// How many sessions `list` and `transcripts` list, and `search` searches.
    #[arg(long)]
    sessions: Option<usize>,
    /// How many turns the chat has that `open` or `web` opens.
    #[arg(long)]
    turns: Option<usize>,
    /// How large the transcript is that `transcripts` opens, or `open`, instead of a stored chat.
    #[arg(long)]
    mb: Option<usize>,
}

const BENCHMARKS: [Benchmark; 14] = [
    Benchmark {
        package: Some("hostler"),
        name: "turn",
        about: "warm and cold first delta, delta latency and 2 000 deltas, beside driving the executable directly",
    },
    Benchmark {
        package: Some("hostler"),
        name: "resume",
        about: "a message to a session whose idle agent was closed, beside a cold start of the executable alone",
    },
    Benchmark {
        package: Some("hostler"),
        name: "startup",
        about: "time to the first initialize answer, and memory when idle",
    },
    Benchmark {
        package: Some("hostler"),
        name: "fanout",
        about: "one action to 1, 200 and 1 000 readers; deliveries a second and their cost",
    },
    Benchmark {
        package: Some("hostler"),
        name: "churn",
        about: "clients that come, make a session and leave: time of each, and what is left of them",
    },
    Benchmark {
        package: Some("hostler"),
        name: "slow_client",
        about: "readers beside one that does not read, during 60 000 actions",
    },
    Benchmark {
        package: Some("hostler"),
        name: "gateway",
        about: "first event, events a second, CPU and memory of `hostler proxy`, beside the upstream without it (--peers)",
    },
    Benchmark {
        package: Some("hostler"),
        name: "list_sessions",
        about: "the list of 10 000 sessions (--sessions N): stored, beside SQLite alone; found, beside the official SDK; a new name",
    },
    Benchmark {
        package: Some("hostler"),
        name: "open_chat",
        about: "a chat of 20 000 turns (--turns N), beside SQLite alone; or a found one (--mb N), beside the official SDK",
    },
    Benchmark {
        package: Some("hostler"),
        name: "search",
        about: "words of 1 000 transcripts (--sessions N) found; the index made, its size, memory; beside grep and ripgrep",
    },
    Benchmark {
        package: Some("hostler-store"),
        name: "journal",
        about: "actions a second through the journal, beside SQLite alone",
    },
    Benchmark {
        package: Some("hostler-claude"),
        name: "transcripts",
        about: "the reader alone: 5 000 transcripts listed (--sessions N), one of 50 MB opened (--mb N); beside the official SDK",
    },
    Benchmark {
        package: Some("hostler-attachments"),
        name: "attachments",
        about: "a 4K screenshot and a 48 MP photo made deliverable: time and peak memory (--peers: beside sharp)",
    },
    Benchmark {
        package: None,
        name: "web",
        about: "the page: frames dropped at 200 deltas/s, beside none; 5 000 turns (--turns N) usable, beside one; its size",
    },
];

/// Runs one benchmark in the release profile, or lists them all.
pub fn run(options: &Options) -> Result<ExitCode> {
    let Some(name) = options.name.as_deref() else {
        for benchmark in BENCHMARKS {
            println!("{:<10} {}", benchmark.name, benchmark.about);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let benchmark = BENCHMARKS
        .iter()
        .find(|benchmark| benchmark.name == name)
        .with_context(|| format!("there is no benchmark called \"{name}\"; `cargo xtask bench` lists them"))?;
    ensure!(!options.peers || !benchmark.peers().is_empty(), "the benchmark \"{name}\" has no peers");
    ensure!(
        options.sessions.is_none() || ["list_sessions", "search", "transcripts"].contains(&name),
        "the benchmark \"{name}\" lists no sessions"
    );
    ensure!(options.turns.is_none() || ["open_chat", "web"].contains(&name), "the benchmark \"{name}\" opens no chat");
    ensure!(
        options.mb.is_none() || ["open_chat", "transcripts"].contains(&name),
        "the benchmark \"{name}\" opens no transcript"
    );
    ensure!(options.mb.is_none() || options.turns.is_none(), "a chat is stored (--turns) or found (--mb)");
    println!("{}: {}\n", benchmark.name, benchmark.about);
    let workspace = Workspace::load()?;
    let mut bench = benchmark_command(&workspace, benchmark)?;
    for (option, count) in [("--sessions", options.sessions), ("--turns", options.turns), ("--mb", options.mb)] {
        if let Some(count) = count {
            bench.arg(option).arg(count.to_string());
        }
    }
    if benchmark.always_measures_peers(options) {
        for peer in benchmark.peers() {
            match pinned_packages::ensure_package(peer) {
                Ok(home) => {
                    bench.arg(format!("--{peer}")).arg(home);
                }
                // The other peers are still measured, and the output reports the missing one.
                Err(error) => println!("{peer} is not measured: {error:#}\n"),
            }
        }
    }
    run_command(&mut bench)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command of a benchmark; its options follow.
fn benchmark_command(workspace: &Workspace, benchmark: &Benchmark) -> Result<Command> {
    let Some(package) = benchmark.package else {
        let web = WebProject::new(workspace);
        web.ensure_page()?;
        web::build_host(workspace, "release")?;
        let mut npm = web.browser_script("bench", &workspace.hostler_binary("release"))?;
        npm.arg("--");
        return Ok(npm);
    };
    let mut cargo = workspace.cargo_command();
    cargo.args(["bench", "--quiet", "--package", package, "--bench", benchmark.name, "--"]);
    Ok(cargo)
}
