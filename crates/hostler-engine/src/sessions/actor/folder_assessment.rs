//! Carries out the effects of workspace trust: assesses the session's folder on a blocking thread, asks a person and
//! stores the answer. While a person decides, opening the agent waits without a slot.

use std::sync::Arc;

use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::AgentRequestId;
use hostler_store::AuditEntry;
use hostler_trust::{TrustAssessment, TrustDecision};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::SessionInput;
use super::agent::{AgentEvent, AgentState, AgentTaskEvent, SessionAgent};
use super::agent_requests::{input_needed_removed, input_request_id};
use super::answers::{FolderAnswer, UNATTENDED_AUDIT_NAME};
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::folder_trust::{AssessmentPurpose, FolderContext, FolderEffect, FolderEvent, FolderTrust};
use super::session_change::SessionChange;
use crate::EngineError;
use crate::clock::ClockExt as _;
use crate::permissions::pending_requests::{AnswerError, InputForm, PendingInput, PendingRequests};
use crate::sessions::action_mapper::activity_action;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::turn::{TurnInput, TurnPhase};

/// The key, below `hostler` in the session's `_meta`, for whether the folder's configuration applies.
const TRUST_META_KEY: &str = "trust";

const AWAITING_TRUST_ACTIVITY: &str = "Waiting for your decision about this folder";

/// What the folder's trust reads of the turn and the agent.
pub(super) struct FolderFacts<'a> {
    pub(super) turn: &'a TurnPhase,
    pub(super) agent: &'a SessionAgent,
    /// The attempt to open an agent that the event belongs to.
    pub(super) attempt: u64,
}

/// A decision about the folder that was stored. `false` if the folder's configuration has changed since the question.
pub(crate) struct StoredFolderDecision {
    answer: FolderAnswer,
    request: AgentRequestId,
    asked: TrustAssessment,
    result: Result<bool, EngineError>,
}

impl FolderTrust {
    /// Passes an event and carries out the effects.
    pub(super) async fn step(
        &mut self,
        event: FolderEvent,
        facts: FolderFacts<'_>,
        requests: &mut PendingRequests,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let FolderFacts { turn, agent, attempt } = facts;
        let context = FolderContext {
            turn,
            is_current: attempt == agent.attempt,
            is_waiting: matches!(agent.state, AgentState::Waiting { .. }),
            live_configuration: agent.folder_configuration(),
            published: ctx.session.hostler_meta(TRUST_META_KEY),
            asked: requests.folder_question().map(|(_, asked)| asked),
            trust_version: ctx.host.permissions.trust().version(),
        };
        let mut next = Vec::new();
        for effect in self.on(event, context) {
            match effect {
                FolderEffect::Publish(trust) => ctx.publish_session_meta(TRUST_META_KEY, trust).await,
                FolderEffect::Assess(AssessmentPurpose::OpenAgent) => {
                    next.push(SessionEffect::Agent(AgentEvent::AssessFolder))
                }
                FolderEffect::Assess(purpose) => assess_folder(purpose, agent.attempt, CancellationToken::new(), ctx),
                FolderEffect::StartAgent(folder) => next.push(SessionEffect::Agent(AgentEvent::Start(folder))),
                FolderEffect::AbandonPrewarm => next.push(SessionEffect::Agent(AgentEvent::AbandonPrewarm)),
                FolderEffect::Ask(assessment) => next.extend(self.ask(assessment, requests, ctx).await),
                FolderEffect::FinishClosing => next.push(SessionEffect::Agent(AgentEvent::FinishClosing)),
                FolderEffect::SendPrompt(turn) => next.push(SessionEffect::Agent(AgentEvent::SendPrompt(turn))),
                FolderEffect::Reopen(turn) => next.push(SessionEffect::Turn(TurnInput::Reopen(turn))),
                FolderEffect::DropPrompt(turn) => next.push(SessionEffect::Agent(AgentEvent::DropPrompt(turn))),
                FolderEffect::WithdrawQuestion(state) => next.extend(withdraw_question(state, requests, ctx).await),
            }
        }
        next
    }

