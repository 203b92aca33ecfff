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

use super::agent::AgentEvent;
use super::context::{SessionContext, next_task_input};
use super::effect::SessionEffect;
use super::external_sync::{ExternalSync, PassResult, SyncEffect, SyncEvent};
use super::input::SessionInput;
use super::session_change::{ActionTarget, SessionChange};
use crate::clock::ClockExt as _;
use crate::external_sessions::{NewTurn, NewTurnKind, SyncPass, SyncPassRequest, replay_turn};
use crate::sessions::action_mapper::activity_action;
use crate::sessions::record::{ExternalTurn, SessionRecord};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::turn::TurnInput;

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
    pub(super) transcript: Option<Arc<dyn Transcript>>,
    deadline: Option<AbortHandle>,
    /// Whether the queue has waited for the sync.
    pub(super) is_queue_released: bool,
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

impl SyncedTranscript {
    /// Handles an event that may start a sync, if there is a transcript.
    pub(super) async fn sync(&mut self, event: SyncEvent<Dispatch>, ctx: &mut SessionContext) -> Vec<SessionEffect> {
        if ctx.transcript_source().is_none() {
            return Vec::new();
        }
        self.step(event, ctx).await
    }

    /// Passes an event to the sync and carries out the effects.
    pub(super) async fn step(&mut self, event: SyncEvent<Dispatch>, ctx: &mut SessionContext) -> Vec<SessionEffect> {
        let mut next = Vec::new();
        for effect in self.sync.on(event, ctx.session.chat.active_turn.is_some()) {
            match effect {
                SyncEffect::StartPass => next.push(SessionEffect::StartSyncPass),
                SyncEffect::StartDeadline => {
                    self.deadline = Some(pass_later(SYNC_DEADLINE, SyncEvent::DeadlineElapsed, ctx));
                }
                SyncEffect::SchedulePoll(delay) => drop(pass_later(delay, SyncEvent::PollElapsed, ctx)),
                SyncEffect::ShowActivity(is_active) => ctx.show_external_activity(is_active).await,
                SyncEffect::Release { queue, held } => {
                    if let Some(deadline) = self.deadline.take() {
                        deadline.abort();
                    }
                    if queue {
                        next.extend([
                            SessionEffect::SetQueueReleased(true),
                            SessionEffect::QueueChanged { resume: false },
                            SessionEffect::SetQueueReleased(false),
                        ]);
                    }
                    next.extend(held.into_iter().map(|dispatch| SessionEffect::AcceptDispatch(Box::new(dispatch))));
                }
            }
        }
        next
    }

    /// Waits for the first pass when the session is opened, and returns the inputs that have arrived. The client sees the
    /// turns that are available at once, and receives the others as actions.
    pub(super) async fn wait_for_pass(&self, ctx: &mut SessionContext) -> Vec<SessionInput> {
        let mut timeout = ctx.host.clock.sleep(FIRST_PASS_TIMEOUT);
        let mut inputs = Vec::new();
        while self.sync.is_syncing() && !matches!(inputs.last(), Some(SessionInput::SyncPassed(_))) {
            tokio::select! {
                () = &mut timeout => break,
                input = next_task_input(&mut ctx.tasks) => inputs.push(input),
            }
        }
        inputs
    }

    pub(super) fn start_pass(&mut self, ctx: &mut SessionContext) {
        let transcript = self.transcript.take();
        let Some((transcript_store, conversation)) = ctx.transcript_source() else {
            ctx.tasks.spawn(async { SessionInput::SyncPassed(Box::new(Err(TranscriptStoreError::Missing))) });
            return;
        };
        let request = SyncPassRequest {
            host: Arc::clone(&ctx.host),
            session: ctx.session.clone(),
            transcript_store,
            conversation,
            own_commands: ctx.own_commands,
        };
        ctx.tasks.spawn(async move { SessionInput::SyncPassed(Box::new(request.run(transcript).await)) });
    }

    /// Holds a dispatch that needs the current state of the transcript, and later ones of the same client. Fails if it is
    /// held.
    pub(super) async fn hold(
        &mut self,
        dispatch: Dispatch,
        ctx: &mut SessionContext,
    ) -> Result<Dispatch, Vec<SessionEffect>> {
        let is_needed = dispatch.channel == *ctx.session.chat_uri
            && needs_transcript(&dispatch.action)
            && ctx.session.chat.active_turn.is_none()
            && ctx.transcript_source().is_some();
        let held = self.sync.held_mut();
        let is_behind = held.iter().any(|held| held.client_id == dispatch.client_id);
        if !(is_needed || is_behind) || held.len() >= MAX_HELD_DISPATCHES {
            return Ok(dispatch);
        }
        if let StateAction::ChatTurnCancelled(cancelled) = &dispatch.action
            && let Some(at) = held.iter().position(|held| starts_turn(held, &cancelled.turn_id))
            && let Some(start) = held.remove(at)
        {
            ctx.host.publication.reject(start, ActionRejection::CancelledBeforeStart).await;
            return Ok(dispatch);
        }
        if is_needed {
            return Err(self.sync(SyncEvent::Held(dispatch), ctx).await);
        }
        held.push_back(dispatch);
        Err(Vec::new())
    }

    /// Checks that no other process is running a turn.
    pub(super) fn check_not_active_elsewhere(&self) -> Result<(), ActionRejection> {
        match self.sync.is_active_elsewhere() {
            true => Err(ActionRejection::ActiveElsewhere),
            false => Ok(()),
        }
    }

