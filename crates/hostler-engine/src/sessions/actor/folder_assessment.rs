//! Carries out the effects of workspace trust: assesses the session's folder on a blocking thread, asks a person and
//! stores the answer. While a person decides, opening the agent waits without a slot.

use std::sync::Arc;

use ahp_types::actions::ChatInputCompletedAction;
use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::AgentRequestId;
use hostler_store::AuditEntry;
use hostler_trust::{TrustAssessment, TrustDecision};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::agent::{AgentState, AgentTaskEvent};
use super::agent_requests::{input_needed_removed, input_request_id};
use super::folder_trust::{AssessmentPurpose, FolderContext, FolderEffect, FolderEvent};
use super::session_change::SessionChange;
use super::{SessionActor, SessionInput};
use crate::clock::ClockExt as _;
use crate::permissions::pending_requests::{InputForm, PendingInput};
use crate::sessions::action_mapper::{TurnErrorDetails, activity_action};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::turn::TurnInput;

/// The key, below `hostler` in the session's `_meta`, for whether the folder's configuration applies.
const TRUST_META_KEY: &str = "trust";

const AWAITING_TRUST_ACTIVITY: &str = "Waiting for your decision about this folder";

impl SessionActor {
    /// Passes an event to the folder's trust and carries out the effects. `attempt` is the agent that it belongs to.
    pub(super) async fn step_folder_trust(&mut self, attempt: u64, event: FolderEvent) {
        let context = FolderContext {
            turn: self.machine.turn_phase(),
            is_current: attempt == self.agent.attempt,
            is_waiting: matches!(self.agent.state, AgentState::Waiting { .. }),
            live_configuration: self.agent.folder_configuration(),
            published: self.ctx.session.hostler_meta(TRUST_META_KEY),
            asked: self.pending_requests.folder_question().map(|(_, asked)| asked),
            trust_version: self.ctx.host.permissions.trust.version(),
        };
        for effect in self.folder_trust.on(event, context) {
            match effect {
                FolderEffect::Publish(trust) => self.ctx.publish_session_meta(TRUST_META_KEY, trust).await,
                FolderEffect::Assess(AssessmentPurpose::OpenAgent) => self.assess_before_opening(),
                FolderEffect::Assess(purpose) => self.assess_folder(purpose, CancellationToken::new()),
                FolderEffect::StartAgent(folder) => self.start_agent(folder).await,
                FolderEffect::AbandonPrewarm => {
                    self.agent.state = AgentState::None;
                    self.drive(TurnInput::AgentOpenFailed(TurnErrorDetails::abandoned())).await;
                }
                FolderEffect::Ask(assessment) => self.ask_folder_trust(assessment).await,
                FolderEffect::FinishClosing => self.handle_agent_closed().await,
                FolderEffect::SendPrompt(turn) => self.send_prompt(turn),
                FolderEffect::Reopen(turn) => self.drive(TurnInput::Reopen(turn)).await,
                FolderEffect::DropPrompt(turn) => self.fail_unsent_prompt(turn, TurnErrorDetails::abandoned()).await,
                FolderEffect::WithdrawQuestion(state) => self.withdraw_folder_question(state).await,
            }
        }
    }

    /// Handles a trust decision that was made here or elsewhere.
    pub(super) async fn handle_trust_changed(&mut self) {
        self.step_folder_trust(self.agent.attempt, FolderEvent::TrustChanged).await;
    }

    /// Assesses the session's folder off the actor. If the token is cancelled first, opening is cancelled.
    fn assess_folder(&mut self, purpose: AssessmentPurpose, cancelled: CancellationToken) {
        let (host, attempt) = (Arc::clone(&self.ctx.host), self.agent.attempt);
        let provider = self.ctx.session.session.provider.clone();
        let directory = self.ctx.session.working_directory().unwrap_or_default();
        self.ctx.tasks.spawn(async move {
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

    /// Asks in the turn. The slot is released meanwhile, and the session is announced.
    async fn ask_folder_trust(&mut self, assessment: TrustAssessment) {
        self.agent.set_slot(None);
        let (cancel, attempt) = (CancellationToken::new(), self.agent.attempt);
        let cancelled = cancel.clone();
        self.ctx.tasks.spawn(async move {
            cancelled.cancelled().await;
            SessionInput::AgentTask(AgentTaskEvent::OpenCancelled { attempt })
        });
        self.agent.state = AgentState::Waiting { cancel };
        if let Err(error) = self.ctx.announce_session().await {
            tracing::warn!(%error, "failed to announce a session that waits for a trust decision");
        }
        self.ctx.publish_output(&mut activity_action(Some(AWAITING_TRUST_ACTIVITY.to_owned())).into()).await;
        let request = AgentRequestId(format!("folder-{}", Uuid::new_v4()));
        let form = InputForm::for_folder(assessment);
        if !self.display_form(PendingInput { request_id: request, call_id: None, form }).await {
            self.folder_trust.skip_question();
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

    async fn withdraw_folder_question(&mut self, state: &str) {
        let Some((request, asked)) = self.pending_requests.folder_question() else { return };
        let request = request.clone();
        let entry =
            self.folder_audit_entry("host", &request, asked, "withdrawn", format!("decided elsewhere: {state}"));
        self.ctx.write_audit(vec![entry]).await;
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
            let provider = self.ctx.session.session.provider.clone();
            let now = self.ctx.host.assess_folder(&provider, asked.directory.clone()).await?;
            if now.configuration != asked.configuration {
                self.handle_request_withdrawn(&request).await;
                self.restart_opening().await;
                return Err(ActionRejection::FolderChanged);
            }
            self.ctx.host.decide_folder_trust(asked.clone(), decision).await?;
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
        self.ctx.commit(change).await?;
        if decision.is_none() {
            self.folder_trust.skip_question();
        }
        self.pending_requests.remove_input(&request.to_string());
        self.ctx.update_summaries().await;
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
            at_ms: self.ctx.host.clock.now_ms(),
            decided_by: who.to_owned(),
            tool_call_id: request.to_string(),
            tool: "trust".to_owned(),
            input: asked.directory.display().to_string(),
            sub_agent: None,
            decision: decision.to_owned(),
            reason: Some(why),
        }
    }
}