    /// Asks in the turn. The slot is released meanwhile, and the session is announced.
    async fn ask(
        &mut self,
        assessment: TrustAssessment,
        requests: &mut PendingRequests,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        if let Err(error) = ctx.announce_session().await {
            tracing::warn!(%error, "failed to announce a session that waits for a trust decision");
        }
        ctx.publish_output(&mut activity_action(Some(AWAITING_TRUST_ACTIVITY.to_owned())).into()).await;
        let request_id = AgentRequestId(format!("folder-{}", Uuid::new_v4()));
        let form = InputForm::for_folder(assessment);
        if requests.display_form(PendingInput { request_id, call_id: None, form }, ctx).await {
            return vec![SessionEffect::Agent(AgentEvent::AwaitTrustDecision)];
        }
        self.skip_question();
        vec![SessionEffect::Agent(AgentEvent::AwaitTrustDecision), SessionEffect::Agent(AgentEvent::RestartOpening)]
    }

    /// Handles an answer, or that the question was skipped. A decision is stored on a blocking thread, if the folder has
    /// not changed; the session continues meanwhile.
    pub(super) async fn answer(
        &mut self,
        answer: FolderAnswer,
        requests: &mut PendingRequests,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let Some((request, asked)) = requests.folder_question() else {
            return reject(answer, ActionRejection::FolderChanged, ctx).await;
        };
        let (request, asked) = (request.clone(), asked.clone());
        let Some(decision) = answer.decision else {
            return self.apply_answer(answer, &request, &asked, requests, ctx).await;
        };
        requests.begin_answer(request.clone(), answer.origin());
        let (host, provider) = (Arc::clone(&ctx.host), ctx.session.session.provider.clone());
        ctx.tasks.spawn(async move {
            let stored = async {
                let now = host.assess_folder(&provider, asked.directory.clone()).await?;
                if now.configuration != asked.configuration {
                    return Ok(false);
                }
                host.decide_folder_trust(asked.clone(), decision).await.map(|()| true)
            };
            let result = stored.await;
            SessionInput::FolderDecisionStored(Box::new(StoredFolderDecision { answer, request, asked, result }))
        });
        Vec::new()
    }

    /// Applies a decision that was stored.
    pub(super) async fn apply_stored(
        &mut self,
        stored: StoredFolderDecision,
        requests: &mut PendingRequests,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let StoredFolderDecision { answer, request, asked, result } = stored;
        requests.finish_answer(&request);
        match result {
            Ok(true) => self.apply_answer(answer, &request, &asked, requests, ctx).await,
            Ok(false) => {
                requests.withdraw_question(&request, ctx).await;
                reject(answer, ActionRejection::FolderChanged, ctx).await;
                vec![SessionEffect::Agent(AgentEvent::RestartOpening)]
            }
            Err(error) => reject(answer, error.into(), ctx).await,
        }
    }

    async fn apply_answer(
        &mut self,
        answer: FolderAnswer,
        request: &AgentRequestId,
        asked: &TrustAssessment,
        requests: &mut PendingRequests,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        if requests.input(&request.to_string()).is_none() {
            return reject(answer, AnswerError::NotPending.into(), ctx).await;
        }
        let (outcome, why) = match answer.decision {
            Some(TrustDecision::Trust) => ("allow", "the folder is trusted"),
            Some(TrustDecision::TrustSubfolders) => ("allow", "the folder and its subfolders are trusted"),
            Some(TrustDecision::Restrict) => ("deny", "the folder is not trusted"),
            None => ("deny", "not decided; its configuration is ignored in this session"),
        };
        let who = answer.dispatch.as_ref().map_or(UNATTENDED_AUDIT_NAME, |dispatch| &dispatch.client_id);
        let entry = audit_entry(who, request, asked, outcome, why.to_owned(), ctx);
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatInputCompleted(answer.completed.clone()), answer.origin())
            .session_action(input_needed_removed(input_request_id(&request.to_string())))
            .audit([entry]);
        if let Err(error) = ctx.commit(change).await {
            return reject(answer, error.into(), ctx).await;
        }
        if answer.decision.is_none() {
            self.skip_question();
        }
        requests.remove_input(&request.to_string());
        ctx.update_summaries().await;
        vec![SessionEffect::Agent(AgentEvent::RestartOpening)]
    }
}

