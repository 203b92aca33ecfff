//! Something that runs until a test lets it end.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::session_fixture::wait_until;

/// A shell command that says that it runs, and waits.
pub struct BlockingCommand {
    name: String,
    running: PathBuf,
    open: PathBuf,
}

impl BlockingCommand {
    pub fn new(directory: &Path, name: &str) -> Self {
        let file = |what: &str| directory.join(format!("{name}.{what}"));
        Self { name: name.to_owned(), running: file("running"), open: file("open") }
    }

    /// The input of a call of the shell, in the agent's working directory.
    pub fn bash_input(&self) -> Value {
        let name = &self.name;
        let command = format!("touch {name}.running; while [ ! -e {name}.open ]; do sleep 0.05; done");
        json!({ "command": command, "description": name })
    }

    /// The same in the background.
    pub fn background_bash_input(&self) -> Value {
        let mut call = self.bash_input();
        call["run_in_background"] = true.into();
        call
    }

    /// Waits until the command runs.
    pub async fn wait_until_running(&self) {
        wait_until(&format!("{} runs", self.name), || self.running.exists()).await;
    }

    /// Lets it end.
    pub fn release(&self) {
        std::fs::write(&self.open, "").unwrap();
    }
}
