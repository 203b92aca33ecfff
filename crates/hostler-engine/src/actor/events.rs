//! The agent speaks: its events become what clients see.

use hostler_driver::{ApiErrorCategory, DriverEvent, ResumeToken, TurnCause, TurnFailure, TurnOutcome};
use hostler_store::{AuditEntry, Durability};

use super::Actor;
use crate::gate::UNWRITTEN;
use crate::record::Record;
use crate::transcript::{Failure, Output};
use crate::turn::{Effect, Input as TurnInput};

/// How many events that are waiting already are looked at together.
const MERGE: usize = 256;

/// Whether an agent has lost its directory. What comes back by that name is another one, in which another agent works.
fn is_lost(outcome: &TurnOutcome) -> bool {
    matches!(outcome, TurnOutcome::Failed(failure) if failure.category == ApiErrorCategory::WorkingDirectory)
}

impl Actor {
    /// Handles an event and whatever is waiting behind it. Nothing waits in order to be merged.
    pub(super) async fn events(&mut self, first: DriverEvent) {
        let mut actions = Output::default();
        let mut next = Some(first);
        let mut left = MERGE;
        while let Some(event) = next.take() {
            match event {
                DriverEvent::TurnBegan(cause) => {
                    self.flush(&mut actions).await;
                    self.drive(match cause {
                        TurnCause::Prompt => TurnInput::Began,
                        TurnCause::Agent(reason) => TurnInput::BeganUnasked(reason),
                    })
                    .await;
                }
                DriverEvent::MessageStarted => {
                    self.flush(&mut actions).await;
                    self.delivered().await;
                    self.split_turn().await;
                }
                DriverEvent::SteerInjected(id) => {
                    self.flush(&mut actions).await;
                    self.steer_injected(id).await;
                }
                DriverEvent::SteerUndelivered(id) => {
                    self.flush(&mut actions).await;
                    self.steer_undelivered(id).await;
                }
                DriverEvent::BackgroundChanged(_) | DriverEvent::BackgroundEnded { .. } => {
                    self.flush(&mut actions).await;
                    self.background(event).await;
                }
                DriverEvent::SubAgent { agent, event } => {
                    self.flush(&mut actions).await;
                    self.sub_agent(agent, event).await;
                }
                DriverEvent::ResumeToken(token) => {
                    self.flush(&mut actions).await;
                    self.remember_token(token).await;
                }
                DriverEvent::PermissionModeChanged(word) => {
                    self.flush(&mut actions).await;
                    self.mode_reported(word).await;
                }
                DriverEvent::TurnEnded(outcome) => {
                    self.flush(&mut actions).await;
                    let lost = is_lost(&outcome);
                    self.drive(TurnInput::Ended(outcome)).await;
                    self.hand_steer();
                    if lost {
                        self.drive(TurnInput::Retire).await;
                    }
                }
                DriverEvent::Retrying { category: ApiErrorCategory::Auth, status, .. } => {
                    self.flush(&mut actions).await;
                    let message = "The model's provider refused the credential.".to_owned();
                    let failure = TurnFailure { category: ApiErrorCategory::Auth, message, status };
                    self.drive(TurnInput::GiveUp(failure.into())).await;
                }
                DriverEvent::Retrying { category: ApiErrorCategory::RateLimit, .. }
                    if let Some(failure) = self.refused_by_budget() =>
                {
                    self.flush(&mut actions).await;
                    self.drive(TurnInput::GiveUp(failure)).await;
                }
                DriverEvent::Gone { status, stderr } => {
                    self.flush(&mut actions).await;
                    self.agent_gone(status, &stderr).await;
                }
                DriverEvent::RequestWithdrawn(request) => {
                    self.flush(&mut actions).await;
                    self.withdrawn(&request).await;
                }
                asked @ (DriverEvent::PermissionRequested(_)
                | DriverEvent::QuestionsAsked(_)
                | DriverEvent::PlanProposed(_)) => {
                    self.flush(&mut actions).await;
                    let shown = self.machine.step::<Failure>(TurnInput::Output).contains(&Effect::Show);
                    match shown || self.is_workers(&asked) {
                        true => self.asked(asked).await,
                        false => self.asked_too_late(asked),
                    }
                }
                output => {
                    let over = self.waits_although_over(&output);
                    for effect in self.machine.step::<Failure>(TurnInput::Output) {
                        if effect == Effect::Show
                            && let Some(transcript) = self.transcript.as_mut()
                        {
                            transcript.show(output, &mut actions);
                            break;
                        }
                    }
                    if let Some(call) = over {
                        self.flush(&mut actions).await;
                        self.overtaken(&call).await;
                    }
                }
            }
            left -= 1;
            if left > 0 {
                next = self.agent.waiting_event();
            }
        }
        self.flush(&mut actions).await;
    }

    /// Writes down what the gate has decided, and whatever is waiting behind it.
    pub(super) async fn decided(&mut self, first: AuditEntry) {
        let mut entries = vec![first];
        while entries.len() < UNWRITTEN
            && let Ok(entry) = self.decisions.try_recv()
        {
            entries.push(entry);
        }
        self.write_down(entries).await;
    }

    pub(super) async fn remember_token(&mut self, token: ResumeToken) {
        if self.session.token.as_ref() == Some(&token) {
            return;
        }
        self.session.token = Some(token.clone());
        self.note_token(token).await;
    }

    /// The model answers, so the agent has the turn's message: it must not get it again.
    async fn delivered(&mut self) {
        if !self.machine.is_answering() {
            return;
        }
        let Some(turn) = self.transcript.as_ref().map(|transcript| transcript.turn().to_owned()) else { return };
        if self.session.delivered.as_ref() != Some(&turn) {
            let prompt = self.prompted.take();
            (self.session.delivered, self.session.delivered_as) = (Some(turn.clone()), prompt);
            self.note(&Record::Delivered { turn, prompt }).await;
        }
    }

    /// Appends a private fact.
    pub(super) async fn note(&mut self, record: &Record) {
        match record.on(&self.session.chat_uri) {
            Ok(record) => {
                let batch = self.batch(Durability::Stream).record(record);
                self.submit(batch).await;
            }
            Err(error) => tracing::error!(%error, "a host record was skipped"),
        }
    }
}
