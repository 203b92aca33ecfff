//! Locates the transcript of a running conversation.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hostler_process::Environment;
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::{self, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

/// Longer slugs are truncated here and get a hash.
const MAX_SLUG_CHARS: usize = 200;

/// A longer file is never considered empty.
const MAX_EMPTY_TRANSCRIPT_BYTES: u64 = 1024 * 1024;

/// What is stored of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TranscriptPresence {
    /// No transcript.
    Missing,
    /// A file without a message, as left by an agent that was killed right after its first prompt. It cannot be
    /// resumed, but its id counts as used.
    Empty(PathBuf),
    /// A transcript that can be resumed.
    Resumable(PathBuf),
}

/// The configuration directory of an agent with this environment.
pub(crate) fn config_directory<'a>(variable: impl Fn(&str) -> Option<&'a OsStr>) -> Option<PathBuf> {
    let home = || variable("HOME").map(|home| Path::new(home).join(".claude"));
    let set = |value: &&OsStr| !value.is_empty();
    variable("CLAUDE_CONFIG_DIR").filter(set).map(PathBuf::from).or_else(home)
}

/// Finds the transcripts of conversations that run in one directory.
#[derive(Debug, Clone)]
pub(crate) struct TranscriptLocator {
    directory: Option<PathBuf>,
    working_directory: PathBuf,
}

impl TranscriptLocator {
    /// For an agent with this environment in this directory (links resolved).
    pub(crate) fn new(environment: &Environment, working_directory: &Path) -> Self {
        let config = config_directory(|name| environment.get(name));
        let slug = working_directory.to_str().map(project_slug);
        let directory = config.zip(slug).map(|(config, slug)| config.join("projects").join(slug));
        Self { directory, working_directory: working_directory.to_owned() }
    }

    /// The agent's working directory, links resolved.
    pub(crate) fn working_directory(&self) -> &Path {
        &self.working_directory
    }

    /// What is stored of a conversation.
    pub(crate) async fn find(&self, session: &str) -> TranscriptPresence {
        match &self.directory {
            Some(directory) => inspect_transcript(directory.join(format!("{session}.jsonl"))).await,
            None => TranscriptPresence::Missing,
        }
    }
}

/// What is stored at this path.
pub(crate) async fn inspect_transcript(path: PathBuf) -> TranscriptPresence {
    if !tokio::fs::metadata(&path).await.is_ok_and(|file| file.is_file()) {
        return TranscriptPresence::Missing;
    }
    match has_message(&path).await {
        Ok(false) => TranscriptPresence::Empty(path),
        // If it cannot be read, the agent reports it.
        Ok(true) | Err(_) => TranscriptPresence::Resumable(path),
    }
}

/// Whether a transcript contains a whole message. An agent that is killed at its first prompt leaves queue and environment
/// records, and perhaps a partial message; neither build resumes from those.
async fn has_message(path: &Path) -> io::Result<bool> {
    let file = File::open(path).await?;
    if file.metadata().await?.len() > MAX_EMPTY_TRANSCRIPT_BYTES {
        return Ok(true);
    }
    let mut lines = BufReader::new(file.take(MAX_EMPTY_TRANSCRIPT_BYTES));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await? > 0 {
        let record = serde_json::from_slice::<RecordType<'_>>(&line);
        if record.is_ok_and(|record| matches!(&*record.kind, "user" | "assistant")) {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
}

/// A transcript line's type.
#[derive(Deserialize)]
struct RecordType<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

/// The name of a directory's folder under `projects`: everything but letters and digits becomes a dash.
fn project_slug(directory: &str) -> String {
    // The agent counts UTF-16 units: a character outside the basic plane becomes two dashes.
    let dashed: String = directory
        .encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '-',
        })
        .collect();
    if dashed.len() <= MAX_SLUG_CHARS {
        return dashed;
    }
    let hash = directory.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let start: String = dashed.chars().take(MAX_SLUG_CHARS).collect();
    format!("{start}-{}", base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slug_has_letters_digits_and_dashes() {
        assert_eq!(project_slug("/home/me/My Project_1"), "-home-me-My-Project-1");
        assert_eq!(project_slug("/ä/🦀"), "-----");
    }

    #[test]
    fn long_slug_is_truncated_and_hashed() {
        let slug = project_slug(&format!("/{}", "a".repeat(300)));
        let (start, hash) = slug.split_at(MAX_SLUG_CHARS);
        assert_eq!(start, format!("-{}", "a".repeat(199)));
        assert!(hash.starts_with('-') && hash.len() > 1, "{hash}");
        assert_eq!(base36(0), "0");
        assert_eq!(base36(36 * 36 + 35), "10z");
    }

    #[tokio::test]
    async fn transcript_without_a_message_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.jsonl");
        assert_eq!(inspect_transcript(path.clone()).await, TranscriptPresence::Missing);
        assert_eq!(inspect_transcript(directory.path().to_owned()).await, TranscriptPresence::Missing);
        let queue = r#"{"type":"queue-operation","operation":"enqueue","sessionId":"c"}"#;
        for (text, stub) in [
            (String::new(), true),
            (format!("{queue}\n{queue}\n"), true),
            (format!("{queue}\n{{\"type\":\"user\"}}\n"), false),
            (format!("{queue}\n{{\"type\":\"us"), true),
            (format!("{queue}\n{{\"type\":\"attachment\"}}\n"), true),
            (format!("{queue}\n{{\"type\":\"attachment\"}}\n{{\"type\":\"assistant\"}}"), false),
            (format!("{queue}\n").repeat(20_000), false),
        ] {
            std::fs::write(&path, &text).unwrap();
            let expected = if stub {
                TranscriptPresence::Empty(path.clone())
            } else {
                TranscriptPresence::Resumable(path.clone())
            };
            assert_eq!(inspect_transcript(path.clone()).await, expected, "{} bytes", text.len());
        }
    }

    #[test]
    fn configuration_directory_is_respected() {
        let mut environment = Environment::from_vars([("HOME".into(), "/home/me".into())]);
        let directory = |environment: &Environment| TranscriptLocator::new(environment, Path::new("/p")).directory;
        assert_eq!(directory(&environment), Some("/home/me/.claude/projects/-p".into()));
        environment.set("CLAUDE_CONFIG_DIR", "/c");
        assert_eq!(directory(&environment), Some("/c/projects/-p".into()));
        assert_eq!(directory(&Environment::default()), None);
    }
}
