//! Answers to pending requests: from a client, from changed rules, or by the unattended policy.
//!
//! The first answer wins. It is checked against the pending request; an approval is also checked against the gate. It
//! is stored and published before the agent receives it.

use ahp_types::actions::{
    ChatInputAnswerChangedAction, ChatInputCompletedAction, ChatToolCallConfirmedAction, SessionConfigChangedAction,
};
use ahp_types::state::{
    ChatInputResponseKind, SessionChatInputRequest, SessionInputRequest, ToolCallCancellationReason,
    ToolCallConfirmationReason,
};
use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::{AgentRequestId, Answer, GateDecision, ToolDisplay};
use hostler_store::AuditEntry;
use serde_json::value::RawValue;

use super::agent_requests::{input_needed_removed, input_request_id, permission_request_id};
use super::session_change::SessionChange;
use super::{SessionActor, SessionInput};
use crate::EngineError;
use crate::clock::ClockExt as _;
use crate::permissions::pending_requests::{AnswerError, FormOutcome, RuleLifetime, ToolCallAnswer};
use crate::permissions::session_gate::summarize_input;
use crate::permissions::{UnattendedAnswer, UnattendedPolicy};
use crate::sessions::action_mapper::ActionBuffer;
use crate::sessions::config;
use crate::sessions::record::SessionRecord;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;

const UNANSWERED_DENIAL: &str =
    "Denied: no answer in time. Continue without it, or end the turn and state what is needed.";

/// The decider of an answer, for the audit log.
struct DecisionSource {
    decided_by: String,
    reason: Option<String>,
    origin: Option<ActionOrigin>,
}

impl SessionActor {
    /// Handles a client's answer about a call.
    pub(super) async fn handle_tool_call_confirmed(
        &mut self,
        dispatch: &Dispatch,
        said: ChatToolCallConfirmedAction,
    ) -> Result<(), ActionRejection> {
        let worker = self.sub_agents.agent_in_chat(&dispatch.channel).map(str::to_owned);
        let elsewhere =
            self.pending_requests.permission(&said.tool_call_id).is_some_and(|open| open.chat_sub_agent != worker);
        let of_worker = dispatch.channel != *self.ctx.session.chat_uri;
        let turn = if of_worker && worker.is_none() { None } else { self.action_mapper_of(worker.as_deref()) };
        if elsewhere || turn.is_none_or(|turn| turn.turn() != said.turn_id) {
            return Err(AnswerError::NotPending.into());
        }
        let confirmation = self.pending_requests.evaluate_confirmation(&said)?;
        let decider =
            DecisionSource { decided_by: dispatch.client_id.clone(), reason: None, origin: Some(dispatch.origin()) };
        let made_rules = confirmation.rules.is_some();
        self.apply_tool_call_answer(confirmation, decider).await?;
        if made_rules {
            self.reevaluate_pending_calls().await;
        }
        Ok(())
    }

