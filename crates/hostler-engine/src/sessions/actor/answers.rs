//! Answers to pending requests: from a client, from changed rules, or by the unattended policy.
//!
//! The first answer wins. It is checked against the pending request; an approval is also checked against the gate. It
//! is stored and published before the agent receives it.

use std::sync::Arc;

use ahp_types::actions::{
    ChatInputAnswerChangedAction, ChatInputCompletedAction, ChatToolCallConfirmedAction, SessionConfigChangedAction,
};
use ahp_types::common::JsonObject;
use ahp_types::state::{
    ChatInputResponseKind, SessionChatInputRequest, SessionInputRequest, ToolCallCancellationReason,
    ToolCallConfirmationReason,
};
use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::{AgentRequestId, Answer, GateDecision, ToolDisplay};
use hostler_rules::Rule;
use hostler_store::AuditEntry;
use hostler_trust::TrustDecision;
use serde_json::value::RawValue;

use super::SessionInput;
use super::agent::AgentEvent;
use super::agent_requests::{input_needed_removed, input_request_id, permission_request_id, publish_input_needed};
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::session_change::SessionChange;
use super::sub_agents::SubAgents;
use crate::EngineError;
use crate::clock::ClockExt as _;
use crate::permissions::pending_requests::{
    AnswerError, FormOutcome, PendingRequests, RuleLifetime, ToolCallAnswer, UnattendedOutcome,
};
use crate::permissions::session_gate::summarize_input;
use crate::permissions::{UnattendedAnswer, UnattendedPolicy};
use crate::sessions::action_mapper::ActionBuffer;
use crate::sessions::config;
use crate::sessions::record::SessionRecord;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;

/// The decider in the audit log for a request that no person answers.
pub(super) const UNATTENDED_AUDIT_NAME: &str = "unattended";

const UNANSWERED_DENIAL: &str =
    "Denied: no answer in time. Continue without it, or end the turn and state what is needed.";

/// The decider of an answer, for the audit log.
struct DecisionSource {
    decided_by: String,
    reason: Option<String>,
    origin: Option<ActionOrigin>,
}

/// A client's answer whose permanent rules were stored, or storing them failed.
pub(crate) struct AnswerWithRules {
    dispatch: Box<Dispatch>,
    request: AgentRequestId,
    answer: ToolCallAnswer,
    result: Result<(), ActionRejection>,
}

/// A person's decision about a folder. Without a dispatch, no person has decided.
pub(crate) struct FolderAnswer {
    pub(super) completed: ChatInputCompletedAction,
    pub(super) decision: Option<TrustDecision>,
    pub(super) dispatch: Option<Box<Dispatch>>,
}

