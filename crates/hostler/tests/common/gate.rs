//! Something that runs until a test lets it end.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::bench::eventually;

/// A shell command that says that it runs, and waits.
pub struct Gate {
    name: String,
    running: PathBuf,
    open: PathBuf,
}

impl Gate {
    pub fn new(directory: &Path, name: &str) -> Self {
        let file = |what: &str| directory.join(format!("{name}.{what}"));
        Self { name: name.to_owned(), running: file("running"), open: file("open") }
    }

    /// The input of a call of the shell, in the agent's working directory.
    pub fn call(&self) -> Value {
        let name = &self.name;
        let command = format!("touch {name}.running; while [ ! -e {name}.open ]; do sleep 0.05; done");
        json!({ "command": command, "description": name })
    }

    /// The same in the background.
    pub fn job(&self) -> Value {
        let mut call = self.call();
        call["run_in_background"] = true.into();
        call
    }

    /// Waits until the command runs.
    pub async fn reached(&self) {
        eventually(&format!("{} runs", self.name), || self.running.exists()).await;
    }

    /// Lets it end.
    pub fn open(&self) {
        std::fs::write(&self.open, "").unwrap();
    }
}
