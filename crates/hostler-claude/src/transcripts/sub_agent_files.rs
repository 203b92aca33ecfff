//! The transcripts of a conversation's sub-agents: files beside it, each named after its sub-agent.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{RecordId, SubAgentQuery, TranscriptIndex, regular_file};

/// Longer transcripts of sub-agents are not read, because a replay holds one in memory as a whole.
const MAX_SUB_AGENT_TRANSCRIPT_BYTES: u64 = 32 * 1024 * 1024;

/// How much is read of a file that no result names, to find its call.
const MAX_HEAD_BYTES: u64 = 1024 * 1024;

/// How many damaged lines per file are listed; further ones are only counted.
const MAX_REPORTED_LINES: usize = 4;

/// Why the transcript of a sub-agent cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubAgentTranscriptError {
    /// It exceeds the size limit.
    #[error("its transcript is larger than {} MiB", MAX_SUB_AGENT_TRANSCRIPT_BYTES / (1024 * 1024))]
    TooLarge,
    /// The file cannot be read.
    #[error("failed to read its transcript: {0}")]
    Unreadable(String),
}

impl From<io::Error> for SubAgentTranscriptError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// The files that existed when the conversation was opened.
#[derive(Debug, Default)]
pub(super) struct SubAgentFiles {
    files: HashMap<RecordId, SubAgentFile>,
    /// Those that no result names; read on first use.
    unnamed: OnceLock<Vec<UnreferencedSubAgent>>,
}

/// One file.
#[derive(Debug)]
struct SubAgentFile {
    id: String,
    path: PathBuf,
    /// Its length.
    size_bytes: u64,
}

/// One that no result names, with what is known of its call.
#[derive(Debug)]
struct UnreferencedSubAgent {
    agent: RecordId,
    call: Option<String>,
    prompt: Option<String>,
    message: Option<String>,
}

impl SubAgentFiles {
    /// The files of a conversation. Most conversations have none.
    pub(super) fn for_transcript(transcript: &Path) -> Self {
        let entries = fs::read_dir(transcript.with_extension("").join("subagents"));
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        let files = paths.filter_map(|path| {
            let id = path.file_name()?.to_str()?.strip_prefix("agent-")?.strip_suffix(".jsonl")?.to_owned();
            let bytes = fs::metadata(&path).map_or(0, |facts| facts.len());
            Some((RecordId::from_name(&id), SubAgentFile { id, path, size_bytes: bytes }))
        });
        Self { files: files.collect(), unnamed: OnceLock::new() }
    }

    /// Bytes to read for one; 0 if there is none.
    pub(super) fn size_bytes(&self, agent: RecordId) -> u64 {
        self.files
            .get(&agent)
            .map(|file| file.size_bytes)
            .filter(|bytes| *bytes <= MAX_SUB_AGENT_TRANSCRIPT_BYTES)
            .unwrap_or_default()
    }

    /// The id of one, from its file name.
    pub(super) fn id(&self, agent: RecordId) -> Option<&str> {
        self.files.get(&agent).map(|file| file.id.as_str())
    }

    /// The whole transcript of one, or why it cannot be read. The id comes from a file that any program may have
    /// written: only files in the directory are ever opened.
    pub(super) fn read_transcript(&self, agent: RecordId) -> Option<Result<Vec<u8>, SubAgentTranscriptError>> {
        let path = &self.files.get(&agent)?.path;
        match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(error.into())),
            Ok(text) if text.len() as u64 > MAX_SUB_AGENT_TRANSCRIPT_BYTES => {
                Some(Err(SubAgentTranscriptError::TooLarge))
            }
            Ok(text) => Some(Ok(text)),
        }
    }

    /// The one that a call has started, among those that no result names and that are not replayed yet. A call
    /// contains the prompt, and some builds note the call beside the transcript.
    pub(super) fn find_by_call(
        &self,
        asked: SubAgentQuery<'_>,
        is_named: impl Fn(RecordId) -> bool,
        is_replayed: impl Fn(RecordId) -> bool,
    ) -> Option<RecordId> {
        let SubAgentQuery::ByCall { call, prompt, message } = asked else { return None };
        let unnamed = self.unnamed.get_or_init(|| {
            let mut unnamed: Vec<_> = self.files.iter().filter(|(agent, _)| !is_named(**agent)).collect();
            unnamed.sort_by_key(|(_, file)| &file.id);
            unnamed.into_iter().map(|(agent, file)| UnreferencedSubAgent::read(*agent, &file.path)).collect()
        });
        let made = unnamed.iter().filter(|one| !is_replayed(one.agent)).find(|one| match &one.call {
            Some(made_by) => made_by == call,
            None => one.prompt.as_deref() == Some(prompt) && one.message.as_deref() == message,
        });
        made.map(|one| one.agent)
    }

    /// Their damage, in sentences.
    pub(super) fn damage(&self) -> Vec<String> {
        let mut files: Vec<_> = self.files.values().collect();
        files.sort_by(|a, b| a.id.cmp(&b.id));
        files
            .into_iter()
            .flat_map(|file| file.damage().into_iter().map(|what| format!("sub-agent {}: {what}", file.id)))
            .collect()
    }
}