    /// Checks that the head of the queue can start. If not, the queue continues after a sync that shows no turn of
    /// another process. After a restart of the host a person has to continue it.
    pub(super) async fn check_queue(&mut self, ctx: &mut SessionContext) -> Result<(), Vec<SessionEffect>> {
        if std::mem::take(&mut self.is_queue_released) || ctx.transcript_source().is_none() {
            return Ok(());
        }
        let mut effects = self.sync(SyncEvent::QueueHeld, ctx).await;
        effects.push(SessionEffect::Turn(TurnInput::StartFailed));
        Err(effects)
    }

    // ── External turns ────────────────────────────────────────────────────────────────────────────────────────────

    pub(super) async fn finish_pass(
        &mut self,
        pass: Result<SyncPass, TranscriptStoreError>,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let mut effects = Vec::new();
        // The agent remembers another conversation.
        if let Ok(pass) = &pass
            && ctx.session.chat.active_turn.is_none()
            && pass.turns.iter().any(|turn| turn.kind != NewTurnKind::Abandoned)
        {
            effects.push(SessionEffect::Agent(AgentEvent::ConversationContinued));
        }
        let (result, delivered_prompt) = match pass {
            Ok(pass) if pass.has_delivered_prompt => (self.store_pass(pass, ctx).await, DeliveredPrompt::Found),
            Ok(pass) => (self.store_pass(pass, ctx).await, DeliveredPrompt::NotFound),
            Err(TranscriptStoreError::Missing) => (PassResult::Missing, DeliveredPrompt::NoTranscript),
            Err(error) => {
                tracing::debug!(session = &*ctx.session.uri, %error, "failed to read transcript");
                (PassResult::Failed, DeliveredPrompt::Unknown)
            }
        };
        self.delivered_prompt = delivered_prompt;
        effects.extend(self.step(SyncEvent::PassEnded(result), ctx).await);
        effects
    }

    async fn store_pass(&mut self, pass: SyncPass, ctx: &mut SessionContext) -> PassResult {
        let SyncPass { transcript, turns, synced_through, abandoned, poll_interval, is_complete, own_commands, .. } =
            pass;
        if ctx.session.chat.active_turn.is_some() {
            return PassResult::Interrupted;
        }
        let has_new_turns = !turns.is_empty();
        if has_new_turns {
            if poll_interval.is_none() {
                ctx.show_external_activity(false).await;
            }
            let known = ctx.session.hostler_meta(ABANDONED_TURNS_KEY).and_then(Value::as_array);
            let is_new = |id: &String| {
                !known.is_some_and(|known| known.iter().any(|turn| turn == id))
                    && turns.iter().all(|turn| turn.entry.id.to_string() != *id)
            };
            let starts_branch = abandoned.iter().any(is_new);
            if !ctx.append_external_turns(turns, starts_branch).await {
                return PassResult::Failed;
            }
            ctx.mark_unread().await;
        }
        (ctx.session.synced_through, ctx.own_commands) = (synced_through, own_commands);
        let (abandoned, none) = (Value::from(abandoned), Value::Array(Vec::new()));
        if *ctx.session.hostler_meta(ABANDONED_TURNS_KEY).unwrap_or(&none) != abandoned {
            ctx.publish_session_meta(ABANDONED_TURNS_KEY, abandoned).await;
        }
        if has_new_turns {
            ctx.update_summaries().await;
            ctx.save_snapshot().await;
        }
        if is_complete {
            return PassResult::Complete(poll_interval);
        }
        self.transcript = Some(transcript);
        PassResult::Partial
    }
}

fn pass_later(delay: Duration, event: SyncEvent<Dispatch>, ctx: &mut SessionContext) -> AbortHandle {
    let delay = ctx.host.clock.sleep(delay);
    ctx.tasks.spawn(async move {
        delay.await;
        SessionInput::Sync(Box::new(event))
    })
}

impl SessionContext {
    /// The transcript store and the id of the session's conversation, if an agent has received a message.
    fn transcript_source(&self) -> Option<(Arc<dyn TranscriptStore>, Uuid)> {
        // An agent that dies in its first turn has reported no token.
        let has_conversation = self.session.resume_token.is_some() || self.session.delivered_prompt_id.is_some();
        let transcript_store = self.host.agents.transcript_store(&self.session.session.provider)?;
        (self.session.is_stored && has_conversation).then(|| (transcript_store, self.current_conversation()))
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
            let replayed = replay_turn(&self.session, loaded, &self.host.clock.now_timestamp());
            let mut change = SessionChange::default().blobs(replayed.blobs);
            for (channel, action) in replayed.actions {
                let target = match channel {
                    channel if channel == self.session.chat_uri => ActionTarget::Chat,
                    channel if channel == self.session.uri => ActionTarget::Session,
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
            if let Err(error) = self.commit(change).await {
                tracing::error!(session = &*self.session.uri, %error, "failed to store external turns; retrying");
                return false;
            }
            if is_active {
                self.session.synced_through = Some(entry.id);
                self.session.set_delivered(turn, None);
                self.session.last_external_turn = Some(ExternalTurn { turn: entry.id, length: entry.record_count });
            }
        }
        self.host.catalog.notify_sub_agent_chat_started();
        true
    }

    /// Displays whether another process is running a turn.
    async fn show_external_activity(&mut self, is_active: bool) {
        let is_shown = self.session.chat.activity.as_deref() == Some(ACTIVE_ELSEWHERE_ACTIVITY);
        if is_shown != is_active {
            let activity = is_active.then(|| ACTIVE_ELSEWHERE_ACTIVITY.to_owned());
            self.publish_output(&mut activity_action(activity).into()).await;
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
