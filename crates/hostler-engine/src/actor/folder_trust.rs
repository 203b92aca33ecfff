//! Workspace trust in a session: the folder is assessed before an agent is opened and before a message reaches a live
//! one.
//!
//! An assessment reads files, so it runs on a blocking thread and returns as [`AgentTaskEvent::FolderAssessed`]. Where
//! a person has to decide, opening the agent waits for the answer, without a slot. The decisions are in
//! `hostler_trust`; a decision that is made elsewhere reaches the session as another assessment.

use std::sync::Arc;

use ahp_types::actions::ChatInputCompletedAction;
use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::{AgentRequestId, FolderConfiguration, FolderRule};
use hostler_store::AuditEntry;
use hostler_trust::{TrustAssessment, TrustDecision};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::agent::{AgentState, AgentTaskEvent};
use super::agent_requests::{input_needed_removed, input_request_id};
use super::session_change::SessionChange;
use super::{SessionActor, SessionInput};
use crate::action_mapper::{TurnErrorDetails, activity_action};
use crate::clock::ClockExt as _;
use crate::pending_requests::{InputForm, PendingInput};
use crate::rejection::ActionRejection;
use crate::turn::{TurnInput, TurnPhase};

/// The key, below `hostler` in the session's `_meta`, for whether the folder's configuration applies.
const TRUST_META_KEY: &str = "trust";

const AWAITING_TRUST_ACTIVITY: &str = "Waiting for your decision about this folder";

/// The reason for an assessment.
#[derive(Debug)]
pub(crate) enum AssessmentPurpose {
    /// An agent is about to be opened.
    OpenAgent,
    /// A live agent is about to get the message of this turn.
    SendPrompt(String),
    /// A trust decision was made, here or elsewhere.
    TrustChanged,
}

/// The folder configuration that an agent is opened with.
#[derive(Debug, Clone, Default)]
pub(crate) struct FolderSetup {
    pub(super) configuration: FolderConfiguration,
    /// The permission rules of the configuration, effective if it is applied.
    pub(super) rules: Vec<FolderRule>,
    /// The version of the trust decisions that it is based on.
    pub(super) trust_version: u64,
}

impl SessionActor {
    /// Assesses the session's folder off the actor. If the token is cancelled first, opening is cancelled.
    fn assess_folder(&mut self, purpose: AssessmentPurpose, cancelled: CancellationToken) {
        let (host, attempt) = (Arc::clone(&self.host), self.agent.attempt);
        let provider = self.session.session.provider.clone();
        let directory = self.session.working_directory().unwrap_or_default();
        self.tasks.spawn(async move {
            // Read before the assessment, so that a decision that is made meanwhile is noticed.
            let version = host.permissions.trust.version();
            let assessed = async {
                let assessed = host.assess_folder_for_session(&provider, directory).await;
                assessed.inspect_err(|error| tracing::info!(%error, "failed to assess a folder; its configuration is ignored")).ok()
            };
            SessionInput::AgentTask(tokio::select! {
                biased;
                () = cancelled.cancelled() => AgentTaskEvent::OpenCancelled { attempt },
                assessment = assessed => AgentTaskEvent::FolderAssessed { attempt, purpose, trust_version: version, assessment: assessment.map(Box::new) },
            })
        });
    }

    /// Assesses the folder before the agent is opened.
    pub(super) fn assess_before_opening(&mut self) {
        let cancel = CancellationToken::new();
        self.assess_folder(AssessmentPurpose::OpenAgent, cancel.clone());
        self.agent.state = AgentState::Waiting { cancel };
    }

    /// Writes the turn's prompt, after the folder is assessed for this turn.
    pub(super) fn assess_and_send(&mut self, turn: String) {
        if self.agent.take_folder_assessed() {
            return self.send_prompt(turn);
        }
        self.agent.prompt_in_flight = true;
        self.assess_folder(AssessmentPurpose::SendPrompt(turn), CancellationToken::new());
    }

    /// Handles a trust decision that was made here or elsewhere.
    pub(super) fn handle_trust_changed(&mut self) {
        let is_announced = self.session.hostler_meta(TRUST_META_KEY).is_some();
        if is_announced || self.pending_requests.folder_question().is_some() {
            self.assess_folder(AssessmentPurpose::TrustChanged, CancellationToken::new());
        }
    }

