use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::{DriverEvent, ResumeToken};

/// The conversations that an agent keeps by itself, whoever led them: this host, the agent's own command, an editor.
pub trait Archive: Send + Sync + 'static {
    /// Where they are kept: something changes in there when a conversation does.
    fn directory(&self) -> &Path;

    /// Looks which there are. What has not changed since the last look costs nothing, and what cannot be read now is told
    /// as it was then.
    fn look(&self) -> BoxFuture<'static, Found>;

    /// The conversation that a resume token continues, if the token says so.
    fn conversation(&self, _token: &ResumeToken) -> Option<Uuid> {
        None
    }

    /// Whether the record that a resume token continues is there, also if it is not worth a line of the list.
    fn keeps(&self, token: &ResumeToken) -> BoxFuture<'static, bool>;

    /// Looks where everything stands in a conversation, as it is now. Its turns are told later, by their places.
    fn open(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Chronicle>, ArchiveError>>;

    /// The same for somebody who opens one after the other, all of them: what makes opening one again quick is kept for others.
    fn open_in_passing(&self, conversation: Uuid) -> BoxFuture<'static, Result<Arc<dyn Chronicle>, ArchiveError>> {
        self.open(conversation)
    }

    /// What processes that lead a conversation say of themselves, agents of this host aside. `None` where there is none.
    fn lead(&self, _conversation: Uuid) -> BoxFuture<'static, Option<Lead>> {
        Box::pin(std::future::ready(None))
    }

    /// Gives a conversation a name, so that the agent's own list shows it.
    fn rename(&self, conversation: Uuid, title: &str) -> BoxFuture<'static, Result<(), ArchiveError>>;

    /// Puts a tag on a conversation, or takes it off.
    fn tag(&self, conversation: Uuid, tag: Option<&str>) -> BoxFuture<'static, Result<(), ArchiveError>>;

    /// Forgets a conversation. One that is not there is forgotten already.
    fn delete(&self, conversation: Uuid) -> BoxFuture<'static, Result<(), ArchiveError>>;
}

/// The record of one conversation, as it was when it was opened. What is written later is in the next one.
pub trait Chronicle: Send + Sync + 'static {
    /// Its turns, oldest first.
    fn turns(&self) -> &[TurnMark];

    /// Tells the turns at these places.
    fn tell(self: Arc<Self>, places: Range<usize>) -> BoxFuture<'static, Result<Vec<ToldTurn>, ArchiveError>>;

    /// Turns that the conversation has left, in the order of the record: somebody went on from an earlier one, or two did at
    /// once.
    fn strays(&self) -> &[Stray] {
        &[]
    }

    /// Tells one of those, by its place among them; `None` if there is none.
    fn tell_stray(self: Arc<Self>, _place: usize) -> BoxFuture<'static, Result<Option<ToldTurn>, ArchiveError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// What is wrong with the record and with those of its sub-agents, in sentences; what could be read was read.
    fn damage(self: Arc<Self>) -> BoxFuture<'static, Vec<String>>;
}

/// A turn of a record, before it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnMark {
    /// The turn's id: the same whenever the record is read.
    pub id: Uuid,
    /// The message that began it, by the id that it was sent with; `None` if the agent began it by itself.
    pub message: Option<Uuid>,
    /// Whether that is a command for the agent itself, which some agents write down under ids of their own.
    pub command: bool,
    /// Whether nothing more will be said in it. The last one may be going on.
    pub over: bool,
    /// How many records there are of what was said and done in it: more, if it went on.
    pub length: usize,
    /// How many bytes have to be read to tell it, those of its sub-agents among them. What is told is seldom more.
    pub bytes: u64,
}

/// A turn of a record that the conversation has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stray {
    /// The turn.
    pub mark: TurnMark,
    /// The place of the turn in which the conversation goes on instead: the next one, or the one that it hangs from the middle of.
    pub fork: usize,
}

/// What somebody who leads a conversation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// It is in the middle of a turn.
    Busy,
    /// It waits for somebody to say something.
    Idle,
    /// It is there, and does not say what it does.
    Silent,
}

/// What a look at the archive showed.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The conversations, newest first.
    pub conversations: Vec<FoundConversation>,
    /// Files and directories that could not be read, and why. What was known of them is still in the list.
    pub unreadable: Vec<(PathBuf, String)>,
}

impl Found {
    /// Whether a conversation that is not in the list may be there all the same, in something that could not be read. What
    /// an earlier look has shown is in the list; this is for those who remember more than that.
    pub fn may_hide(&self, conversation: Uuid) -> bool {
        self.unreadable.iter().any(|(path, _)| {
            let named = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Uuid::try_parse(stem).ok());
            // What is named after no conversation is a directory, which may hold any of them.
            named.is_none_or(|named| named == conversation)
        })
    }
}

/// A conversation, as far as a list goes.
#[derive(Clone, PartialEq, Eq)]
pub struct FoundConversation {
    /// Its id.
    pub id: Uuid,
    /// How it is continued.
    pub token: ResumeToken,
    /// What a person would call it.
    pub title: String,
    /// The name that somebody gave it, if somebody did and it is certain that nobody has given it another one since.
    pub given_title: Option<String>,
    /// Its tag.
    pub tag: Tag,
    /// The directory that it was led in.
    pub directory: Option<PathBuf>,
    /// When it was begun (RFC 3339).
    pub created: Option<String>,
    /// When something was said last.
    pub modified: SystemTime,
}

/// The tag of a conversation, as far as its record was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Tag {
    /// It is not known whether it has one: what was known before still holds.
    #[default]
    Unseen,
    /// It has none.
    Off,
    /// It has this one.
    On(String),
}

impl Tag {
    /// The tag, where there is one for certain.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::On(tag) => Some(tag),
            Self::Off | Self::Unseen => None,
        }
    }

    /// Whether whoever knows this tag, or of none, learns something.
    pub fn is_news_to(&self, known: Option<&str>) -> bool {
        *self != Self::Unseen && self.text() != known
    }
}

/// A turn of a record.
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
#[derive(Clone, PartialEq, Eq)]
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
    /// Its file could not be read. The next time it may be.
    #[error("the agent's record of the conversation could not be read: {0}")]
    Failed(String),
    /// What it says cannot be told, now or later.
    #[error("the agent's record of the conversation cannot be told: {0}")]
    Untellable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_may_hide_what_is_named_after_it_or_lies_below_it() {
        let [one, other] = [1, 2].map(Uuid::from_u128);
        let found = |path: PathBuf| Found { unreadable: vec![(path, "no".to_owned())], ..Found::default() };
        let file = found(PathBuf::from(format!("/p/{one}.jsonl")));
        assert!(file.may_hide(one) && !file.may_hide(other));
        assert!(found(PathBuf::from("/p")).may_hide(other));
        assert!(!Found::default().may_hide(one));
    }

    #[test]
    fn what_was_not_seen_is_no_news() {
        for known in [None, Some("x")] {
            assert!(!Tag::Unseen.is_news_to(known));
            assert_eq!(Tag::Off.is_news_to(known), known.is_some());
            assert_eq!(Tag::On("x".to_owned()).is_news_to(known), known.is_none());
        }
    }
}
