//! Handles the agent's events: maps them to actions, publishes them and drives the turn machine.

use hostler_driver::{ApiErrorCategory, DriverEvent, ResumeToken, TurnCause, TurnFailure, TurnOutcome};
use hostler_store::AuditEntry;

use super::SessionActor;
use super::background_work::BackgroundEvent;
use super::pending_messages::MessageEvent;
use super::permission_mode::ModeEvent;
use super::turn_failure::budget_failure;
use crate::permissions::session_gate::MAX_UNWRITTEN_DECISIONS;
use crate::sessions::action_mapper::{ActionBuffer, TurnErrorDetails};
use crate::sessions::record::SessionRecord;
use crate::sessions::turn::{TurnEffect, TurnInput};

/// Maximum number of available events that are handled together.
const MAX_MERGED_EVENTS: usize = 256;

/// Whether an agent has lost its directory. A new directory at the same path needs another agent.
fn has_lost_directory(outcome: &TurnOutcome) -> bool {
    matches!(outcome, TurnOutcome::Failed(failure) if failure.category == ApiErrorCategory::WorkingDirectory)
}

impl SessionActor {
    /// Handles an event and all events that are available already. It does not wait for events in order to merge them.
    pub(super) async fn handle_agent_events(&mut self, first: DriverEvent) {
        let mut actions = ActionBuffer::default();
        let mut next = Some(first);
        let mut left = MAX_MERGED_EVENTS;
        while let Some(event) = next.take() {
            match event {
                DriverEvent::TurnStarted(cause) => {
                    self.ctx.publish_output(&mut actions).await;
                    self.drive(match cause {
                        TurnCause::Prompt => TurnInput::PromptStarted,
                        TurnCause::Agent(reason) => TurnInput::AgentStartedByItself(reason),
                    })
                    .await;
                }
                DriverEvent::MessageStarted => {
                    self.ctx.publish_output(&mut actions).await;
                    self.mark_delivered().await;
                    self.step_agent_messages(MessageEvent::AnswerStarted).await;
                }
                DriverEvent::SteerInjected(id) => {
                    self.ctx.publish_output(&mut actions).await;
                    self.step_agent_messages(MessageEvent::Injected(id)).await;
                }
                DriverEvent::SteerUndelivered(id) => {
                    self.ctx.publish_output(&mut actions).await;
                    self.step_agent_messages(MessageEvent::Undelivered(id)).await;
                }
                DriverEvent::BackgroundTaskChanged(task) => {
                    self.ctx.publish_output(&mut actions).await;
                    self.step_background(BackgroundEvent::Changed(task)).await;
                }
                DriverEvent::BackgroundTaskEnded { id } => {
                    self.ctx.publish_output(&mut actions).await;
                    self.step_background(BackgroundEvent::Ended(id)).await;
                }
                DriverEvent::SubAgent { agent, event } => {
                    self.ctx.publish_output(&mut actions).await;
                    self.handle_sub_agent_event(agent, event).await;
                }
                DriverEvent::ResumeToken(token) => {
                    self.ctx.publish_output(&mut actions).await;
                    self.update_resume_token(token).await;
                }
                DriverEvent::PermissionModeChanged(mode) => {
                    self.ctx.publish_output(&mut actions).await;
                    self.step_modes(ModeEvent::Reported(mode)).await;
                }
                DriverEvent::TurnEnded(outcome) => {
                    self.ctx.publish_output(&mut actions).await;
                    let lost = has_lost_directory(&outcome);
                    self.drive(TurnInput::AgentFinished(outcome)).await;
                    self.deliver_steering();
                    if lost {
                        self.drive(TurnInput::RetireAgent).await;
                    }
                }
                DriverEvent::Retrying { category: ApiErrorCategory::Auth, status, .. } => {
                    self.ctx.publish_output(&mut actions).await;
                    let message = "Authentication failed: the provider rejected the credential.".to_owned();
                    let failure = TurnFailure { category: ApiErrorCategory::Auth, message, status };
                    self.drive(TurnInput::Abort(failure.into())).await;
                }
                DriverEvent::Retrying { category: ApiErrorCategory::RateLimit, .. }
                    if let Some(failure) = budget_failure(&*self.ctx.host.gateway, &self.ctx.session.uri) =>
                {
                    self.ctx.publish_output(&mut actions).await;
                    self.drive(TurnInput::Abort(failure)).await;
                }
                DriverEvent::ProcessExited { status, stderr } => {
                    self.ctx.publish_output(&mut actions).await;
                    self.handle_agent_exited(status, &stderr).await;
                }
                DriverEvent::RequestWithdrawn(request) => {
                    self.ctx.publish_output(&mut actions).await;
                    self.handle_request_withdrawn(&request).await;
                }
                asked @ (DriverEvent::PermissionRequested(_)
                | DriverEvent::QuestionsAsked(_)
                | DriverEvent::PlanProposed(_)) => {
                    self.ctx.publish_output(&mut actions).await;
                    let shown =
                        self.machine.step::<TurnErrorDetails>(TurnInput::Output).contains(&TurnEffect::PublishOutput);
                    match shown || self.is_sub_agent_request(&asked) {
                        true => self.handle_agent_request(asked).await,
                        false => self.deny_late_request(asked),
                    }
                }
                output => {
                    let over = self.finished_pending_call(&output);
                    for effect in self.machine.step::<TurnErrorDetails>(TurnInput::Output) {
                        if effect == TurnEffect::PublishOutput
                            && let Some(transcript) = self.ctx.turn.mapper.as_mut()
                        {
                            transcript.map_event(output, &mut actions);
                            break;
                        }
                    }
                    if let Some(call) = over {
                        self.ctx.publish_output(&mut actions).await;
                        self.close_finished_call(&call).await;
                    }
                }
            }
            left -= 1;
            if left > 0 {
                next = self.agent.try_next_event();
            }
        }
        self.ctx.publish_output(&mut actions).await;
    }

    /// Writes a decision of the gate to the audit log, with all decisions that are available already.
    pub(super) async fn write_gate_decisions(&mut self, first: AuditEntry) {
        let mut entries = vec![first];
        while entries.len() < MAX_UNWRITTEN_DECISIONS
            && let Ok(entry) = self.unwritten_decisions.try_recv()
        {
            entries.push(entry);
        }
        self.ctx.write_audit(entries).await;
    }

    pub(super) async fn update_resume_token(&mut self, token: ResumeToken) {
        if self.ctx.session.resume_token.as_ref() == Some(&token) {
            return;
        }
        self.ctx.session.resume_token = Some(token.clone());
        self.store_resume_token(token).await;
    }

    /// Records that the agent has received the turn's message, because the model answers: it must not be sent again.
    async fn mark_delivered(&mut self) {
        if !self.machine.is_answering() {
            return;
        }
        let Some(turn) = self.ctx.turn.mapper.as_ref().map(|transcript| transcript.turn().to_owned()) else { return };
        if self.ctx.session.delivered_turn.as_ref() != Some(&turn) {
            let prompt = self.agent.sent_prompt_id.take();
            self.ctx.session.set_delivered(turn.clone(), prompt);
            self.ctx.append_record(&SessionRecord::Delivered { turn, prompt_id: prompt }).await;
        }
    }
}
