//! Carries out the effects of the external sync, and stores the turns of other processes. The sync position is part of
//! the same commit, so each turn is appended once.
//!
//! - The transcript's active branch is the conversation. Turns of the chat that are not on it stay in the chat;
//!   `abandonedTurns` in the session's metadata names them, and the first turn after them has a notice.
//! - An agent that does not know external turns is closed when it is idle.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::state::PendingMessageKind;
use hostler_driver::{DriverEvent, Transcript, TranscriptStore, TranscriptStoreError};
use serde_json::Value;
use tokio::task::AbortHandle;
use uuid::Uuid;

use super::effect::SessionEffect;
use super::external_sync::{ExternalSync, PassResult, SyncEffect, SyncEvent};
use super::session_change::{ActionTarget, SessionChange};
use super::{SessionActor, SessionInput};
use crate::clock::ClockExt as _;
use crate::external_sessions::{NewTurn, NewTurnKind, SyncPass, SyncPassRequest, replay_turn};
use crate::sessions::action_mapper::activity_action;
use crate::sessions::record::{ExternalTurn, SessionRecord};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::turn::AgentPhase;

/// Maximum time that a message waits for a sync; later changes arrive as actions.
const SYNC_DEADLINE: Duration = Duration::from_secs(3);

/// Maximum time that opening a session waits for the first pass.
const FIRST_PASS_TIMEOUT: Duration = Duration::from_millis(400);

/// Maximum number of dispatches that wait for a sync; further ones are handled at once.
const MAX_HELD_DISPATCHES: usize = 64;

/// The turns that are not on the active branch, in the session's metadata.
const ABANDONED_TURNS_KEY: &str = "abandonedTurns";

const ACTIVE_ELSEWHERE_ACTIVITY: &str = "Continued elsewhere";

const NEW_BRANCH_NOTICE: &str = "The conversation continues from an earlier turn here. The turns in between are an abandoned branch: the agent does \
                    not remember them.";

const ABANDONED_TURN_NOTICE: &str =
    "Another process ran this turn on an abandoned branch of the conversation. The agent does not remember it.";

const EXTENDED_TURN_NOTICE: &str = "This turn continued after it was imported. This is the complete turn.";

/// The sync, and the state of its effects.
#[derive(Default)]
pub(super) struct SyncedTranscript {
    pub(super) sync: ExternalSync<Dispatch>,
    /// The open transcript for the next pass.
    transcript: Option<Arc<dyn Transcript>>,
    deadline: Option<AbortHandle>,
    /// Whether the queue has waited for the sync.
    is_queue_released: bool,
    /// Whether the last delivered prompt was in the transcript at the last sync.
    pub(super) delivered_prompt: DeliveredPrompt,
}

/// Whether the transcript contains the last prompt that the agent received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum DeliveredPrompt {
    #[default]
    Unknown,
    Found,
    NotFound,
    /// There is no transcript.
    NoTranscript,
}

impl SessionActor {
    /// The transcript store and the id of the session's conversation, if there is a transcript.
    fn transcript_source(&self) -> Option<(Arc<dyn TranscriptStore>, Uuid)> {
        let token = self.ctx.session.resume_token.as_ref().filter(|_| self.ctx.session.is_stored)?;
        let transcript_store = self.ctx.host.agents.driver(&self.ctx.session.session.provider)?.transcript_store()?;
        let conversation = transcript_store.conversation_id(token).unwrap_or(self.ctx.session.conversation);
        Some((transcript_store, conversation))
    }

    /// Handles an event that may start a sync, if there is a transcript.
    pub(super) async fn sync_transcript(&mut self, event: SyncEvent<Dispatch>) {
        if self.transcript_source().is_some() {
            Box::pin(self.step_sync(event)).await;
        }
    }

    /// Passes an event to the sync and carries out the effects.
    pub(super) async fn step_sync(&mut self, event: SyncEvent<Dispatch>) {
        for effect in self.external.sync.on(event, self.ctx.session.chat.active_turn.is_some()) {
            match effect {
                SyncEffect::StartPass => self.start_sync_pass(),
                SyncEffect::StartDeadline => {
                    self.external.deadline = Some(self.pass_later(SYNC_DEADLINE, SyncEvent::DeadlineElapsed));
                }
                SyncEffect::SchedulePoll(delay) => drop(self.pass_later(delay, SyncEvent::PollElapsed)),
                SyncEffect::ShowActivity(is_active) => self.show_external_activity(is_active).await,
                SyncEffect::Release { queue, held } => {
                    if let Some(deadline) = self.external.deadline.take() {
                        deadline.abort();
                    }
                    if queue {
                        self.external.is_queue_released = true;
                        self.perform(vec![SessionEffect::QueueChanged { resume: false }]).await;
                        self.external.is_queue_released = false;
                    }
                    for dispatch in held {
                        let effects = self.handle_dispatch(dispatch).await;
                        self.perform(effects).await;
                    }
                }
            }
        }
    }

