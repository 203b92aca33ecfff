use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::{DriverEvent, ResumeToken};

/// The conversations that an agent keeps by itself, whoever led them: this host, the agent's own command, an editor.
pub trait Archive: Send + Sync + 'static {
    /// Where they are kept: something changes in there when a conversation does.
    fn directory(&self) -> &Path;

    /// Looks which there are. What has not changed since the last look costs nothing.
    fn look(&self) -> BoxFuture<'static, Found>;

    /// Reads a conversation as a whole.
    fn read(&self, conversation: Uuid) -> BoxFuture<'static, Result<Told, ArchiveError>>;
}

/// What a look at the archive showed.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The conversations, newest first.
    pub conversations: Vec<FoundConversation>,
    /// Files that could not be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// A conversation, as far as a list goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundConversation {
    /// Its id.
    pub id: Uuid,
    /// How it is continued.
    pub token: ResumeToken,
    /// What a person would call it.
    pub title: String,
    /// Its tag.
    pub tag: Option<String>,
    /// The directory that it was led in.
    pub directory: Option<PathBuf>,
    /// When it was begun (RFC 3339).
    pub created: Option<String>,
    /// When something was said last.
    pub modified: SystemTime,
}

/// A conversation that was read.
#[derive(Debug)]
pub struct Told {
    /// Its turns, oldest first.
    pub turns: Vec<ToldTurn>,
    /// What is wrong with the record, in sentences; what could be read was read.
    pub damage: Vec<String>,
}

/// A turn that is over.
#[derive(Debug)]
pub struct ToldTurn {
    /// Its id: the same whenever the record is read.
    pub id: Uuid,
    /// What it was begun with.
    pub said: Said,
    /// When it was begun (RFC 3339).
    pub began: Option<String>,
    /// When the last of it was written.
    pub ended: Option<String>,
    /// What happened, in the order and the words of a live agent; the last one is its end.
    pub events: Vec<DriverEvent>,
}

/// What a turn was begun with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A person's words, and how many pictures and documents came with them.
    Person {
        /// The words.
        text: String,
        /// How many blocks are not words.
        attached: usize,
    },
    /// The agent began it by itself, for this reason.
    Agent(String),
}

/// Why a conversation could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// There is none under this id.
    #[error("the agent's record of the conversation is gone")]
    Missing,
    /// Its file could not be read.
    #[error("the agent's record of the conversation could not be read: {0}")]
    Failed(String),
}
