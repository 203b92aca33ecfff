//! Measures the official SDK on the same directories.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "benchmarks may panic, and share this")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use uuid::Uuid;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hostler-claude/benches/support/agent-sdk.mjs");

/// The SDK's installation directory.
pub struct Sdk(PathBuf);

/// A measurement. The start of Node.js is not included.
#[derive(Clone, Copy)]
pub struct Theirs {
    /// The median of all rounds.
    pub ms: f64,
    /// How many sessions or messages it found.
    pub count: u64,
    /// The highest resident memory of its process, in MiB.
    pub peak: f64,
}

impl Sdk {
    /// The SDK from the benchmark's arguments, if one was given.
    pub fn given() -> Option<Self> {
        let mut args = std::env::args().skip_while(|arg| arg != "--agent-sdk").skip(1);
        args.next().map(|home| Self(home.into()))
    }

    /// Lists the sessions below a configuration directory, repeatedly in one process.
    pub fn list(&self, config: &Path, rounds: usize) -> Theirs {
        self.run(config, &json!({ "what": "list", "rounds": rounds }))
    }

    /// Reads all messages of a conversation, repeatedly in one process.
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