    fn pass_later(&mut self, delay: Duration, event: SyncEvent<Dispatch>) -> AbortHandle {
        let delay = self.ctx.host.clock.sleep(delay);
        self.ctx.tasks.spawn(async move {
            delay.await;
            SessionInput::Sync(Box::new(event))
        })
    }

    fn start_sync_pass(&mut self) {
        let transcript = self.external.transcript.take();
        let Some((transcript_store, conversation)) = self.transcript_source() else {
            self.ctx.tasks.spawn(async { SessionInput::SyncPassed(Box::new(Err(TranscriptStoreError::Missing))) });
            return;
        };
        let request = SyncPassRequest {
            host: Arc::clone(&self.ctx.host),
            session: self.ctx.session.clone(),
            transcript_store,
            conversation,
            own_commands: self.agent.own_commands,
        };
        self.ctx.tasks.spawn(async move { SessionInput::SyncPassed(Box::new(request.run(transcript).await)) });
    }

    /// Syncs when the session is opened. The client sees the turns that are available at once, and receives the others
    /// as actions.
    pub(super) async fn sync_on_open(&mut self, transcript: Option<Arc<dyn Transcript>>) {
        self.external.transcript = transcript;
        self.sync_transcript(SyncEvent::Changed).await;
        let mut timeout = self.ctx.host.clock.sleep(FIRST_PASS_TIMEOUT);
        while self.external.sync.is_syncing() {
            let input = tokio::select! {
                () = &mut timeout => return,
                Some(Ok(input)) = self.ctx.tasks.join_next() => input,
            };
            let is_passed = matches!(input, SessionInput::SyncPassed(_));
            let effects = self.handle_input(input).await;
            self.perform(effects).await;
            if is_passed {
                return;
            }
        }
    }

    /// Holds a dispatch that needs the current state of the transcript, and later ones of the same client. `None` if it
    /// is held.
    pub(super) async fn hold_for_sync(&mut self, dispatch: Dispatch) -> Option<Dispatch> {
        let is_needed = dispatch.channel == *self.ctx.session.chat_uri
            && needs_transcript(&dispatch.action)
            && self.ctx.session.chat.active_turn.is_none()
            && self.transcript_source().is_some();
        let held = self.external.sync.held_mut();
        let is_behind = held.iter().any(|held| held.client_id == dispatch.client_id);
        if !(is_needed || is_behind) || held.len() >= MAX_HELD_DISPATCHES {
            return Some(dispatch);
        }
        if let StateAction::ChatTurnCancelled(cancelled) = &dispatch.action
            && let Some(at) = held.iter().position(|held| starts_turn(held, &cancelled.turn_id))
            && let Some(start) = held.remove(at)
        {
            self.ctx.host.publication.reject(start, ActionRejection::CancelledBeforeStart).await;
            return Some(dispatch);
        }
        if is_needed {
            self.sync_transcript(SyncEvent::Held(dispatch)).await;
        } else {
            held.push_back(dispatch);
        }
        None
    }

    /// Checks that no other process is running a turn.
    pub(super) fn check_not_active_elsewhere(&self) -> Result<(), ActionRejection> {
        match self.external.sync.is_active_elsewhere() {
            true => Err(ActionRejection::ActiveElsewhere),
            false => Ok(()),
        }
    }

    /// Whether the head of the queue can start. If not, the queue continues after a sync that shows no turn of another
    /// process. After a restart of the host a person has to continue it.
    pub(super) async fn can_start_queued_turn(&mut self) -> bool {
        if std::mem::take(&mut self.external.is_queue_released) || self.transcript_source().is_none() {
            return true;
        }
        self.sync_transcript(SyncEvent::QueueHeld).await;
        false
    }

    // ── External turns ────────────────────────────────────────────────────────────────────────────────────────────

    pub(super) async fn handle_sync_passed(&mut self, pass: Result<SyncPass, TranscriptStoreError>) {
        let (result, delivered_prompt) = match pass {
            Ok(pass) if pass.has_delivered_prompt => (self.store_sync_pass(pass).await, DeliveredPrompt::Found),
            Ok(pass) => (self.store_sync_pass(pass).await, DeliveredPrompt::NotFound),
            Err(TranscriptStoreError::Missing) => (PassResult::Missing, DeliveredPrompt::NoTranscript),
            Err(error) => {
                tracing::debug!(session = &*self.ctx.session.uri, %error, "failed to read transcript");
                (PassResult::Failed, DeliveredPrompt::Unknown)
            }
        };
        self.external.delivered_prompt = delivered_prompt;
        self.step_sync(SyncEvent::PassEnded(result)).await;
    }

