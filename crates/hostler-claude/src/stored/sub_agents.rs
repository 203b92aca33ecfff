//! The transcripts of a conversation's sub-agents: files of their own beside it, each named by its agent.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::RecordId;

/// Those that there were when the conversation was opened.
#[derive(Debug, Default)]
pub(super) struct SubAgentFiles(HashMap<RecordId, SubAgentFile>);

/// One of them.
#[derive(Debug)]
struct SubAgentFile {
    path: PathBuf,
    /// How long it was.
    bytes: u64,
}

impl SubAgentFiles {
    /// Those of a conversation. Most have none.
    pub(super) fn of(transcript: &Path) -> Self {
        let entries = fs::read_dir(transcript.with_extension("").join("subagents"));
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        let files = paths.filter_map(|path| {
            let id = path.file_name()?.to_str()?.strip_prefix("agent-")?.strip_suffix(".jsonl").map(RecordId::of)?;
            let bytes = fs::metadata(&path).map_or(0, |facts| facts.len());
            Some((id, SubAgentFile { path, bytes }))
        });
        Self(files.collect())
    }

    /// How long the transcript of one is; nothing where there is none.
    pub(super) fn bytes(&self, agent: RecordId) -> u64 {
        self.0.get(&agent).map_or(0, |file| file.bytes)
    }

    /// Where the transcript of one is. Its id stands in a file that anybody may have written: only what lies in the directory
    /// is ever named.
    pub(super) fn path(&self, agent: RecordId) -> Option<&Path> {
        self.0.get(&agent).map(|file| file.path.as_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_agents_name_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("c/subagents");
        fs::create_dir_all(&directory).unwrap();
        fs::write(home.path().join("c/secret.jsonl"), "x").unwrap();
        fs::write(directory.join("agent-a1.jsonl"), "four").unwrap();
        fs::write(directory.join("agent-a1.meta.json"), "{}").unwrap();
        let files = SubAgentFiles::of(&home.path().join("c.jsonl"));
        let path = |id: &str| files.path(RecordId::of(id));
        assert_eq!(path("a1"), Some(&*directory.join("agent-a1.jsonl")));
        assert_eq!(files.bytes(RecordId::of("a1")), 4);
        for id in ["", "../secret", "a1/../../secret", "\0", "a2", "é", "a1.meta.json"] {
            assert_eq!((path(id), files.bytes(RecordId::of(id))), (None, 0), "{id:?}");
        }
        assert!(SubAgentFiles::of(&home.path().join("d.jsonl")).0.is_empty());
    }
}