    pub(super) async fn handle_folder_assessed(
        &mut self,
        attempt: u64,
        purpose: AssessmentPurpose,
        version: u64,
        assessment: Option<TrustAssessment>,
    ) {
        let is_late = version != self.host.permissions.trust.version();
        if let Some(assessment) = &assessment {
            self.publish_trust(assessment).await;
        }
        match purpose {
            AssessmentPurpose::TrustChanged if is_late => self.handle_trust_changed(),
            AssessmentPurpose::TrustChanged => self.withdraw_outdated_folder_question(assessment).await,
            _ if attempt != self.agent.attempt => {}
            AssessmentPurpose::OpenAgent => match self.agent.state {
                AgentState::Waiting { .. } if is_late => self.assess_before_opening(),
                AgentState::Waiting { .. } => self.open_with_assessment(assessment, version).await,
                // Opening was cancelled at the same moment.
                _ => self.handle_agent_closed().await,
            },
            AssessmentPurpose::SendPrompt(_) if is_late => self.assess_folder(purpose, CancellationToken::new()),
            AssessmentPurpose::SendPrompt(turn) => self.send_with_assessment(turn, assessment.as_ref()).await,
        }
    }

    /// Whether a person has to decide, and has not skipped the question before.
    fn should_ask_folder_trust(&self, assessment: &TrustAssessment) -> bool {
        assessment.needs_decision() && !self.folder_question_skipped
    }

    async fn open_with_assessment(&mut self, assessment: Option<TrustAssessment>, version: u64) {
        match assessment {
            Some(assessment) if self.should_ask_folder_trust(&assessment) => {
                if *self.machine.turn_phase() == TurnPhase::None {
                    // No agent is prewarmed before the decision.
                    self.agent.state = AgentState::None;
                    self.drive(TurnInput::AgentOpenFailed(TurnErrorDetails::abandoned())).await;
                } else {
                    self.ask_folder_trust(assessment).await;
                }
            }
            Some(assessment) => {
                let configuration = assessment.folder_configuration();
                self.start_agent(FolderSetup {
                    configuration,
                    rules: assessment.configuration.rules,
                    trust_version: version,
                })
                .await;
            }
            None => self.start_agent(FolderSetup { trust_version: version, ..FolderSetup::default() }).await,
        }
    }

    /// Sends the prompt, unless the live agent was opened with another folder configuration than the one that applies
    /// now.
    async fn send_with_assessment(&mut self, turn: String, assessment: Option<&TrustAssessment>) {
        if !matches!(self.machine.turn_phase(), TurnPhase::Running { turn: now, .. } if *now == turn) {
            return self.fail_unsent_prompt(turn, TurnErrorDetails::abandoned()).await;
        }
        let applies = assessment.map(TrustAssessment::folder_configuration).unwrap_or_default();
        let asks = assessment.is_some_and(|assessment| self.should_ask_folder_trust(assessment));
        if asks || self.agent.folder_configuration() != Some(&applies) {
            self.drive(TurnInput::Reopen(turn)).await;
        } else {
            self.send_prompt(turn);
        }
    }

    // ── The question ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Asks in the turn. The slot is released meanwhile, and the session is announced.
    async fn ask_folder_trust(&mut self, assessment: TrustAssessment) {
        self.agent.set_slot(None);
        let (cancel, attempt) = (CancellationToken::new(), self.agent.attempt);
        let cancelled = cancel.clone();
        self.tasks.spawn(async move {
            cancelled.cancelled().await;
            SessionInput::AgentTask(AgentTaskEvent::OpenCancelled { attempt })
        });
        self.agent.state = AgentState::Waiting { cancel };
        if let Err(error) = self.announce_session().await {
            tracing::warn!(%error, "failed to announce a session that waits for a trust decision");
        }
        self.publish_output(&mut activity_action(Some(AWAITING_TRUST_ACTIVITY.to_owned())).into()).await;
        let request = AgentRequestId(format!("folder-{}", Uuid::new_v4()));
        if !self
            .display_form(PendingInput { request_id: request, call_id: None, form: InputForm::for_folder(assessment) })
            .await
        {
            self.folder_question_skipped = true;
            self.restart_opening().await;
        }
    }

