//! Appends external turns to the chat, in batches, each with the sync position.
//!
//! Two agents with separate memories fork a transcript: each appends to the entry that it remembers, and the
//! conversation is the branch with the last message. An abandoned external turn beside a turn of this host is appended
//! with a note that the agent remembers only one of them. If the conversation has abandoned a turn that is stored here,
//! the first appended turn states that the agent does not remember it. Turns that another process abandoned for a later
//! turn of its own are not shown.

use std::sync::Arc;

use hostler_driver::{DriverEvent, LoadedTurn, Transcript, TranscriptStoreError, TurnIndexEntry};
use uuid::Uuid;

use super::SessionActor;
use super::session_change::{ActionTarget, SessionChange};
use crate::clock::ClockExt as _;
use crate::external_sessions::replay_turn;
use crate::sessions::record::{ExternalTurn, SessionRecord};

const BRANCH_SWITCH_NOTICE: &str =
    "This continues an earlier turn. From here on, the agent does not remember the turns in between.";

const CONCURRENT_TURN_NOTICE: &str =
    "Another process sent this while a turn was running here. The agent remembers only one of the two.";

const EXTENDED_TURN_NOTICE: &str = "This turn continued after it was imported. This is the complete turn.";

/// An external turn in the transcript.
#[derive(Debug, Clone, Copy)]
pub(super) enum ExternalTurnRef {
    /// The turn at this index.
    Turn(usize),
    /// The turn at this index, which was appended before it was complete.
    Extended(usize),
    /// The abandoned turn at this index.
    Abandoned(usize),
}

impl ExternalTurnRef {
    pub(super) async fn load(
        self,
        transcript: &Arc<dyn Transcript>,
    ) -> Result<Option<LoadedTurn>, TranscriptStoreError> {
        let transcript = Arc::clone(transcript);
        match self {
            Self::Turn(place) | Self::Extended(place) => Ok(transcript.load_turns(place..place + 1).await?.pop()),
            Self::Abandoned(place) => transcript.load_abandoned_turn(place).await,
        }
    }

    /// Its index entry, if it is part of the conversation.
    fn mark(self, transcript: &Arc<dyn Transcript>) -> Option<TurnIndexEntry> {
        match self {
            Self::Turn(place) | Self::Extended(place) => transcript.turns().get(place).copied(),
            Self::Abandoned(_) => None,
        }
    }
}

/// Turns that are stored together.
#[derive(Default)]
struct ExternalTurnBatch {
    change: SessionChange,
    /// The last of them that is part of the conversation, by its index entry and its id here.
    synced_through: Option<(TurnIndexEntry, String)>,
    turns: usize,
}

impl SessionActor {
    /// Appends external turns. `false` if not all of them could be stored: then a later sync continues.
    pub(super) async fn append_external_turns(
        &mut self,
        transcript: &Arc<dyn Transcript>,
        news: &[ExternalTurnRef],
        mut forgets: bool,
    ) -> bool {
        let mut group = ExternalTurnBatch::default();
        for new in news {
            let mut loaded = match new.load(transcript).await {
                Ok(Some(loaded)) => loaded,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(session = &*self.ctx.session.uri, %error, "failed to read external turns");
                    self.store_external_batch(group).await;
                    return false;
                }
            };
            let mark = new.mark(transcript);
            let note = match new {
                ExternalTurnRef::Turn(_) if std::mem::take(&mut forgets) => Some(BRANCH_SWITCH_NOTICE),
                ExternalTurnRef::Turn(_) => self.is_concurrent_turn(&loaded).then_some(CONCURRENT_TURN_NOTICE),
                ExternalTurnRef::Abandoned(_) => Some(CONCURRENT_TURN_NOTICE),
                ExternalTurnRef::Extended(_) => {
                    // The extended turn is appended as a new one: the stored turn does not change, and nothing is
                    // missing.
                    loaded.id = mark.map_or(loaded.id, |mark| Uuid::new_v5(&mark.id, &mark.record_count.to_be_bytes()));
                    Some(EXTENDED_TURN_NOTICE)
                }
            };
            loaded.events.splice(0..0, note.map(|note| DriverEvent::Notice(note.to_owned())));
            // Its sub-agents become chats of the session, which must exist before the next turn is replayed.
            let alone = loaded.events.iter().any(|event| matches!(event, DriverEvent::SubAgent { .. }));
            if alone && !self.store_external_batch(std::mem::take(&mut group)).await {
                return false;
            }
            self.add_to_batch(&mut group, loaded, mark);
            if alone && !self.store_external_batch(std::mem::take(&mut group)).await {
                return false;
            }
        }
        let stored = self.store_external_batch(group).await;
        self.ctx.mark_unread().await;
        stored
    }

    /// Adds a turn to a batch, with its index entry if it is part of the conversation.
    fn add_to_batch(&self, group: &mut ExternalTurnBatch, loaded: LoadedTurn, mark: Option<TurnIndexEntry>) {
        let turn = loaded.id.to_string();
        let replayed = replay_turn(&self.ctx.session, loaded, &self.ctx.host.clock.now_timestamp());
        let mut change = std::mem::take(&mut group.change).blobs(replayed.blobs);
        for (channel, action) in replayed.actions {
            let home = match channel {
                channel if channel == self.ctx.session.chat_uri => ActionTarget::Chat,
                channel if channel == self.ctx.session.uri => ActionTarget::Session,
                channel => ActionTarget::SubAgentChat(channel),
            };
            change = change.action_on(home, action, None);
        }
        group.change = change;
        group.synced_through = mark.map(|mark| (mark, turn)).or_else(|| group.synced_through.take());
        group.turns += 1;
    }

    /// Stores a batch together with the sync position.
    async fn store_external_batch(&mut self, group: ExternalTurnBatch) -> bool {
        let ExternalTurnBatch { mut change, synced_through: synced, turns } = group;
        if turns == 0 {
            return true;
        }
        if let Some((mark, turn)) = &synced {
            // The agent has the message: if the turn is resumed, it must not receive it twice.
            let synced = SessionRecord::TranscriptSynced { turn: mark.id, length: Some(mark.record_count) };
            change = change.record(synced).record(SessionRecord::Delivered { turn: turn.clone(), prompt_id: None });
        }
        if let Err(error) = self.ctx.commit(change).await {
            tracing::error!(session = &*self.ctx.session.uri, %error, "failed to store external turns; retrying");
            return false;
        }
        if let Some((mark, turn)) = synced {
            (self.ctx.session.synced_through, self.ctx.session.delivered_turn) = (Some(mark.id), Some(turn));
            self.ctx.session.delivered_prompt_id = None;
            self.ctx.session.last_external_turn = Some(ExternalTurn { turn: mark.id, length: mark.record_count });
        }
        self.ctx.host.catalog.notify_sub_agent_chat_started();
        true
    }
}