    /// Stores and publishes a decision about a call, then sends it to the agent.
    async fn apply_tool_call_answer(
        &mut self,
        confirmation: ToolCallAnswer,
        decider: DecisionSource,
    ) -> Result<(), ActionRejection> {
        let ToolCallAnswer { mut action, edited_input: edited, rules, agent_answer: answer } = confirmation;
        let (call, approved) = (action.tool_call_id.clone(), action.approved);
        let Some(open) = self.pending_requests.permission(&call) else {
            return Err(AnswerError::NotPending.into());
        };
        let input = edited.clone().unwrap_or_else(|| open.input.clone());
        let (worker, tool) = (open.chat_sub_agent.clone(), open.tool.clone());
        let home = self.target_of(worker.as_deref());
        if approved
            && let GateDecision::Deny(why) = self.ctx.gate.evaluate(Some(&call), &open.tool, input.get()).decision
        {
            return Err(ActionRejection::CallDenied { reason: why });
        }
        let entry = AuditEntry {
            at_ms: self.ctx.host.clock.now_ms(),
            decided_by: decider.decided_by,
            tool_call_id: call.clone(),
            tool: tool.clone(),
            input: summarize_input(input.get()),
            sub_agent: open.sub_agent.clone(),
            decision: if approved { "allow" } else { "deny" }.to_owned(),
            reason: decider.reason.or_else(|| describe_added_rules(rules.as_ref())),
        };
        let mut change = SessionChange::default();
        match &rules {
            Some((RuleLifetime::Permanent, rules)) => self.store_permanent_rules(rules.clone()).await?,
            Some((RuleLifetime::Session, rules)) => {
                change =
                    change.record(SessionRecord::Allowed { rules: rules.iter().map(ToString::to_string).collect() });
            }
            None => {}
        }
        let mut replaced = ActionBuffer::default();
        if let Some(edited) = &edited {
            let display = self.describe_tool_call(&tool, edited);
            if let Some(turn) = self.action_mapper_of(worker.as_deref())
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
        self.ctx.commit(change).await?;

        if let Some((RuleLifetime::Session, rules)) = &rules {
            let texts: Vec<_> = rules.iter().map(ToString::to_string).collect();
            self.ctx.session.add_session_rules(&texts);
            if let Err(error) = self.ctx.gate.add_session_rules(rules) {
                tracing::warn!(%error, "ignored an invalid rule of a session");
            }
        }
        if let Some(open) = self.pending_requests.remove_permission(&call) {
            self.answer_agent(open.request_id, answer);
        }
        let mut output = ActionBuffer::default();
        if let Some(turn) = self.action_mapper_of(worker.as_deref()) {
            turn.record_answer(&call, approved, &mut output);
            if edited.is_some() {
                turn.show_edited_call(&call, &mut output);
            }
        }
        self.ctx.publish_output_on(&home, &mut output).await;
        self.ctx.update_summaries().await;
        Ok(())
    }

    /// The display of a call whose input a person replaced.
    fn describe_tool_call(&self, tool: &str, input: &RawValue) -> ToolDisplay {
        let driver = self.ctx.host.drivers.get(&self.ctx.session.session.provider);
        driver.map(|driver| driver.tool_display(tool, input, self.ctx.gate.working_directory())).unwrap_or_default()
    }

    /// Writes permanent rules to the host's rule store.
    async fn store_permanent_rules(&self, rules: Vec<hostler_rules::Rule>) -> Result<(), ActionRejection> {
        let (rule_store, directory) =
            (self.ctx.host.permissions.rules.clone(), self.ctx.gate.working_directory().to_owned());
        let written = tokio::task::spawn_blocking(move || rule_store.add(Some(&directory), &rules)).await;
        match written {
            Ok(Ok(_)) => {
                self.ctx.host.permissions.notify_rule_changes();
                Ok(())
            }
            Ok(Err(error)) => Err(ActionRejection::RuleNotStored(error)),
            Err(_) => Err(EngineError::Stopping.into()),
        }
    }

    /// Evaluates the pending calls again after a change of the rules or the mode. Calls that are decided now are no
    /// longer pending.
    pub(super) async fn reevaluate_pending_calls(&mut self) {
        let waiting: Vec<_> = self.pending_requests.permissions().map(|open| open.call_id.clone()).collect();
        for call in waiting {
            let Some(open) = self.pending_requests.permission(&call) else { continue };
            let ruling = self.ctx.gate.evaluate(Some(&call), &open.tool, open.input.get());
            let (approved, message) = match ruling.decision {
                GateDecision::Ask => continue,
                GateDecision::Allow => (true, None),
                GateDecision::Deny(why) => (false, Some(why)),
            };
            let decider =
                DecisionSource { decided_by: ruling.decided_by.to_owned(), reason: Some(ruling.reason), origin: None };
            self.decide_pending_call(call, approved, message, decider).await;
        }
    }

    /// Decides a pending call without a person.
    async fn decide_pending_call(
        &mut self,
        call: String,
        approved: bool,
        message: Option<String>,
        decider: DecisionSource,
    ) {
        let worker = self.pending_requests.permission(&call).and_then(|open| open.chat_sub_agent.clone());
        let Some(turn_id) = self.action_mapper_of(worker.as_deref()).map(|turn| turn.turn().to_owned()) else { return };
        let action = ChatToolCallConfirmedAction {
            turn_id,
            tool_call_id: call,
            meta: None,
            approved,
            confirmed: approved.then_some(ToolCallConfirmationReason::Setting),
            reason: (!approved).then_some(ToolCallCancellationReason::Denied),
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: message.clone().map(Into::into),
            selected_option_id: None,
        };
        let answer = match message {
            Some(message) if !approved => Answer::Deny { message },
            _ if approved => Answer::Allow { input: None },
            _ => Answer::Deny { message: crate::permissions::pending_requests::DEFAULT_DENIAL.to_owned() },
        };
        let confirmation = ToolCallAnswer { action, edited_input: None, rules: None, agent_answer: answer };
        if let Err(error) = self.apply_tool_call_answer(confirmation, decider).await {
            tracing::warn!(session = &*self.ctx.session.uri, %error, "failed to decide a pending tool call automatically");
        }
    }

    /// Publishes a client's draft of an answer to all clients.
    pub(super) async fn handle_input_answer_changed(
        &mut self,
        dispatch: &Dispatch,
        draft: ChatInputAnswerChangedAction,
    ) -> Result<(), ActionRejection> {
        self.pending_requests.check_draft(&draft.request_id, &draft.question_id, draft.answer.as_ref())?;
        let id = draft.request_id.clone();
        let action = StateAction::ChatInputAnswerChanged(draft);
        let change = SessionChange::default().client_chat_action(action, Some(dispatch.origin()));
        self.ctx.commit(change).await?;
        // Clients that are subscribed to the session only receive the drafts as well.
        if let Some(request) = self.ctx.session.open_input_request(&id).cloned() {
            let chat = self.ctx.session.chat_uri.to_string();
            let needed = SessionChatInputRequest { id: input_request_id(&id), chat, request };
            self.publish_input_needed(SessionInputRequest::ChatInput(needed)).await;
        }
        Ok(())
    }

    /// Handles a client's answers to questions.
    pub(super) async fn handle_input_completed(
        &mut self,
        dispatch: &Dispatch,
        said: ChatInputCompletedAction,
    ) -> Result<(), ActionRejection> {
        if let Some(answered) = self.handle_stop_question_answer(dispatch, &said).await {
            return answered;
        }
        let request = self.ctx.session.open_input_request(&said.request_id);
        let drafts = request.and_then(|request| request.answers.clone()).unwrap_or_default();
        let outcome = self.pending_requests.evaluate_completion(&said, |question| drafts.get(question).cloned())?;
        self.complete_input(said, outcome, &dispatch.client_id, Some(dispatch.origin())).await
    }

    async fn complete_input(
        &mut self,
        said: ChatInputCompletedAction,
        outcome: FormOutcome,
        who: &str,
        origin: Option<ActionOrigin>,
    ) -> Result<(), ActionRejection> {
        let id = said.request_id.clone();
        let call = self.pending_requests.input(&id).and_then(|open| open.call_id.clone());
        let (answer, mode) = match outcome {
            FormOutcome::DecideFolder(decision) => {
                return self.handle_folder_decision(said, decision, who, origin).await;
            }
            FormOutcome::AnswerAgent(answer) => (answer, None),
            FormOutcome::AcceptPlan(name) => {
                let mode = config::parse_mode(name, false);
                (Answer::AcceptPlan { mode: config::agent_mode_name(mode).to_owned() }, Some((name, mode)))
            }
        };
        let no = matches!(answer, Answer::Deny { .. } | Answer::Skip);
        let entry = AuditEntry {
            at_ms: self.ctx.host.clock.now_ms(),
            decided_by: who.to_owned(),
            tool_call_id: call.unwrap_or_else(|| id.clone()),
            tool: if mode.is_some() { "plan" } else { "question" }.to_owned(),
            input: String::new(),
            sub_agent: None,
            decision: if no { "deny" } else { "allow" }.to_owned(),
            reason: mode.map(|(name, _)| format!("plan accepted in the permission mode {name}")),
        };
        let mut change = SessionChange::default()
            .client_chat_action(StateAction::ChatInputCompleted(said), origin)
            .session_action(input_needed_removed(input_request_id(&id)))
            .audit([entry]);
        if let Some((name, _)) = mode {
            let config = config::values_for_mode(name, &self.pending_config_values());
            let changed = SessionConfigChangedAction { config, replace: None };
            change = change.session_action(StateAction::SessionConfigChanged(changed));
        }
        self.ctx.commit(change).await?;
        if let Some((_, mode)) = mode {
            // The gate applies the mode before the agent continues.
            self.ctx.gate.set_mode(mode);
            self.agent.set_permission_mode(config::agent_mode_name(mode));
        }
        if let Some(open) = self.pending_requests.remove_input(&id) {
            self.answer_agent(open.request_id, answer);
        }
        self.ctx.update_summaries().await;
        if mode.is_some() {
            self.reevaluate_pending_calls().await;
        }
        Ok(())
    }

    // ── Unattended requests ───────────────────────────────────────────────────────────────────────────────────────

    /// Applies the unattended policy to a new request: wait, a timeout, or an immediate answer.
    pub(super) fn start_answer_timeout(&mut self, request: AgentRequestId) {
        match &self.ctx.host.permissions.config.unattended {
            UnattendedPolicy::Wait => {}
            UnattendedPolicy::DenyAfter(time) => {
                let over = self.ctx.host.clock.sleep(*time);
                self.ctx.tasks.spawn(async move {
                    over.await;
                    SessionInput::RequestTimedOut(request)
                });
            }
            UnattendedPolicy::Answer(_) => {
                self.ctx.tasks.spawn(async move { SessionInput::RequestTimedOut(request) });
            }
        }
    }

    /// Answers a request according to the unattended policy.
    pub(super) async fn handle_unanswered(&mut self, request: &AgentRequestId) {
        let (approved, message) = match &self.ctx.host.permissions.config.unattended {
            UnattendedPolicy::Wait => return,
            UnattendedPolicy::DenyAfter(_) => (false, UNANSWERED_DENIAL.to_owned()),
            UnattendedPolicy::Answer(UnattendedAnswer::Allow) => (true, String::new()),
            UnattendedPolicy::Answer(UnattendedAnswer::Deny(message)) => (false, message.clone()),
        };
        let call = self
            .pending_requests
            .permissions()
            .find(|open| open.request_id == *request)
            .map(|open| open.call_id.clone());
        if let Some(call) = call {
            let why = Some("policy for unanswered requests".to_owned());
            let decider = DecisionSource { decided_by: "unattended".to_owned(), reason: why, origin: None };
            return self.decide_pending_call(call, approved, (!approved).then_some(message), decider).await;
        }
        let id = request.to_string();
        let Some(open) = self.pending_requests.input(&id) else { return };
        let (response, outcome) = match open.form.unattended_outcome(approved) {
            Some(outcome @ FormOutcome::DecideFolder(_)) => (ChatInputResponseKind::Cancel, outcome),
            Some(outcome) => (ChatInputResponseKind::Accept, outcome),
            None if approved => (ChatInputResponseKind::Cancel, FormOutcome::AnswerAgent(Answer::Skip)),
            None => (ChatInputResponseKind::Decline, FormOutcome::AnswerAgent(Answer::Deny { message })),
        };
        let said = ChatInputCompletedAction { request_id: id, response, answers: None };
        if let Err(error) = self.complete_input(said, outcome, "unattended", None).await {
            tracing::warn!(session = &*self.ctx.session.uri, %error, "failed to answer pending questions automatically");
        }
    }
}

fn describe_added_rules(rules: Option<&(RuleLifetime, Vec<hostler_rules::Rule>)>) -> Option<String> {
    let (reach, rules) = rules?;
    let reach = if *reach == RuleLifetime::Permanent { "always" } else { "in this session" };
    let rules = rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Some(format!("allowed {reach}: {rules}"))
}