    async fn store_sync_pass(&mut self, pass: SyncPass) -> PassResult {
        let SyncPass { transcript, turns, synced_through, abandoned, poll_interval, is_complete, own_commands, .. } =
            pass;
        if self.ctx.session.chat.active_turn.is_some() {
            return PassResult::Interrupted;
        }
        let has_new_turns = !turns.is_empty();
        if has_new_turns {
            if poll_interval.is_none() {
                self.show_external_activity(false).await;
            }
            // The agent remembers another conversation.
            self.agent.is_stale |= turns.iter().any(|turn| turn.kind != NewTurnKind::Abandoned)
                && self.machine.agent_phase() != AgentPhase::Absent;
            let known = self.ctx.session.hostler_meta(ABANDONED_TURNS_KEY).and_then(Value::as_array);
            let is_new = |id: &String| {
                !known.is_some_and(|known| known.iter().any(|turn| turn == id))
                    && turns.iter().all(|turn| turn.entry.id.to_string() != *id)
            };
            let starts_branch = abandoned.iter().any(is_new);
            if !self.append_external_turns(turns, starts_branch).await {
                return PassResult::Failed;
            }
            self.ctx.mark_unread().await;
        }
        (self.ctx.session.synced_through, self.agent.own_commands) = (synced_through, own_commands);
        let (abandoned, none) = (Value::from(abandoned), Value::Array(Vec::new()));
        if *self.ctx.session.hostler_meta(ABANDONED_TURNS_KEY).unwrap_or(&none) != abandoned {
            self.ctx.publish_session_meta(ABANDONED_TURNS_KEY, abandoned).await;
        }
        if has_new_turns {
            self.ctx.update_summaries().await;
            self.ctx.save_snapshot().await;
        }
        if is_complete {
            return PassResult::Complete(poll_interval);
        }
        self.external.transcript = Some(transcript);
        PassResult::Partial
    }

    /// Appends external turns, each with the sync position. `false` if not all of them could be stored: then a later
    /// sync continues.
    async fn append_external_turns(&mut self, turns: Vec<NewTurn>, mut starts_branch: bool) -> bool {
        for NewTurn { entry, kind, mut loaded } in turns {
            let notice = match kind {
                NewTurnKind::Active => std::mem::take(&mut starts_branch).then_some(NEW_BRANCH_NOTICE),
                NewTurnKind::Abandoned => Some(ABANDONED_TURN_NOTICE),
                NewTurnKind::Extended => {
                    // It is appended as a new turn: the stored turn does not change, and nothing is missing.
                    loaded.id = Uuid::new_v5(&entry.id, &entry.record_count.to_be_bytes());
                    Some(EXTENDED_TURN_NOTICE)
                }
            };
            loaded.events.splice(0..0, notice.map(|notice| DriverEvent::Notice(notice.to_owned())));
            let turn = loaded.id.to_string();
            let replayed = replay_turn(&self.ctx.session, loaded, &self.ctx.host.clock.now_timestamp());
            let mut change = SessionChange::default().blobs(replayed.blobs);
            for (channel, action) in replayed.actions {
                let target = match channel {
                    channel if channel == self.ctx.session.chat_uri => ActionTarget::Chat,
                    channel if channel == self.ctx.session.uri => ActionTarget::Session,
                    channel => ActionTarget::SubAgentChat(channel),
                };
                change = change.action_on(target, action, None);
            }
            let is_active = kind != NewTurnKind::Abandoned;
            if is_active {
                // The agent has the message: if the turn is resumed, it must not receive it twice.
                let synced = SessionRecord::TranscriptSynced { turn: entry.id, length: Some(entry.record_count) };
                change = change.record(synced).record(SessionRecord::Delivered { turn: turn.clone(), prompt_id: None });
            }
            if let Err(error) = self.ctx.commit(change).await {
                tracing::error!(session = &*self.ctx.session.uri, %error, "failed to store external turns; retrying");
                return false;
            }
            if is_active {
                self.ctx.session.synced_through = Some(entry.id);
                self.ctx.session.set_delivered(turn, None);
                self.ctx.session.last_external_turn = Some(ExternalTurn { turn: entry.id, length: entry.record_count });
            }
        }
        self.ctx.host.catalog.notify_sub_agent_chat_started();
        true
    }

    /// Displays whether another process is running a turn.
    async fn show_external_activity(&mut self, is_active: bool) {
        let is_shown = self.ctx.session.chat.activity.as_deref() == Some(ACTIVE_ELSEWHERE_ACTIVITY);
        if is_shown != is_active {
            let activity = is_active.then(|| ACTIVE_ELSEWHERE_ACTIVITY.to_owned());
            self.ctx.publish_output(&mut activity_action(activity).into()).await;
        }
    }
}

/// Whether an action needs the current state of the transcript.
fn needs_transcript(action: &StateAction) -> bool {
    match action {
        StateAction::ChatTurnStarted(_) | StateAction::ChatTurnResume(_) => true,
        StateAction::ChatPendingMessageSet(action) => action.kind == PendingMessageKind::Queued,
        _ => false,
    }
}

fn starts_turn(dispatch: &Dispatch, turn: &str) -> bool {
    matches!(&dispatch.action, StateAction::ChatTurnStarted(start) if start.turn_id == turn)
}
