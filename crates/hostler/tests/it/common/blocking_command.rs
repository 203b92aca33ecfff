//! Command that runs until a test releases it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::session_fixture::wait_until;

/// Shell command that reports that it runs, and waits.
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

    /// Returns the input of a shell call, in the agent's working directory.
    pub fn bash_input(&self) -> Value {
        let name = &self.name;
        let command = format!("touch {name}.running; while [ ! -e {name}.open ]; do sleep 0.05; done");
        json!({ "command": command, "description": name })
    }

    /// Does the same in the background.
    pub fn background_bash_input(&self) -> Value {
        let mut call = self.bash_input();
        call["run_in_background"] = true.into();
        call
    }

    /// Waits until the command runs.
    pub async fn wait_until_running(&self) {
        wait_until(&format!("{} runs", self.name), || self.running.exists()).await;
    }

    /// Lets the command end.
    pub fn release(&self) {
        std::fs::write(&self.open, "").unwrap();
    }
}
