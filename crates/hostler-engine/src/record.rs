//! Host records: private facts in the journal.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ahp_types::state::{AnnotationsState, ChatState, SessionState};
use hostler_driver::{AgentCommand, ResumeToken};
use hostler_store::{HostRecord, StoreError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::past::Past;

/// One private fact. Records of kinds that this version does not know are skipped on reading.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Record {
    /// The session left memory: what it was just before its first message.
    Opened {
        session: Box<SessionState>,
        chat: Box<ChatState>,
        created_at: String,
        conversation: Uuid,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<AnnotationsState>,
        /// The last turn of the agent's record that was looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heard: Option<Uuid>,
        #[serde(default, skip_serializing_if = "Notes::is_empty")]
        notes: Notes,
    },
    /// What is known of the name and the tag in the agent's record.
    Noted { notes: Notes },
    /// How the conversation is continued from here on.
    Resume { token: ResumeToken },
    /// The agent works on a turn's message, so it must not get it again.
    Delivered {
        turn: String,
        /// By which id it is known, if it is known by one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Uuid>,
    },
    /// The agent's record of the conversation was looked at up to this turn.
    Heard {
        turn: Uuid,
        /// How long that turn was then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<usize>,
    },
    /// The agent was told something that may stand in its record under an id that nobody minted, or something after that.
    Sent { sent: Sent },
    /// The agent was told what a person said in the middle of the turn.
    Injected { message: String },
    /// A person has allowed something as long as the session lives, by these rules.
    Allowed { rules: Vec<String> },
    /// A kind that a newer version wrote.
    #[serde(other)]
    Unknown,
}

/// A session at a number, without its ended turns: what the store keeps as its snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionSnapshot {
    pub(crate) session: SessionState,
    pub(crate) chat: ChatState,
    pub(crate) created_at: String,
    pub(crate) conversation: Uuid,
    pub(crate) token: Option<ResumeToken>,
    /// What is allowed as long as the session lives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowed: Vec<String>,
    /// The last turn whose message the agent has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivered: Option<String>,
    /// By which id the agent's record has it, if it is known by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivered_as: Option<Uuid>,
    /// The chats of sub-agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) workers: Vec<ChatState>,
    /// Queued messages that have become turns lately.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) consumed: VecDeque<String>,
    /// What people have written about places in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<AnnotationsState>,
    /// The commands that the agent has told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) commands: Vec<AgentCommand>,
    /// How many of the chat's first turns are still to be taken in.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) untold: usize,
    /// The turn of the agent's record that the first one is which was taken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) told_from: Option<Uuid>,
    /// How often the record was not there when they were to be taken in.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) missed: usize,
    /// The last turn of the agent's record that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heard: Option<Uuid>,
    /// The last turn that others led, and how much of it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) others: Option<Others>,
    /// What is known of the name and the tag in the agent's record.
    #[serde(default, skip_serializing_if = "Notes::is_empty")]
    pub(crate) notes: Notes,
    /// What the agent was told and its record was not heard to say yet.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) sent: VecDeque<Sent>,
    /// What is known of the turns that are not needed to bring the session back, by chat.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) pasts: BTreeMap<String, Past>,
}

/// What is known of the name and the tag in the agent's record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Notes {
    /// The name that stood there last: only another one is news.
    pub(crate) title: Option<String>,
    /// A person has named the session here, and the record may not say so yet.
    pub(crate) title_due: bool,
    /// The same of its tag.
    pub(crate) tag_due: bool,
}

impl Notes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Something that the host has sent to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sent {
    /// The id of the message; a wish for another model has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Uuid>,
    /// The words of the command that it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
}

/// A turn that others led: it may go on after it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Others {
    /// Its id in the agent's record.
    pub(crate) turn: Uuid,
    /// How long it was when it was told.
    pub(crate) length: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Record {
    /// For the store.
    pub(crate) fn on(&self, channel: &Arc<str>) -> Result<HostRecord, StoreError> {
        let json = serde_json::to_string(self)
            .map_err(|error| StoreError::Database(format!("a host record cannot be encoded: {error}")))?;
        Ok(HostRecord { channel: Arc::clone(channel), json })
    }
}