    /// Restarts opening after the question is settled, with the configuration that applies now.
    async fn restart_opening(&mut self) {
        if let AgentState::Waiting { cancel } = &self.agent.state {
            cancel.cancel();
            self.open_agent().await;
        }
    }

    /// Withdraws the question if another one, or none, applies now.
    async fn withdraw_outdated_folder_question(&mut self, assessment: Option<TrustAssessment>) {
        let Some((request, asked)) = self.pending_requests.folder_question() else { return };
        if assessment.as_ref() == Some(asked) {
            return;
        }
        let request = request.clone();
        let state = assessment.as_ref().map_or("unknown", |assessment| assessment.state.name());
        let entry =
            self.folder_audit_entry("host", &request, asked, "withdrawn", format!("decided elsewhere: {state}"));
        self.write_audit(vec![entry]).await;
        self.handle_request_withdrawn(&request).await;
        self.restart_opening().await;
    }

    /// Handles an answer, or that the question was skipped.
    pub(super) async fn handle_folder_decision(
        &mut self,
        said: ChatInputCompletedAction,
        decision: Option<TrustDecision>,
        who: &str,
        origin: Option<ActionOrigin>,
    ) -> Result<(), ActionRejection> {
        let Some((request, asked)) = self.pending_requests.folder_question() else {
            return Err(ActionRejection::FolderChanged);
        };
        let (request, asked) = (request.clone(), asked.clone());
        if let Some(decision) = decision {
            let provider = self.session.session.provider.clone();
            let now = self.host.assess_folder(&provider, asked.directory.clone()).await?;
            if now.configuration != asked.configuration {
                self.handle_request_withdrawn(&request).await;
                self.restart_opening().await;
                return Err(ActionRejection::FolderChanged);
            }
            self.host.decide_folder_trust(asked.clone(), decision).await?;
        }
        let (outcome, why) = match decision {
            Some(TrustDecision::Trust) => ("allow", "the folder is trusted"),
            Some(TrustDecision::TrustSubfolders) => ("allow", "the folder and its subfolders are trusted"),
            Some(TrustDecision::Restrict) => ("deny", "the folder is not trusted"),
            None => ("deny", "not decided; its configuration is ignored in this session"),
        };
        let entry = self.folder_audit_entry(who, &request, &asked, outcome, why.to_owned());
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatInputCompleted(said), origin)
            .session_action(input_needed_removed(input_request_id(&request.to_string())))
            .audit([entry]);
        self.commit(change).await?;
        self.folder_question_skipped |= decision.is_none();
        self.pending_requests.remove_input(&request.to_string());
        self.update_summaries().await;
        self.restart_opening().await;
        Ok(())
    }

    fn folder_audit_entry(
        &self,
        who: &str,
        request: &AgentRequestId,
        asked: &TrustAssessment,
        decision: &str,
        why: String,
    ) -> AuditEntry {
        AuditEntry {
            at_ms: self.host.clock.now_ms(),
            decided_by: who.to_owned(),
            tool_call_id: request.to_string(),
            tool: "trust".to_owned(),
            input: asked.directory.display().to_string(),
            sub_agent: None,
            decision: decision.to_owned(),
            reason: Some(why),
        }
    }

    /// Publishes whether the folder's configuration applies, if that has changed. A folder that never had a
    /// configuration is not mentioned.
    async fn publish_trust(&mut self, assessment: &TrustAssessment) {
        let skipped = assessment.needs_decision() && self.folder_question_skipped;
        let trust = json!({
            "state": if skipped { "restricted" } else { assessment.state.name() },
            "directory": assessment.directory.display().to_string(),
            "items": assessment.configuration.items.len(),
        });
        let announced = self.session.hostler_meta(TRUST_META_KEY);
        if announced != Some(&trust) && (announced.is_some() || !assessment.configuration.is_empty()) {
            self.publish_session_meta(TRUST_META_KEY, trust).await;
        }
    }
}
