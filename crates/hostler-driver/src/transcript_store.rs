use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::{DriverEvent, ResumeToken};

/// The conversations that an agent keeps by itself, whoever led them: this host, the agent's own command, an editor.
pub trait TranscriptStore: Send + Sync + 'static {
    /// Where they are kept: something changes in there when a conversation does.
    fn directory(&self) -> &Path;

    /// Looks which there are. What has not changed since the last look costs nothing, and what cannot be read now is told
    /// as it was then.
    fn scan(&self) -> BoxFuture<'static, TranscriptScan>;

    /// The conversation that a resume token continues, if the token says so.
    fn conversation_id(&self, _token: &ResumeToken) -> Option<Uuid> {
        None
    }

    /// Whether the record that a resume token continues is there, also if it is not worth a line of the list.
    fn has_transcript(&self, token: &ResumeToken) -> BoxFuture<'static, bool>;

    /// Looks where everything stands in a conversation, as it is now. Its turns are told later, by their places.
    fn open(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Transcript>, TranscriptStoreError>>;

    /// The same for somebody who opens one after the other, all of them: what makes opening one again quick is kept for others.
    fn open_for_scan(
        &self,
        conversation: Uuid,
    ) -> BoxFuture<'static, Result<Arc<dyn Transcript>, TranscriptStoreError>> {
        self.open(conversation)
    }

    /// What processes that lead a conversation say of themselves, agents of this host aside. `None` where there is none.
    fn external_activity(&self, _conversation: Uuid) -> BoxFuture<'static, Option<ExternalActivity>> {
        Box::pin(std::future::ready(None))
    }

    /// Gives a conversation a name, so that the agent's own list shows it.
    fn rename(&self, conversation: Uuid, title: &str) -> BoxFuture<'static, Result<(), TranscriptStoreError>>;

    /// Puts a tag on a conversation, or takes it off.
    fn set_tag(&self, conversation: Uuid, tag: Option<&str>) -> BoxFuture<'static, Result<(), TranscriptStoreError>>;

    /// Forgets a conversation. One that is not there is forgotten already.
    fn delete(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), TranscriptStoreError>>;
}

/// The record of one conversation, as it was when it was opened. What is written later is in the next one.
pub trait Transcript: Send + Sync + 'static {
    /// Its turns, oldest first.
    fn turns(&self) -> &[TurnIndexEntry];

    /// Tells the turns at these places.
    fn load_turns(
        self: Arc<Self>,
        places: Range<usize>,
    ) -> BoxFuture<'static, Result<Vec<LoadedTurn>, TranscriptStoreError>>;

    /// Turns that the conversation has left, in the order of the record: somebody went on from an earlier one, or two did at
    /// once.
    fn abandoned_turns(&self) -> &[AbandonedTurn] {
        &[]
    }

    /// Tells one of those, by its place among them; `None` if there is none.
    fn load_abandoned_turn(
        self: Arc<Self>,
        _place: usize,
    ) -> BoxFuture<'static, Result<Option<LoadedTurn>, TranscriptStoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// What is wrong with the record and with those of its sub-agents, in sentences; what could be read was read.
    fn describe_damage(self: Arc<Self>) -> BoxFuture<'static, Vec<String>>;
}

/// A turn of a record, before it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnIndexEntry {
    /// The turn's id: the same whenever the record is read.
    pub id: Uuid,
    /// The message that began it, by the id that it was sent with; `None` if the agent began it by itself.
    pub message_id: Option<Uuid>,
    /// Whether that is a command for the agent itself, which some agents write down under ids of their own.
    pub is_command: bool,
    /// Whether nothing more will be said in it. The last one may be going on.
    pub is_complete: bool,
    /// How many records there are of what was said and done in it: more, if it went on.
    pub record_count: usize,
    /// How many bytes have to be read to tell it, those of its sub-agents among them. What is told is seldom more.
    pub size_bytes: u64,
}

/// A turn of a record that the conversation has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbandonedTurn {
    /// The turn.
    pub turn: TurnIndexEntry,
    /// The place of the turn in which the conversation goes on instead: the next one, or the one that it hangs from the middle of.
    pub fork_index: usize,
}

/// What somebody who leads a conversation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExternalActivity {
    /// It is in the middle of a turn.
    Busy,
    /// It waits for somebody to say something.
    Idle,
    /// It is there, and does not say what it does.
    Unknown,
}

