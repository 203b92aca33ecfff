//! Host records: a session's private facts in the journal, and its snapshot. Never sent to a client.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ahp_types::state::{AnnotationsState, ChatState, SessionState};
use hostler_driver::{ResumeToken, SlashCommand};
use hostler_store::{HostRecord, StoreError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::sessions::turn_storage::EvictedTurns;

/// One private fact. Records of unknown kinds are skipped when they are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum SessionRecord {
    /// The session is stored for the first time: its state before its first message.
    Opened {
        session: Box<SessionState>,
        chat: Box<ChatState>,
        created_at: String,
        conversation: Uuid,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<AnnotationsState>,
        /// The last turn of the transcript that was synced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(alias = "heard")]
        synced_through: Option<Uuid>,
        #[serde(default, skip_serializing_if = "MetadataSync::is_empty")]
        #[serde(alias = "notes")]
        metadata_sync: MetadataSync,
    },
    /// Sync state of the title and the tag in the transcript.
    #[serde(alias = "noted")]
    MetadataSynced {
        #[serde(alias = "notes")]
        metadata_sync: MetadataSync,
    },
    /// The conversation is resumed with this token from now on.
    Resume { token: ResumeToken },
    /// The agent works on a turn's message and must not receive it again.
    Delivered {
        turn: String,
        /// The id of the message in the transcript, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(alias = "prompt")]
        prompt_id: Option<Uuid>,
    },
    /// The transcript was synced up to this turn.
    #[serde(alias = "heard")]
    TranscriptSynced {
        turn: Uuid,
        /// Length of that turn at that time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        length: Option<usize>,
    },
    /// The agent received the steering message of the turn.
    #[serde(alias = "injected")]
    SteeringInjected { message: String },
    /// A person created these rules, which apply until the session is deleted.
    Allowed { rules: Vec<String> },
    /// A kind that a newer or an older version wrote.
    #[serde(other)]
    Unknown,
}

/// A session at a sequence number, without its completed turns: the store's snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionSnapshot {
    pub(crate) session: SessionState,
    pub(crate) chat: ChatState,
    pub(crate) created_at: String,
    pub(crate) conversation: Uuid,
    #[serde(alias = "token")]
    pub(crate) resume_token: Option<ResumeToken>,
    /// Rules that apply until the session is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(alias = "allowed")]
    pub(crate) session_rules: Vec<String>,
    /// The last turn whose message the agent has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "delivered")]
    pub(crate) delivered_turn: Option<String>,
    /// The id of that message in the transcript, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "deliveredAs")]
    pub(crate) delivered_prompt_id: Option<Uuid>,
    /// The turns of recent prompts, by the prompts' ids in the transcript.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) prompt_turns: VecDeque<(Uuid, String)>,
    /// The chats of sub-agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(alias = "workers")]
    pub(crate) sub_agent_chats: Vec<ChatState>,
    /// Queued messages that became turns recently.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    #[serde(alias = "consumed")]
    pub(crate) consumed_messages: VecDeque<String>,
    /// Comments of people on places in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<AnnotationsState>,
    /// The slash commands that the agent has reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) commands: Vec<SlashCommand>,
    /// How many of the chat's first turns are not imported yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(alias = "untold")]
    pub(crate) unimported_turns: usize,
    /// The transcript's turn that is the first imported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "toldFrom")]
    pub(crate) import_cursor: Option<Uuid>,
    /// How often the transcript was missing when turns were to be imported.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(alias = "missed")]
    pub(crate) missing_transcript_count: usize,
    /// The last turn of the transcript that was synced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "heard")]
    pub(crate) synced_through: Option<Uuid>,
    /// The last external turn, and how much of it is appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "others")]
    pub(crate) last_external_turn: Option<ExternalTurn>,
    /// Sync state of the title and the tag in the transcript.
    #[serde(default, skip_serializing_if = "MetadataSync::is_empty")]
    #[serde(alias = "notes")]
    pub(crate) metadata_sync: MetadataSync,
    /// Aggregates of evicted turns, which a restore does not read, by chat.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(alias = "pasts")]
    pub(crate) evicted_turns: BTreeMap<String, EvictedTurns>,
}

/// Sync state of the title and the tag in the transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MetadataSync {
    /// The title in the transcript at the last sync: only another title is a change.
    #[serde(alias = "title")]
    pub(crate) transcript_title: Option<String>,
    /// The same for the tag.
    pub(crate) transcript_tag: Option<String>,
}

impl MetadataSync {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An external turn, which may grow after it was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExternalTurn {
    /// Its id in the transcript.
    pub(crate) turn: Uuid,
    /// Its length when it was appended.
    pub(crate) length: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl SessionRecord {
    /// Encodes the record for the store.
    pub(crate) fn to_host_record(&self, channel: &Arc<str>) -> Result<HostRecord, StoreError> {
        let json = serde_json::to_string(self)
            .map_err(|error| StoreError::Database(format!("a host record cannot be encoded: {error}")))?;
        Ok(HostRecord { channel: Arc::clone(channel), json })
    }
}
