//! Transcript file, as far as hosts use it: it exists, and ids that are used or missing are rejected.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;
use uuid::Uuid;

use crate::output;

/// Requested conversation.
pub(crate) struct TranscriptFile {
    /// The conversation's id.
    pub(crate) conversation_id: String,
    /// Its transcript.
    pub(crate) path: PathBuf,
}

impl TranscriptFile {
    /// Finds or starts the conversation; `None` if it was rejected, with the reason printed.
    pub(crate) fn open() -> Result<Option<Self>> {
        let flag = |name: &str| env::args().find_map(|argument| argument.strip_prefix(name).map(str::to_owned));
        let folder = project_directory()?;
        if let Some(token) = flag("--resume=") {
            let path = if token.contains('/') { PathBuf::from(&token) } else { folder.join(format!("{token}.jsonl")) };
            if !path.is_file() {
                let error = format!("No conversation found with session ID: {token}");
                output::print_message(
                    &json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
                    "errors": [error], "usage": {}, "permission_denials": [], "session_id": token}),
                )?;
                return Ok(None);
            }
            let session = path.file_stem().context("a transcript has a name")?.to_string_lossy().into_owned();
            return Ok(Some(Self { conversation_id: session, path }));
        }
        let session = flag("--session-id=").unwrap_or_else(|| Uuid::new_v4().to_string());
        let path = folder.join(format!("{session}.jsonl"));
        if path.exists() {
            let _ = writeln!(std::io::stderr(), "Error: Session ID {session} is already in use.");
            return Ok(None);
        }
        Ok(Some(Self { conversation_id: session, path }))
    }

    /// Appends a prompt.
    pub(crate) fn append(&self, prompt: &str) -> Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&self.path)?;
        let record =
            json!({"type": "user", "sessionId": self.conversation_id, "message": {"role": "user", "content": prompt}});
        file.write_all(format!("{record}\n").as_bytes())?;
        Ok(())
    }
}

fn project_directory() -> Result<PathBuf> {
    let config = match env::var_os("CLAUDE_CONFIG_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(env::var_os("HOME").unwrap_or_else(|| env::temp_dir().into())).join(".claude"),
    };
    let directory = env::current_dir()?.canonicalize()?;
    let slug: String =
        directory.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Ok(config.join("projects").join(slug))
}
