//! The official SDK, which reads the same directories.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "benchmarks may panic, and share this")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use uuid::Uuid;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hostler-claude/benches/support/agent-sdk.mjs");

/// Where it is installed.
pub struct Sdk(PathBuf);

/// What it took. The start of Node.js is not counted.
#[derive(Clone, Copy)]
pub struct Theirs {
    /// The middle of all rounds.
    pub ms: f64,
    /// How many sessions or messages it found.
    pub count: u64,
    /// The highest resident memory of its process, in MiB.
    pub peak: f64,
}

impl Sdk {
    /// The one that the benchmark was started with, if it was.
    pub fn given() -> Option<Self> {
        let mut args = std::env::args().skip_while(|arg| arg != "--agent-sdk").skip(1);
        args.next().map(|home| Self(home.into()))
    }

    /// Lists what is below a configuration directory, so often in one process.
    pub fn list(&self, config: &Path, rounds: usize) -> Theirs {
        self.run(config, &json!({ "what": "list", "rounds": rounds }))
    }

    /// Reads all messages of a conversation, so often in one process.
    pub fn open(&self, config: &Path, id: Uuid, rounds: usize) -> Theirs {
        self.run(config, &json!({ "what": "open", "rounds": rounds, "id": id }))
    }

    fn run(&self, config: &Path, order: &Value) -> Theirs {
        let mut node = Command::new("node");
        node.arg(SCRIPT).arg(&self.0).arg(order.to_string()).env("CLAUDE_CONFIG_DIR", config);
        let output = node.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let number = |name: &str| said[name].as_f64().unwrap();
        Theirs { ms: number("ms"), count: said["count"].as_u64().unwrap(), peak: number("peak") }
    }
}
