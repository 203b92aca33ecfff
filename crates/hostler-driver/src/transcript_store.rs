//! Access to the transcripts that an agent stores: list, open, load turns, delete.
//!
//! The store lists all conversations of the agent, those that this host started included; the engine decides which of
//! them are external sessions. This module does not know file formats.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::{DriverEvent, ResumeToken};

/// The conversations that an agent stores by itself, no matter which program ran them: this host, the agent's own
/// command, an editor.
pub trait TranscriptStore: Send + Sync + 'static {
    /// The directory of the transcripts. It changes whenever a conversation changes.
    fn directory(&self) -> &Path;

    /// Lists all conversations. Unchanged files are not read again; a file that cannot be read now is listed with its
    /// last known state.
    fn scan(&self) -> BoxFuture<'static, TranscriptScan>;

    /// The conversation that a resume token continues, if the token names it.
    fn conversation_id(&self, _token: &ResumeToken) -> Option<Uuid> {
        None
    }

    /// Whether the transcript of a resume token exists, also if [`scan`](Self::scan) does not list it.
    fn has_transcript(&self, token: &ResumeToken) -> BoxFuture<'static, bool>;

    /// Indexes a conversation in its current state. Its turns are loaded later, by index.
    fn open(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Transcript>, TranscriptStoreError>>;

    /// Opens a conversation as part of a scan over all of them; it does not evict other transcripts from the cache.
    fn open_for_scan(
        &self,
        conversation: Uuid,
    ) -> BoxFuture<'static, Result<Arc<dyn Transcript>, TranscriptStoreError>> {
        self.open(conversation)
    }

    /// What other processes that run the conversation report about themselves, without the agents of this host.
    /// `None` if there is none.
    fn external_activity(&self, _conversation: Uuid) -> BoxFuture<'static, Option<ExternalActivity>> {
        Box::pin(std::future::ready(None))
    }

    /// Deletes a conversation. Succeeds if it does not exist.
    fn delete(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), TranscriptStoreError>>;
}

/// The transcript of one conversation in the state in which it was opened. Later additions need another `open`.
pub trait Transcript: Send + Sync + 'static {
    /// The turns of its active branch, oldest first: the conversation.
    fn turns(&self) -> &[TurnIndexEntry];

    /// Loads the turns at these indices. The indices of abandoned turns follow those of the active branch.
    fn load_turns(
        self: Arc<Self>,
        places: Range<usize>,
    ) -> BoxFuture<'static, Result<Vec<LoadedTurn>, TranscriptStoreError>>;

    /// Turns on abandoned branches, in the order of the file: the conversation continued from an earlier turn, or two
    /// processes continued it at once.
    fn abandoned_turns(&self) -> &[AbandonedTurn] {
        &[]
    }

    /// Damage in the transcript and in those of its sub-agents, in sentences; readable parts are loaded nevertheless.
    fn describe_damage(self: Arc<Self>) -> BoxFuture<'static, Vec<String>>;
}

/// A turn of a transcript, before it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnIndexEntry {
    /// The turn's id: stable over all reads of the transcript.
    pub id: Uuid,
    /// The id of the message that started it, as sent; `None` if the agent started it by itself.
    pub message_id: Option<Uuid>,
    /// Whether that message is a command for the agent itself; some agents store commands under ids of their own.
    pub is_command: bool,
    /// Whether the turn is finished. The last one may still be running.
    pub is_complete: bool,
    /// Number of records with content; it grows while the turn runs.
    pub record_count: usize,
    /// Bytes to read for loading it, sub-agents included. The loaded turn is seldom larger.
    pub size_bytes: u64,
}

/// A turn on an abandoned branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbandonedTurn {
    /// The turn.
    pub turn: TurnIndexEntry,
    /// Number of turns of the active branch that start before it in the file.
    pub turns_before: usize,
}

/// What another process that runs a conversation is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExternalActivity {
    /// It is running a turn.
    Busy,
    /// It waits for a prompt.
    Idle,
    /// It is alive and does not report its state.
    Unknown,
}

/// The result of a scan.
#[derive(Debug, Clone, Default)]
pub struct TranscriptScan {
    /// The conversations, newest first.
    pub conversations: Vec<ExternalConversation>,
    /// Files and directories that could not be read, with the reason. Their last known conversations are still
    /// listed.
    pub unreadable: Vec<(PathBuf, String)>,
}

impl TranscriptScan {
    /// Whether a conversation that is not listed may exist in a file or directory that could not be read. For callers
    /// that remember more conversations than the last scan.
    pub fn may_contain_unread(&self, conversation: Uuid) -> bool {
        self.unreadable.iter().any(|(path, _)| {
            let named = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Uuid::try_parse(stem).ok());
            // A path that is not named after a conversation is a directory and may contain any of them.
            named.is_none_or(|named| named == conversation)
        })
    }
}

/// A conversation, as listed.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalConversation {
    /// Its id.
    pub id: Uuid,
    /// The token that continues it.
    pub resume_token: ResumeToken,
    /// Its title for display.
    pub title: String,
    /// The title that a person set, if one was found.
    pub custom_title: Option<String>,
    /// Its tag; empty if it was removed, `None` if none was found.
    pub tag: Option<String>,
    /// Its working directory.
    pub working_directory: Option<PathBuf>,
    /// When it was started (RFC 3339).
    pub created: Option<String>,
    /// Time of its last message.
    pub modified: SystemTime,
}

/// A loaded turn.
#[derive(Debug)]
pub struct LoadedTurn {
    /// Its id: stable over all reads of the transcript.
    pub id: Uuid,
    /// What started it.
    pub origin: TurnOrigin,
    /// When it was started (RFC 3339).
    pub started_at: Option<String>,
    /// When its last record was written.
    pub ended_at: Option<String>,
    /// Its events, in the order and form of a live agent; the last one is its end.
    pub events: Vec<DriverEvent>,
}

/// What started a turn.
#[derive(Clone, PartialEq, Eq)]
pub enum TurnOrigin {
    /// A user's message.
    User {
        /// Its text.
        text: String,
        /// Number of images and documents.
        attachment_count: usize,
    },
    /// The agent started it by itself, for this reason.
    Agent(String),
}

/// Why a transcript could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranscriptStoreError {
    /// There is no transcript with this id.
    #[error("the agent's transcript of the conversation does not exist")]
    Missing,
    /// The file could not be read or written; a later attempt may succeed.
    #[error("failed to access the agent's transcript: {0}")]
    Failed(String),
    /// Its contents cannot be loaded, now or later.
    #[error("the agent's transcript is invalid: {0}")]
    Unreadable(String),
}

impl TranscriptStoreError {
    /// The machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "transcriptNotFound",
            Self::Failed(_) => "transcriptNotReadable",
            Self::Unreadable(_) => "transcriptInvalid",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_paths_may_contain_conversations() {
        let [one, other] = [1, 2].map(Uuid::from_u128);
        let found =
            |path: PathBuf| TranscriptScan { unreadable: vec![(path, "no".to_owned())], ..TranscriptScan::default() };
        let file = found(PathBuf::from(format!("/p/{one}.jsonl")));
        assert!(file.may_contain_unread(one) && !file.may_contain_unread(other));
        assert!(found(PathBuf::from("/p")).may_contain_unread(other));
        assert!(!TranscriptScan::default().may_contain_unread(one));
    }
}