impl SubAgentFile {
    fn damage(&self) -> Vec<String> {
        let index = regular_file::open_regular_file(&self.path).and_then(|(file, facts)| match facts.len() {
            0..=MAX_SUB_AGENT_TRANSCRIPT_BYTES => {
                TranscriptIndex::read(&mut BufReader::with_capacity(256 * 1024, file)).map(Some)
            }
            _ => Ok(None),
        });
        match index {
            Ok(Some(index)) => index.damage.describe(MAX_REPORTED_LINES),
            Ok(None) => vec![SubAgentTranscriptError::TooLarge.to_string()],
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => vec![SubAgentTranscriptError::from(error).to_string()],
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (file, _) = regular_file::open_regular_file(path)?;
    let mut text = Vec::new();
    file.take(MAX_SUB_AGENT_TRANSCRIPT_BYTES + 1).read_to_end(&mut text)?;
    Ok(text)
}

impl UnreferencedSubAgent {
    fn read(agent: RecordId, path: &Path) -> Self {
        #[derive(Deserialize)]
        struct First<'a> {
            #[serde(rename = "promptId", default)]
            message: Option<String>,
            #[serde(rename = "message", borrow, default)]
            said: Option<Said<'a>>,
        }
        #[derive(Deserialize)]
        struct Said<'a> {
            #[serde(borrow, default)]
            content: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Beside {
            #[serde(rename = "toolUseId", default)]
            call: Option<String>,
        }
        let first = read_head(path, b'\n').unwrap_or_default();
        let first: Option<First<'_>> = serde_json::from_slice(&first).ok();
        let prompt = first
            .as_ref()
            .and_then(|first| first.said.as_ref()?.content)
            .and_then(|content| prompt_text(content.get()));
        // No byte of JSON in UTF-8 has this value, so the whole file is read.
        let beside = read_head(&path.with_extension("meta.json"), 0xFF).unwrap_or_default();
        let beside: Option<Beside> = serde_json::from_slice(&beside).ok();
        Self {
            agent,
            call: beside.and_then(|beside| beside.call),
            prompt,
            message: first.and_then(|first| first.message),
        }
    }
}

/// The start of a file, up to this byte.
fn read_head(path: &Path, until: u8) -> io::Result<Vec<u8>> {
    let (file, _) = regular_file::open_regular_file(path)?;
    let mut text = Vec::new();
    BufReader::new(file.take(MAX_HEAD_BYTES)).read_until(until, &mut text)?;
    Ok(text)
}

/// A sub-agent's prompt, which is one text.
fn prompt_text(content: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Block {
        text: String,
    }
    let text = || serde_json::from_str::<String>(content).ok();
    text().or_else(|| match serde_json::from_str::<Vec<Block>>(content).ok()?.as_mut_slice() {
        [block] => Some(std::mem::take(&mut block.text)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("c/subagents");
        fs::create_dir_all(&directory).unwrap();
        (home, directory)
    }

    #[test]
    fn sub_agent_id_cannot_escape_the_directory() {
        let (home, directory) = place();
        fs::write(home.path().join("c/secret.jsonl"), "x").unwrap();
        fs::write(directory.join("agent-a1.jsonl"), "four").unwrap();
        fs::write(directory.join("agent-a1.meta.json"), "{}").unwrap();
        let files = SubAgentFiles::for_transcript(&home.path().join("c.jsonl"));
        assert_eq!(files.read_transcript(RecordId::from_name("a1")), Some(Ok(b"four".to_vec())));
        assert_eq!((files.size_bytes(RecordId::from_name("a1")), files.id(RecordId::from_name("a1"))), (4, Some("a1")));
        for id in ["", "../secret", "a1/../../secret", "\0", "a2", "é", "a1.meta.json"] {
            assert_eq!(
                (files.read_transcript(RecordId::from_name(id)), files.size_bytes(RecordId::from_name(id))),
                (None, 0),
                "{id:?}"
            );
        }
        assert!(SubAgentFiles::for_transcript(&home.path().join("d.jsonl")).files.is_empty());
    }

    #[test]
    fn too_long_or_irregular_file_is_reported() {
        let (home, directory) = place();
        fs::File::create(directory.join("agent-long.jsonl"))
            .unwrap()
            .set_len(MAX_SUB_AGENT_TRANSCRIPT_BYTES + 1)
            .unwrap();
        fs::create_dir(directory.join("agent-odd.jsonl")).unwrap();
        fs::write(directory.join("agent-torn.jsonl"), "noise\n{\"cut").unwrap();
        let files = SubAgentFiles::for_transcript(&home.path().join("c.jsonl"));
        let why = |id: &str| files.read_transcript(RecordId::from_name(id)).unwrap().unwrap_err();
        assert_eq!(why("long"), SubAgentTranscriptError::TooLarge);
        assert_eq!(why("odd"), SubAgentTranscriptError::Unreadable("not a regular file".to_owned()));
        assert_eq!(files.size_bytes(RecordId::from_name("long")), 0, "it is not read");
        assert_eq!(
            files.damage(),
            [
                "sub-agent long: its transcript is larger than 32 MiB",
                "sub-agent odd: failed to read its transcript: not a regular file",
                "sub-agent torn: line 1 is not a record (column 2)",
                "sub-agent torn: 5 bytes at the end are an incomplete record",
            ]
        );
    }

    #[test]
    fn unreferenced_sub_agent_is_found_by_its_call() {
        let (home, directory) = place();
        let first = |message: &str, content: &str| {
            format!("{{\"type\":\"user\",\"promptId\":\"{message}\",\"message\":{{\"content\":{content}}}}}\nmore\n")
        };
        fs::write(directory.join("agent-a1.jsonl"), first("m1", "\"look\"")).unwrap();
        fs::write(directory.join("agent-a2.jsonl"), first("m2", "[{\"type\":\"text\",\"text\":\"look\"}]")).unwrap();
        fs::write(directory.join("agent-a3.jsonl"), first("m1", "\"look\"")).unwrap();
        fs::write(directory.join("agent-a3.meta.json"), "{\"agentType\":\"x\",\"toolUseId\":\"t3\"}").unwrap();
        fs::write(directory.join("agent-a4.jsonl"), first("m1", "\"named\"")).unwrap();
        let files = SubAgentFiles::for_transcript(&home.path().join("c.jsonl"));
        let but = |replayed: &str, call: &str, prompt: &str, message: &str| {
            let is = |id: &str| {
                let id = RecordId::from_name(id);
                move |agent| agent == id
            };
            let asked = SubAgentQuery::ByCall { call, prompt, message: Some(message) };
            files.find_by_call(asked, is("a4"), is(replayed)).and_then(|agent| files.id(agent))
        };
        let ask = |call: &str, prompt: &str, message: &str| but("", call, prompt, message);
        assert_eq!(ask("t1", "look", "m1"), Some("a1"));
        assert_eq!(ask("t2", "look", "m2"), Some("a2"));
        assert_eq!(ask("t3", "anything", "m9"), Some("a3"));
        assert_eq!(but("a1", "t1", "look", "m1"), None, "it was replayed already");
        for (prompt, message) in [("look", "m3"), ("find", "m1"), ("named", "m1")] {
            assert_eq!(ask("t9", prompt, message), None, "{prompt} {message}");
        }
    }
}