impl PendingRequests {
    /// Handles a client's answer about a call.
    pub(super) async fn confirm_call(
        &mut self,
        dispatch: &Dispatch,
        said: &ChatToolCallConfirmedAction,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Result<Vec<SessionEffect>, ActionRejection> {
        if self.is_repeated_answer(&said.tool_call_id, &dispatch.origin()) {
            return Ok(Vec::new());
        }
        let worker = sub_agents.agent_in_chat(&dispatch.channel).map(str::to_owned);
        let is_elsewhere = self.permission(&said.tool_call_id).is_some_and(|open| open.chat_sub_agent != worker);
        let is_over = worker.is_none() && dispatch.channel != *ctx.session.chat_uri;
        let turn = sub_agents.action_mapper(worker.as_deref(), ctx).filter(|_| !is_over);
        if is_elsewhere || turn.is_none_or(|turn| turn.turn() != said.turn_id) {
            return Err(AnswerError::NotPending.into());
        }
        let answer = self.evaluate_confirmation(said)?;
        if said.approved {
            self.check_approval(&said.tool_call_id, answer.edited_input.as_deref(), ctx)?;
        }
        match &answer.rules {
            Some((RuleLifetime::Permanent, rules)) => {
                let rules = rules.clone();
                self.store_rules(dispatch, answer, rules, ctx);
                Ok(Vec::new())
            }
            _ => self.apply_client_answer(dispatch, answer, sub_agents, ctx).await,
        }
    }

    /// Checks that no rule denies a call that is about to be approved.
    fn check_approval(
        &self,
        call: &str,
        edited_input: Option<&RawValue>,
        ctx: &SessionContext,
    ) -> Result<(), ActionRejection> {
        let open = self.permission(call).ok_or(AnswerError::NotPending)?;
        let input = edited_input.unwrap_or(&open.input).get();
        match ctx.gate.evaluate_anew(Some(call), &open.tool, input).decision {
            GateDecision::Deny(reason) => Err(ActionRejection::CallDenied { reason }),
            GateDecision::Allow | GateDecision::Ask => Ok(()),
        }
    }

    /// Writes permanent rules to the host's rule store. The session continues meanwhile; the answer is applied
    /// afterwards.
    fn store_rules(&mut self, dispatch: &Dispatch, answer: ToolCallAnswer, rules: Vec<Rule>, ctx: &mut SessionContext) {
        let Some(open) = self.permission(&answer.action.tool_call_id) else { return };
        let (request, dispatch) = (open.request_id.clone(), Box::new(dispatch.clone()));
        self.begin_answer(request.clone(), Some(dispatch.origin()));
        let (store, directory) = (Arc::clone(ctx.host.permissions.rules()), ctx.gate.working_directory().to_owned());
        let stored = tokio::task::spawn_blocking(move || store.add(Some(&directory), &rules));
        ctx.tasks.spawn(async move {
            let result = match stored.await {
                Ok(stored) => stored.map(drop).map_err(ActionRejection::RuleNotStored),
                Err(_) => Err(EngineError::Stopping.into()),
            };
            SessionInput::AnswerRulesStored(Box::new(AnswerWithRules { dispatch, request, answer, result }))
        });
    }

    /// Applies an answer after its rules were stored, if the call is still pending. The rules remain otherwise: a person
    /// has chosen them.
    pub(super) async fn apply_stored_answer(
        &mut self,
        stored: AnswerWithRules,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let AnswerWithRules { dispatch, request, answer, result } = stored;
        self.finish_answer(&request);
        if result.is_ok() {
            ctx.host.permissions.notify_rule_changes();
        }
        let checked = result.and_then(|()| self.check_approval(&answer.action.tool_call_id, None, ctx));
        let applied = match checked {
            Ok(()) => self.apply_client_answer(&dispatch, answer, sub_agents, ctx).await,
            Err(rejection) => Err(rejection),
        };
        match applied {
            Ok(effects) => effects,
            Err(rejection) => {
                ctx.host.publication.reject(*dispatch, rejection).await;
                Vec::new()
            }
        }
    }

    async fn apply_client_answer(
        &mut self,
        dispatch: &Dispatch,
        answer: ToolCallAnswer,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Result<Vec<SessionEffect>, ActionRejection> {
        let decider =
            DecisionSource { decided_by: dispatch.client_id.clone(), reason: None, origin: Some(dispatch.origin()) };
        let adds_rules = answer.rules.is_some();
        let mut effects = self.apply_answer(answer, decider, sub_agents, ctx).await?;
        effects.extend(adds_rules.then_some(SessionEffect::ReevaluateCalls));
        Ok(effects)
    }

    /// Stores and publishes a decision about a call, then sends it to the agent.
    async fn apply_answer(
        &mut self,
        answer: ToolCallAnswer,
        decider: DecisionSource,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Result<Vec<SessionEffect>, ActionRejection> {
        let ToolCallAnswer { mut action, edited_input: edited, rules, agent_answer } = answer;
        let (call, approved) = (action.tool_call_id.clone(), action.approved);
        let open = self.permission(&call).ok_or(AnswerError::NotPending)?;
        let (worker, tool) = (open.chat_sub_agent.clone(), open.tool.clone());
        let entry = AuditEntry {
            at_ms: ctx.host.clock.now_ms(),
            decided_by: decider.decided_by,
            tool_call_id: call.clone(),
            tool: tool.clone(),
            input: summarize_input(edited.as_ref().unwrap_or(&open.input).get()),
            sub_agent: open.sub_agent.clone(),
            decision: if approved { "allow" } else { "deny" }.to_owned(),
            reason: decider.reason.or_else(|| describe_added_rules(rules.as_ref())),
        };
        let session_rules = rules.filter(|(lifetime, _)| *lifetime == RuleLifetime::Session).map(|(_, rules)| rules);
        let texts: Vec<_> = session_rules.iter().flatten().map(ToString::to_string).collect();
        let mut change = SessionChange::default();
        if !texts.is_empty() {
            change = change.record(SessionRecord::Allowed { rules: texts.clone() });
        }
        let home = sub_agents.target_of(worker.as_deref());
        let mut replaced = ActionBuffer::default();
        if let Some(edited) = &edited {
            let display = describe_tool_call(&tool, edited, ctx);
            if let Some(turn) = sub_agents.action_mapper(worker.as_deref(), ctx)
                && turn.replace_input(&call, edited.get(), display, &mut replaced)
            {
                action.edited_tool_input = None;
            }
        }
        change = change
            .output_on(&home, replaced)
            .action_on(home.clone(), StateAction::ChatToolCallConfirmed(action), decider.origin)
            .session_action(input_needed_removed(permission_request_id(&call)))
            .audit([entry]);
        ctx.commit(change).await?;

        if let Some(rules) = session_rules {
            ctx.session.add_session_rules(&texts);
            if let Err(error) = ctx.gate.add_session_rules(&rules) {
                tracing::warn!(%error, "ignored an invalid rule of a session");
            }
        }
        let answered = self
            .remove_permission(&call)
            .map(|open| SessionEffect::Agent(AgentEvent::Answer(open.request_id, agent_answer)));
        let mut output = ActionBuffer::default();
        if let Some(turn) = sub_agents.action_mapper(worker.as_deref(), ctx) {
            turn.record_answer(&call, approved, &mut output);
            if edited.is_some() {
                turn.show_edited_call(&call, &mut output);
            }
        }
        ctx.publish_output_on(&home, &mut output).await;
        ctx.update_summaries().await;
        Ok(answered.into_iter().collect())
    }

    /// Evaluates the pending calls again after a change of the rules or the mode. Calls that are decided now are no
    /// longer pending.
    pub(super) async fn reevaluate(
        &mut self,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let waiting: Vec<_> = self.unanswered_permissions().map(|open| open.call_id.clone()).collect();
        let mut effects = Vec::new();
        for call in waiting {
            let Some(open) = self.permission(&call) else { continue };
            let ruling = ctx.gate.evaluate(&call, &open.tool, open.input.get());
            let answer = match ruling.decision {
                GateDecision::Ask => continue,
                GateDecision::Allow => Answer::Allow { input: None },
                GateDecision::Deny(message) => Answer::Deny { message },
            };
            let decider =
                DecisionSource { decided_by: ruling.decided_by.to_owned(), reason: Some(ruling.reason), origin: None };
            effects.extend(self.decide_call(call, answer, decider, sub_agents, ctx).await);
        }
        effects
    }

    /// Decides a pending call without a person.
    async fn decide_call(
        &mut self,
        call: String,
        agent_answer: Answer,
        decider: DecisionSource,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let worker = self.permission(&call).and_then(|open| open.chat_sub_agent.clone());
        let turn = sub_agents.action_mapper(worker.as_deref(), ctx).map(|turn| turn.turn().to_owned());
        let Some(turn_id) = turn else { return Vec::new() };
        let denial = match &agent_answer {
            Answer::Deny { message } => Some(message.clone()),
            _ => None,
        };
        let approved = denial.is_none();
        let action = ChatToolCallConfirmedAction {
            turn_id,
            tool_call_id: call,
            meta: None,
            approved,
            confirmed: approved.then_some(ToolCallConfirmationReason::Setting),
            reason: (!approved).then_some(ToolCallCancellationReason::Denied),
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: denial.map(Into::into),
            selected_option_id: None,
        };
        let answer = ToolCallAnswer { action, edited_input: None, rules: None, agent_answer };
        let applied = self.apply_answer(answer, decider, sub_agents, ctx).await;
        applied.unwrap_or_else(|error| {
            tracing::warn!(session = &*ctx.session.uri, %error, "failed to decide a pending tool call automatically");
            Vec::new()
        })
    }

    // ── Questions ─────────────────────────────────────────────────────────────────────────────────────────────────

    /// Publishes a client's draft of an answer to all clients.
    pub(super) async fn change_draft(
        &mut self,
        draft: ChatInputAnswerChangedAction,
        origin: ActionOrigin,
        ctx: &mut SessionContext,
    ) -> Result<(), ActionRejection> {
        self.check_draft(&draft.request_id, &draft.question_id, draft.answer.as_ref())?;
        let id = draft.request_id.clone();
        let action = StateAction::ChatInputAnswerChanged(draft);
        ctx.commit(SessionChange::default().client_chat_action(action, Some(origin))).await?;
        // Clients that are subscribed to the session only receive the drafts as well.
        if let Some(request) = ctx.session.open_input_request(&id).cloned() {
            let chat = ctx.session.chat_uri.to_string();
            let needed = SessionChatInputRequest { id: input_request_id(&id), chat, request };
            publish_input_needed(SessionInputRequest::ChatInput(needed), ctx).await;
        }
        Ok(())
    }

    /// Handles a client's answers to questions. `config` is the configuration after all pending changes.
    pub(super) async fn complete_input(
        &mut self,
        dispatch: &Dispatch,
        completed: ChatInputCompletedAction,
        config: &JsonObject,
        ctx: &mut SessionContext,
    ) -> Result<Vec<SessionEffect>, ActionRejection> {
        if self.is_repeated_answer(&completed.request_id, &dispatch.origin()) {
            return Ok(Vec::new());
        }
        let request = ctx.session.open_input_request(&completed.request_id);
        let drafts = request.and_then(|request| request.answers.clone()).unwrap_or_default();
        let outcome = self.evaluate_completion(&completed, |question| drafts.get(question).cloned())?;
        self.apply_outcome(completed, outcome, Some(dispatch), config, ctx).await
    }

    async fn apply_outcome(
        &mut self,
        completed: ChatInputCompletedAction,
        outcome: FormOutcome,
        dispatch: Option<&Dispatch>,
        config: &JsonObject,
        ctx: &mut SessionContext,
    ) -> Result<Vec<SessionEffect>, ActionRejection> {
        let (answer, mode) = match outcome {
            FormOutcome::DecideFolder(decision) => {
                let dispatch = dispatch.cloned().map(Box::new);
                return Ok(vec![SessionEffect::DecideFolder(FolderAnswer { completed, decision, dispatch })]);
            }
            FormOutcome::AnswerAgent(answer) => (answer, None),
            FormOutcome::AcceptPlan(name) => {
                let mode = config::parse_mode(name, false);
                (Answer::AcceptPlan { mode: config::agent_mode_name(mode).to_owned() }, Some((name, mode)))
            }
        };
        let id = completed.request_id.clone();
        let call = self.input(&id).and_then(|open| open.call_id.clone());
        let no = matches!(answer, Answer::Deny { .. } | Answer::Skip);
        let entry = AuditEntry {
            at_ms: ctx.host.clock.now_ms(),
            decided_by: dispatch.map_or(UNATTENDED_AUDIT_NAME, |dispatch| &dispatch.client_id).to_owned(),
            tool_call_id: call.unwrap_or_else(|| id.clone()),
            tool: if mode.is_some() { "plan" } else { "question" }.to_owned(),
            input: String::new(),
            sub_agent: None,
            decision: if no { "deny" } else { "allow" }.to_owned(),
            reason: mode.map(|(name, _)| format!("plan accepted in the permission mode {name}")),
        };
        let mut change = SessionChange::default()
            .client_chat_action(StateAction::ChatInputCompleted(completed), dispatch.map(Dispatch::origin))
            .session_action(input_needed_removed(input_request_id(&id)))
            .audit([entry]);
        if let Some((name, _)) = mode {
            let changed = SessionConfigChangedAction { config: config::values_for_mode(name, config), replace: None };
            change = change.session_action(StateAction::SessionConfigChanged(changed));
        }
        ctx.commit(change).await?;
        let mut effects = Vec::new();
        if let Some((_, mode)) = mode {
            // The gate applies the mode before the agent continues.
            ctx.gate.set_mode(mode);
            effects.push(SessionEffect::Agent(AgentEvent::SetMode(config::agent_mode_name(mode))));
        }
        effects.extend(
            self.remove_input(&id).map(|open| SessionEffect::Agent(AgentEvent::Answer(open.request_id, answer))),
        );
        ctx.update_summaries().await;
        effects.extend(mode.map(|_| SessionEffect::ReevaluateCalls));
        Ok(effects)
    }

    /// Answers a request according to the unattended policy. `config` is the configuration after all pending changes.
    pub(super) async fn answer_unattended(
        &mut self,
        request: &AgentRequestId,
        config: &JsonObject,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let answer = match &ctx.host.permissions.config().unattended {
            UnattendedPolicy::Wait => return Vec::new(),
            UnattendedPolicy::DenyAfter(_) => Answer::Deny { message: UNANSWERED_DENIAL.to_owned() },
            UnattendedPolicy::Answer(UnattendedAnswer::Allow) => Answer::Allow { input: None },
            UnattendedPolicy::Answer(UnattendedAnswer::Deny(message)) => Answer::Deny { message: message.clone() },
        };
        let approved = matches!(answer, Answer::Allow { .. });
        let (response, outcome) = match self.unattended_outcome(request, approved) {
            None => return Vec::new(),
            Some(UnattendedOutcome::Call(call)) => {
                if approved && let Err(error) = self.check_approval(&call, None, ctx) {
                    tracing::warn!(session = &*ctx.session.uri, %error, "the policy cannot approve a tool call");
                    return Vec::new();
                }
                let reason = Some("policy for unanswered requests".to_owned());
                let decider = DecisionSource { decided_by: UNATTENDED_AUDIT_NAME.to_owned(), reason, origin: None };
                return self.decide_call(call, answer, decider, sub_agents, ctx).await;
            }
            Some(UnattendedOutcome::Input(Some(outcome @ FormOutcome::DecideFolder(_)))) => {
                (ChatInputResponseKind::Cancel, outcome)
            }
            Some(UnattendedOutcome::Input(Some(outcome))) => (ChatInputResponseKind::Accept, outcome),
            Some(UnattendedOutcome::Input(None)) if approved => {
                (ChatInputResponseKind::Cancel, FormOutcome::AnswerAgent(Answer::Skip))
            }
            Some(UnattendedOutcome::Input(None)) => (ChatInputResponseKind::Decline, FormOutcome::AnswerAgent(answer)),
        };
        let completed = ChatInputCompletedAction { request_id: request.to_string(), response, answers: None };
        self.apply_outcome(completed, outcome, None, config, ctx).await.unwrap_or_else(|error| {
            tracing::warn!(session = &*ctx.session.uri, %error, "failed to answer pending questions automatically");
            Vec::new()
        })
    }
}

/// The display of a call whose input a person replaced.
fn describe_tool_call(tool: &str, input: &RawValue, ctx: &SessionContext) -> ToolDisplay {
    let driver = ctx.host.agents.driver(&ctx.session.session.provider);
    driver.map(|driver| driver.tool_display(tool, input, ctx.gate.working_directory())).unwrap_or_default()
}

fn describe_added_rules(rules: Option<&(RuleLifetime, Vec<Rule>)>) -> Option<String> {
    let (reach, rules) = rules?;
    let reach = if *reach == RuleLifetime::Permanent { "always" } else { "in this session" };
    let rules = rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Some(format!("allowed {reach}: {rules}"))
}