/// What a look at the archive showed.
#[derive(Debug, Clone, Default)]
pub struct TranscriptScan {
    /// The conversations, newest first.
    pub conversations: Vec<ExternalConversation>,
    /// Files and directories that could not be read, and why. What was known of them is still in the list.
    pub unreadable: Vec<(PathBuf, String)>,
}

impl TranscriptScan {
    /// Whether a conversation that is not in the list may be there all the same, in something that could not be read. What
    /// an earlier look has shown is in the list; this is for those who remember more than that.
    pub fn may_contain_unread(&self, conversation: Uuid) -> bool {
        self.unreadable.iter().any(|(path, _)| {
            let named = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Uuid::try_parse(stem).ok());
            // What is named after no conversation is a directory, which may hold any of them.
            named.is_none_or(|named| named == conversation)
        })
    }
}

/// A conversation, as far as a list goes.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalConversation {
    /// Its id.
    pub id: Uuid,
    /// How it is continued.
    pub resume_token: ResumeToken,
    /// What a person would call it.
    pub title: String,
    /// The name that somebody gave it, if somebody did and it is certain that nobody has given it another one since.
    pub custom_title: Option<String>,
    /// Its tag.
    pub tag: ConversationTag,
    /// The directory that it was led in.
    pub working_directory: Option<PathBuf>,
    /// When it was begun (RFC 3339).
    pub created: Option<String>,
    /// When something was said last.
    pub modified: SystemTime,
}

/// The tag of a conversation, as far as its record was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ConversationTag {
    /// It is not known whether it has one: what was known before still holds.
    #[default]
    Unknown,
    /// It has none.
    Untagged,
    /// It has this one.
    Tagged(String),
}

impl ConversationTag {
    /// The tag, where there is one for certain.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Tagged(tag) => Some(tag),
            Self::Untagged | Self::Unknown => None,
        }
    }

    /// Whether whoever knows this tag, or of none, learns something.
    pub fn differs_from(&self, known: Option<&str>) -> bool {
        *self != Self::Unknown && self.text() != known
    }
}

/// A turn of a record.
#[derive(Debug)]
pub struct LoadedTurn {
    /// Its id: the same whenever the record is read.
    pub id: Uuid,
    /// What it was begun with.
    pub origin: TurnOrigin,
    /// When it was begun (RFC 3339).
    pub started_at: Option<String>,
    /// When the last of it was written.
    pub ended_at: Option<String>,
    /// What happened, in the order and the words of a live agent; the last one is its end.
    pub events: Vec<DriverEvent>,
}

/// What a turn was begun with.
#[derive(Clone, PartialEq, Eq)]
pub enum TurnOrigin {
    /// A person's words, and how many pictures and documents came with them.
    User {
        /// The words.
        text: String,
        /// How many blocks are not words.
        attachment_count: usize,
    },
    /// The agent began it by itself, for this reason.
    Agent(String),
}

/// Why a conversation could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranscriptStoreError {
    /// There is none under this id.
    #[error("the agent's record of the conversation is gone")]
    Missing,
    /// Its file could not be read. The next time it may be.
    #[error("the agent's record of the conversation could not be read: {0}")]
    Failed(String),
    /// What it says cannot be told, now or later.
    #[error("the agent's record of the conversation cannot be told: {0}")]
    Unreadable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_may_hide_what_is_named_after_it_or_lies_below_it() {
        let [one, other] = [1, 2].map(Uuid::from_u128);
        let found =
            |path: PathBuf| TranscriptScan { unreadable: vec![(path, "no".to_owned())], ..TranscriptScan::default() };
        let file = found(PathBuf::from(format!("/p/{one}.jsonl")));
        assert!(file.may_contain_unread(one) && !file.may_contain_unread(other));
        assert!(found(PathBuf::from("/p")).may_contain_unread(other));
        assert!(!TranscriptScan::default().may_contain_unread(one));
    }

    #[test]
    fn what_was_not_seen_is_no_news() {
        for known in [None, Some("x")] {
            assert!(!ConversationTag::Unknown.differs_from(known));
            assert_eq!(ConversationTag::Untagged.differs_from(known), known.is_some());
            assert_eq!(ConversationTag::Tagged("x".to_owned()).differs_from(known), known.is_none());
        }
    }
}