impl SessionAgent {
    /// Assesses the folder before the agent is opened.
    pub(super) fn assess_before_opening(&mut self, ctx: &mut SessionContext) {
        let cancel = CancellationToken::new();
        assess_folder(AssessmentPurpose::OpenAgent, self.attempt, cancel.clone(), ctx);
        self.state = AgentState::Waiting { cancel };
    }

    /// Assesses the folder before the turn's prompt is written. `false` if it was assessed for this turn already.
    pub(super) fn assess_before_prompt(&mut self, turn: &str, ctx: &mut SessionContext) -> bool {
        if self.take_folder_assessed() {
            return false;
        }
        self.prompt_in_flight = true;
        assess_folder(AssessmentPurpose::SendPrompt(turn.to_owned()), self.attempt, CancellationToken::new(), ctx);
        true
    }

    /// Waits for a person's decision about the folder, without a slot.
    pub(super) fn await_trust_decision(&mut self, ctx: &mut SessionContext) {
        self.set_slot(None);
        let (cancel, attempt) = (CancellationToken::new(), self.attempt);
        let cancelled = cancel.clone();
        ctx.tasks.spawn(async move {
            cancelled.cancelled().await;
            SessionInput::AgentTask(AgentTaskEvent::OpenCancelled { attempt })
        });
        self.state = AgentState::Waiting { cancel };
    }
}

impl FolderAnswer {
    fn origin(&self) -> Option<ActionOrigin> {
        self.dispatch.as_ref().map(|dispatch| dispatch.origin())
    }
}

/// Assesses the session's folder off the actor. If the token is cancelled first, opening is cancelled.
fn assess_folder(purpose: AssessmentPurpose, attempt: u64, cancelled: CancellationToken, ctx: &mut SessionContext) {
    let host = Arc::clone(&ctx.host);
    let provider = ctx.session.session.provider.clone();
    let directory = ctx.session.working_directory().unwrap_or_default();
    ctx.tasks.spawn(async move {
        // Read before the assessment, so that a decision that is made meanwhile is noticed.
        let version = host.permissions.trust().version();
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

async fn withdraw_question(
    state: &str,
    requests: &mut PendingRequests,
    ctx: &mut SessionContext,
) -> Option<SessionEffect> {
    let (request, asked) = requests.folder_question()?;
    let request = request.clone();
    let entry = audit_entry("host", &request, asked, "withdrawn", format!("decided elsewhere: {state}"), ctx);
    ctx.write_audit(vec![entry]).await;
    requests.withdraw_question(&request, ctx).await;
    Some(SessionEffect::Agent(AgentEvent::RestartOpening))
}

async fn reject(answer: FolderAnswer, rejection: ActionRejection, ctx: &SessionContext) -> Vec<SessionEffect> {
    match answer.dispatch {
        Some(dispatch) => ctx.host.publication.reject(*dispatch, rejection).await,
        None => {
            tracing::warn!(session = &*ctx.session.uri, error = %rejection, "failed to skip the question about a folder")
        }
    }
    Vec::new()
}

fn audit_entry(
    who: &str,
    request: &AgentRequestId,
    asked: &TrustAssessment,
    decision: &str,
    why: String,
    ctx: &SessionContext,
) -> AuditEntry {
    AuditEntry {
        at_ms: ctx.host.clock.now_ms(),
        decided_by: who.to_owned(),
        tool_call_id: request.to_string(),
        tool: "trust".to_owned(),
        input: asked.directory.display().to_string(),
        sub_agent: None,
        decision: decision.to_owned(),
        reason: Some(why),
    }
}
