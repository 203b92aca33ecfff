//! `cargo xtask bench`: measures Hostler beside a baseline or another program, as ratios. No result passes or fails.

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

/// Which benchmark, and its size.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Name of the benchmark; without a name, all of them are listed.
    name: Option<String>,
    /// Measures other programs in the same run; they are installed into the cache directory.
    #[arg(long)]
    peers: bool,
    /// Number of sessions for `list_sessions`, `search` and `transcripts`.
    #[arg(long)]
    sessions: Option<usize>,
    /// Number of turns of the chat that `open_chat` or `web` opens.
    #[arg(long)]
    turns: Option<usize>,
    /// Size of the transcript in MB that `transcripts` or `stall` opens, or `open_chat` instead of a stored chat.
    #[arg(long)]
    mb: Option<usize>,
}

const BENCHMARKS: [Benchmark; 17] = [
    Benchmark {
        package: Some("hostler"),
        name: "turn",
        about: "warm and cold first delta, delta latency and 2 000 deltas, beside Claude Code without the host",
    },
    Benchmark {
        package: Some("hostler"),
        name: "resume",
        about: "a message to a session whose idle agent was closed, beside a cold start of Claude Code alone",
    },
    Benchmark {
        package: Some("hostler"),
        name: "startup",
        about: "time to the first initialize answer, and memory when idle",
    },
    Benchmark {
        package: Some("hostler"),
        name: "fanout",
        about: "one action to 1, 200 and 1 000 subscribers: deliveries per second and CPU time",
    },
    Benchmark {
        package: Some("hostler-ahp"),
        name: "websocket",
        about: "the WebSocket server alone: fan-out, requests, uploads and memory per connection, beside tokio-tungstenite",
    },
    Benchmark {
        package: Some("hostler"),
        name: "churn",
        about: "clients that connect, create a session and disconnect: time per client, and memory that is not freed",
    },
    Benchmark {
        package: Some("hostler"),
        name: "slow_client",
        about: "latency of other clients while one client does not read, during 60 000 actions",
    },
    Benchmark {
        package: Some("hostler"),
        name: "stall",
        about: "cancel, steer and another session's message beside a stalled disk, a hanging diff preview and a transcript of 200 MB (--mb N)",
    },
    Benchmark {
        package: Some("hostler"),
        name: "gateway",
        about: "first event, events per second, CPU and memory of `hostler proxy`, beside direct requests (--peers: other proxies)",
    },
    Benchmark {
        package: Some("hostler"),
        name: "list_sessions",
        about: "list 10 000 sessions (--sessions N): stored, beside SQLite alone; external, beside the official SDK; a rename",
    },
    Benchmark {
        package: Some("hostler"),
        name: "open_chat",
        about: "open a stored chat of 20 000 turns (--turns N), beside SQLite alone; or an external one (--mb N), beside the SDK",
    },
    Benchmark {
        package: Some("hostler"),
        name: "search",
        about: "search 1 000 transcripts (--sessions N), beside grep and ripgrep; time, size and memory of the index",
    },
    Benchmark {
        package: Some("hostler-store"),
        name: "journal",
        about: "actions per second through the journal, beside SQLite alone",
    },
    Benchmark {
        package: Some("hostler-rules"),
        name: "rules",
        about: "decisions on 500 ordinary and 100 long command lines, beside the shell parser alone; threads started",
    },
    Benchmark {
        package: Some("hostler-claude"),
        name: "transcripts",
        about: "the transcript reader alone: list 5 000 (--sessions N), open one of 50 MB (--mb N), beside the official SDK",
    },
    Benchmark {
        package: Some("hostler-attachments"),
        name: "attachments",
        about: "resize a 4K screenshot and a 48 MP photo: time and peak memory (--peers: beside sharp)",
    },
    Benchmark {
        package: None,
        name: "web",
        about: "the web page: dropped frames at 200 deltas/s, time to open 5 000 turns (--turns N), size",
    },
];

/// Runs one benchmark in the release profile, or lists them all.
pub fn run(options: &Options) -> Result<ExitCode> {
    let Some(name) = options.name.as_deref() else {
        for benchmark in BENCHMARKS {
            println!("{:<14} {}", benchmark.name, benchmark.about);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let benchmark = BENCHMARKS
        .iter()
        .find(|benchmark| benchmark.name == name)
        .with_context(|| format!("unknown benchmark: {name}. Run `cargo xtask bench` to list all"))?;
    ensure!(!options.peers || !benchmark.peers().is_empty(), "--peers does not apply to {name}");
    ensure!(
        options.sessions.is_none() || ["list_sessions", "search", "transcripts"].contains(&name),
        "--sessions does not apply to {name}"
    );
    ensure!(options.turns.is_none() || ["open_chat", "web"].contains(&name), "--turns does not apply to {name}");
    ensure!(
        options.mb.is_none() || ["open_chat", "stall", "transcripts"].contains(&name),
        "--mb does not apply to {name}"
    );
    ensure!(
        options.mb.is_none() || options.turns.is_none(),
        "--turns (stored chat) and --mb (external chat) exclude each other"
    );
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
                Err(error) => println!("skipped {peer}: {error:#}\n"),
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
