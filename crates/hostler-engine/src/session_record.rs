//! Host records: private facts in the journal.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ahp_types::state::{AnnotationsState, ChatState, SessionState};
use hostler_driver::{ResumeToken, SlashCommand};
use hostler_store::{HostRecord, StoreError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::turn_storage::EvictedTurns;

/// One private fact. Records of kinds that this version does not know are skipped on reading.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum SessionRecord {
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
        #[serde(alias = "heard")]
        synced_through: Option<Uuid>,
        #[serde(default, skip_serializing_if = "MetadataSync::is_empty")]
        #[serde(alias = "notes")]
        metadata_sync: MetadataSync,
    },
    /// What is known of the name and the tag in the agent's record.
    #[serde(alias = "noted")]
    MetadataSynced {
        #[serde(alias = "notes")]
        metadata_sync: MetadataSync,
    },
    /// How the conversation is continued from here on.
    Resume { token: ResumeToken },
    /// The agent works on a turn's message, so it must not get it again.
    Delivered {
        turn: String,
        /// By which id it is known, if it is known by one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(alias = "prompt")]
        prompt_id: Option<Uuid>,
    },
    /// The agent's record of the conversation was looked at up to this turn.
    #[serde(alias = "heard")]
    TranscriptSynced {
        turn: Uuid,
        /// How long that turn was then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<usize>,
    },
    /// The agent was told something that may stand in its record under an id that nobody minted, or something after that.
    #[serde(alias = "sent")]
    CommandSent {
        #[serde(alias = "sent")]
        command: UnconfirmedCommand,
    },
    /// The agent was told what a person said in the middle of the turn.
    #[serde(alias = "injected")]
    SteeringInjected { message: String },
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
    #[serde(alias = "token")]
    pub(crate) resume_token: Option<ResumeToken>,
    /// What is allowed as long as the session lives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(alias = "allowed")]
    pub(crate) session_rules: Vec<String>,
    /// The last turn whose message the agent has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "delivered")]
    pub(crate) delivered_turn: Option<String>,
    /// By which id the agent's record has it, if it is known by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "deliveredAs")]
    pub(crate) delivered_prompt_id: Option<Uuid>,
    /// The chats of sub-agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(alias = "workers")]
    pub(crate) sub_agent_chats: Vec<ChatState>,
    /// Queued messages that have become turns lately.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    #[serde(alias = "consumed")]
    pub(crate) consumed_messages: VecDeque<String>,
    /// What people have written about places in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<AnnotationsState>,
    /// The commands that the agent has told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) commands: Vec<SlashCommand>,
    /// How many of the chat's first turns are still to be taken in.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(alias = "untold")]
    pub(crate) unimported_turns: usize,
    /// The turn of the agent's record that the first one is which was taken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "toldFrom")]
    pub(crate) import_cursor: Option<Uuid>,
    /// How often the record was not there when they were to be taken in.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(alias = "missed")]
    pub(crate) missing_transcript_count: usize,
    /// The last turn of the agent's record that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "heard")]
    pub(crate) synced_through: Option<Uuid>,
    /// The last turn that others led, and how much of it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "others")]
    pub(crate) last_external_turn: Option<ExternalTurn>,
    /// What is known of the name and the tag in the agent's record.
    #[serde(default, skip_serializing_if = "MetadataSync::is_empty")]
    #[serde(alias = "notes")]
    pub(crate) metadata_sync: MetadataSync,
    /// What the agent was told and its record was not heard to say yet.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    #[serde(alias = "sent")]
    pub(crate) unconfirmed_commands: VecDeque<UnconfirmedCommand>,
    /// What is known of the turns that are not needed to bring the session back, by chat.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(alias = "pasts")]
    pub(crate) evicted_turns: BTreeMap<String, EvictedTurns>,
}

/// What is known of the name and the tag in the agent's record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MetadataSync {
    /// The name that stood there last: only another one is news.
    #[serde(alias = "title")]
    pub(crate) transcript_title: Option<String>,
    /// A person has named the session here, and the record may not say so yet.
    #[serde(alias = "titleDue")]
    pub(crate) is_title_pending: bool,
    /// The same of its tag.
    #[serde(alias = "tagDue")]
    pub(crate) is_tag_pending: bool,
}

impl MetadataSync {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Something that the host has sent to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnconfirmedCommand {
    /// The id of the message; a wish for another model has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "id")]
    pub(crate) prompt_id: Option<Uuid>,
    /// The words of the command that it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "command")]
    pub(crate) command_text: Option<String>,
}

/// A turn that others led: it may go on after it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExternalTurn {
    /// Its id in the agent's record.
    pub(crate) turn: Uuid,
    /// How long it was when it was told.
    pub(crate) length: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl SessionRecord {
    /// For the store.
    pub(crate) fn to_host_record(&self, channel: &Arc<str>) -> Result<HostRecord, StoreError> {
        let json = serde_json::to_string(self)
            .map_err(|error| StoreError::Database(format!("a host record cannot be encoded: {error}")))?;
        Ok(HostRecord { channel: Arc::clone(channel), json })
    }
}
