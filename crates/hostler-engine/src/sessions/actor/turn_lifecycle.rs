//! Drives the turn machine, carries out its effects, and starts and ends turns.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ahp_types::actions::{ChatTurnStartedAction, SessionTitleChangedAction};
use ahp_types::state::MessageKind;
use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::CloseMode;
use hostler_store::{Blob, StoreError};
use uuid::Uuid;

use super::agent_settings::AgentSettings;
use super::budget_view::BudgetEvent;
use super::external_sync::SyncEvent;
use super::session_change::SessionChange;
use super::turn_failure::explain_failure;
use super::{SessionActor, SessionInput};
use crate::clock::ClockExt as _;
use crate::sessions::action_mapper::{ActionBuffer, ActionMapper, TurnErrorDetails, chat_error_action};
use crate::sessions::local_command::LocalCommand;
use crate::sessions::session::{new_message, title_from_message};
use crate::sessions::turn::{TurnEffect, TurnEndReason, TurnInput, TurnPhase};

/// Delay before a failed store operation is retried.
pub(super) const STORE_RETRY_DELAY: Duration = Duration::from_millis(500);

impl SessionActor {
    /// Feeds the machine and carries out its effects, until no input follows.
    pub(super) async fn drive(&mut self, input: TurnInput<TurnErrorDetails>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in self.machine.step(input) {
                match effect {
                    TurnEffect::StartQueued(message) => inputs.extend(self.start_queued_turn(&message).await),
                    TurnEffect::StartAgentTurn(reason) => inputs.push_back(self.start_agent_turn(reason).await),
                    TurnEffect::NoteAgentWork(reason) => self.note_agent_work(reason).await,
                    TurnEffect::OpenAgent => self.open_agent().await,
                    TurnEffect::ApplySettings => self.apply_settings(),
                    TurnEffect::SendPrompt(turn) => match self.use_prewarmed_agent().await {
                        Ok(()) => self.assess_and_send(turn),
                        Err(failure) => inputs.push_back(TurnInput::AbortAndClose(failure)),
                    },
                    TurnEffect::RunLocal(turn) => {
                        if self.run_local_turn(&turn).await {
                            inputs.push_back(TurnInput::LocalFinished(turn));
                        }
                    }
                    TurnEffect::StopLocal => self.stop_local_commands(),
                    TurnEffect::PublishOutput | TurnEffect::DiscardOutput => {}
                    TurnEffect::Interrupt => self.interrupt_agent(),
                    TurnEffect::CloseNow => self.close_agent(CloseMode::Now),
                    TurnEffect::CloseGracefully => self.close_agent(CloseMode::Graceful),
                    TurnEffect::EndTurn(turn, end) => {
                        if self.end_turn(turn, end).await {
                            inputs.push_back(self.queue_changed_input(false));
                            inputs.push_back(TurnInput::EndStored);
                        }
                    }
                }
            }
        }
        self.publish_queue_paused().await;
    }

    // ── Start of turns ────────────────────────────────────────────────────────────────────────────────────────────

    /// Stores and publishes the start of a turn: for a session's first message together with the session itself, in one
    /// transaction, and with the contents that the message refers to.
    pub(super) async fn begin_turn(
        &mut self,
        action: ChatTurnStartedAction,
        origin: Option<ActionOrigin>,
        blobs: Vec<Blob>,
    ) -> Result<(), StoreError> {
        let turn = action.turn_id.clone();
        let renames = matches!(self.ctx.host.local_command(&action.message.text), Some(LocalCommand::Rename(_)));
        let untitled = self.ctx.session.session.title.is_empty() && !renames;
        let title = (untitled && action.message.origin.kind == MessageKind::User)
            .then(|| SessionTitleChangedAction { title: title_from_message(&action.message) });
        let mut change = SessionChange::default()
            .client_chat_action(StateAction::ChatTurnStarted(action), origin)
            .blobs(blobs)
            .persist_session();
        if let Some(title) = title {
            change = change.session_action(StateAction::SessionTitleChanged(title));
        }
        self.ctx.commit(change).await?;
        self.set_running_turn(ActionMapper::new(turn)).await;
        Ok(())
    }

    /// Sets the running turn's mapper after a turn has started or continued.
    pub(super) async fn set_running_turn(&mut self, transcript: ActionMapper) {
        self.ctx.turn.started_at = Instant::now();
        self.ctx.turn.mapper = Some(transcript);
        self.ctx.update_summaries().await;
    }

    /// Starts a turn for work that the agent began by itself.
    async fn start_agent_turn(&mut self, reason: String) -> TurnInput<TurnErrorDetails> {
        let turn_id = Uuid::new_v4().to_string();
        let action = ChatTurnStartedAction {
            turn_id: turn_id.clone(),
            started_at: self.ctx.host.clock.now_timestamp(),
            message: new_message(reason, MessageKind::SystemNotification),
            queued_message_id: None,
            meta: None,
        };
        match self.begin_turn(action, None, Vec::new()).await {
            Ok(()) => TurnInput::AgentTurnAccepted(turn_id),
            Err(error) => {
                tracing::error!(session = &*self.ctx.session.uri, %error, "failed to start an agent-initiated turn");
                TurnInput::StartFailed
            }
        }
    }

    /// Adds a note that the agent does other work before it handles the turn's message.
    async fn note_agent_work(&mut self, reason: String) {
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.ctx.turn.mapper.as_mut() {
            transcript.add_notice(reason, &mut output);
        }
        self.ctx.publish_output(&mut output).await;
    }

    // ── End of turns ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Stores and publishes a turn's end. `false` if the store failed; then it is retried later.
    pub(super) async fn end_turn(&mut self, turn: String, end: TurnEndReason<TurnErrorDetails>) -> bool {
        let duration = self.turn_duration_ms();
        let mut output = ActionBuffer::default();
        let shown = explain_failure(end.clone(), &*self.ctx.host.gateway, &self.ctx.session.uri, || self.turn_model());
        let slot = self.resolve_steering_at_turn_end();
        let transcript = self.ctx.turn.mapper.get_or_insert_with(|| ActionMapper::new(turn.clone()));
        if let Some(notice) = &slot.notice {
            transcript.add_notice(notice.clone(), &mut output);
        }
        transcript.end_turn(shown, duration, &mut output);
        self.withdraw_turn_requests().await;
        let change = self.remove_turn_input_needed(SessionChange::default().output(output));
        let change = slot.add_actions_to(self.end_foreground_sub_agents(change));
        match self.ctx.commit(change).await {
            Ok(()) => {
                self.forget_foreground_sub_agents();
                self.clear_running_turn().await;
                self.ctx.mark_unread().await;
                self.ctx.update_summaries().await;
                self.ctx.save_snapshot().await;
                true
            }
            Err(error) => {
                tracing::error!(session = &*self.ctx.session.uri, %error, "failed to store the end of a turn; retrying");
                let pause = self.ctx.host.clock.sleep(STORE_RETRY_DELAY);
                self.ctx.tasks.spawn(async move {
                    pause.await;
                    SessionInput::RetryTurnEnd(turn, end)
                });
                false
            }
        }
    }

    /// Clears the state of the ended turn.
    pub(super) async fn clear_running_turn(&mut self) {
        self.ctx.turn.mapper = None;
        self.ctx.read_git_branch();
        self.sync_transcript(SyncEvent::TurnEnded).await;
        self.budget_view.step(BudgetEvent::TurnEnded, &mut self.ctx).await;
    }

    /// The model of the turn.
    fn turn_model(&self) -> String {
        let driver = self.ctx.host.drivers.get(&self.ctx.session.session.provider);
        let default = driver.map(|driver| driver.describe().default_model).unwrap_or_default();
        AgentSettings::for_new_agent(&self.ctx.session, &default).model
    }

    pub(super) fn turn_duration_ms(&self) -> i64 {
        i64::try_from(self.ctx.turn.started_at.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Retries storing the end of a turn.
    pub(super) async fn retry_turn_end(&mut self, turn: String, end: TurnEndReason<TurnErrorDetails>) {
        if matches!(self.machine.turn_phase(), TurnPhase::Ending(ending) if *ending == turn)
            && self.end_turn(turn, end).await
        {
            let queue = self.queue_changed_input(false);
            self.drive(queue).await;
            self.drive(TurnInput::EndStored).await;
        }
    }

    /// Schedules a retry after the store failed.
    pub(super) fn schedule_queue_retry(&mut self) {
        let pause = self.ctx.host.clock.sleep(STORE_RETRY_DELAY);
        self.ctx.tasks.spawn(async move {
            pause.await;
            SessionInput::RetryQueue
        });
    }

    /// Ends a turn that was running when the host died.
    pub(super) async fn end_interrupted_turn(&mut self) {
        let Some(turn) = self.ctx.session.chat.active_turn.as_ref().map(|turn| turn.id.clone()) else {
            self.ctx.update_summaries().await;
            return;
        };
        let failure = TurnErrorDetails {
            error_type: "interrupted".to_owned(),
            message: "The host stopped while this turn was running. Resume it, or send a message to continue the \
                      conversation."
                .to_owned(),
            stderr: None,
        };
        let slot = self.resolve_steering_at_turn_end();
        let mut output = ActionBuffer::default();
        if let Some(notice) = &slot.notice {
            ActionMapper::new(turn.clone()).add_notice(notice.clone(), &mut output);
        }
        let change = SessionChange::default().output(output).chat_action(chat_error_action(turn, 0, failure));
        let change = slot.add_actions_to(self.remove_turn_input_needed(change));
        if let Err(error) = self.ctx.commit(change).await {
            tracing::error!(%error, "failed to end an interrupted turn");
        }
        // The message was acknowledged, so the session is listed, even if its agent never started.
        if !self.ctx.session.is_listed
            && let Err(error) = self.ctx.announce_session().await
        {
            tracing::error!(%error, "failed to announce an interrupted session");
        }
        self.ctx.update_summaries().await;
    }
}
