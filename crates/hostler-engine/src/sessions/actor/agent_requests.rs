//! Displays the agent's pending requests and withdraws them.
//!
//! A pending call that changes a file carries a diff preview if the gate allows the agent to read that file. The end of
//! a turn withdraws its pending requests, except those of background sub-agents. Other requests outside a turn are
//! denied, so that no agent waits without a reader. A resumed turn asks again with a new request.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::{
    ChatInputCompletedAction, ChatInputRequestedAction, SessionInputNeededRemovedAction, SessionInputNeededSetAction,
};
use ahp_types::state::{
    ChatInputResponseKind, SessionChatInputRequest, SessionInputRequest, SessionToolConfirmationRequest,
    ToolCallConfirmationState,
};
use hostler_driver::{AgentRequestId, Answer, DriverEvent, FileEdit, GateDecision, PermissionRequest, PlanRequest};
use hostler_rules::{DiskResolver, PathResolver as _};
use hostler_store::AuditEntry;

use super::session_change::SessionChange;
use super::{SessionActor, SessionInput};
use crate::clock::ClockExt as _;
use crate::permissions::diff_preview::ProposedEdit;
use crate::permissions::pending_requests::{
    InputForm, PendingInput, PendingPermission, ToolCallOptions, WithdrawnRequest,
};
use crate::permissions::session_gate::summarize_input;
use crate::sessions::action_mapper::ActionBuffer;
use crate::sessions::background_on_stop;

const TURN_OVER_DENIAL: &str = "The turn has ended, so this was not asked.";
const CALL_OVER_DENIAL: &str = "The call has already ended.";
const NOT_DISPLAYED_DENIAL: &str = "Denied: the host could not display the request.";

/// How much of a plan file is displayed.
const MAX_PLAN_BYTES: u64 = 256 * 1024;

/// Maximum time that a request waits for its diff preview or its plan; then it is displayed without it.
const PREPARATION_TIMEOUT: Duration = Duration::from_secs(2);

/// A request of the agent, with what was read for its display.
pub(crate) enum PreparedRequest {
    /// A tool call, and the change that it would make to a file.
    Permission(Box<PermissionRequest>, Option<FileEdit>),
    /// A plan, and its text.
    Plan(PlanRequest, Option<String>),
}

impl SessionActor {
    /// Handles a request of the agent during a turn.
    pub(super) async fn handle_agent_request(&mut self, event: DriverEvent) {
        match event {
            DriverEvent::PermissionRequested(request) => self.handle_permission_request(request).await,
            DriverEvent::QuestionsAsked(asked) => {
                let form = InputForm::new(asked.title, asked.questions);
                self.handle_questions(PendingInput { request_id: asked.request_id, call_id: asked.call_id, form })
                    .await;
            }
            DriverEvent::PlanProposed(proposed) => {
                let plan = proposed.plan.clone().or_else(|| self.plan_in_call(&proposed.call_id));
                match (plan, self.ctx.gate.last_plan()) {
                    (None, Some(file)) => self.prepare_plan(proposed, file),
                    (plan, _) => self.display_plan(proposed, plan).await,
                }
            }
            _ => {}
        }
    }

    /// Denies a request outside a turn: the agent must not wait forever.
    pub(super) fn deny_late_request(&mut self, event: DriverEvent) {
        let request = match event {
            DriverEvent::PermissionRequested(request) => request.request_id,
            DriverEvent::QuestionsAsked(asked) => asked.request_id,
            DriverEvent::PlanProposed(proposed) => proposed.request_id,
            _ => return,
        };
        self.deny_request(request, TURN_OVER_DENIAL);
    }

    fn deny_request(&mut self, request: AgentRequestId, message: &str) {
        self.answer_agent(request, Answer::Deny { message: message.to_owned() });
    }

    /// Some builds pass the text of a plan only in the call.
    fn plan_in_call(&self, call: &str) -> Option<String> {
        let input: serde_json::Value = serde_json::from_str(self.ctx.turn.mapper.as_ref()?.call_input(call)?).ok()?;
        input.get("plan")?.as_str().filter(|plan| !plan.trim().is_empty()).map(str::to_owned)
    }

    /// Other builds let the model write the plan into a file. The session continues while the file is read.
    fn prepare_plan(&mut self, proposed: PlanRequest, file: PathBuf) {
        if !self.start_preparing(&proposed.request_id, &proposed.call_id, None) {
            return;
        }
        let read = tokio::task::spawn_blocking(move || {
            let mut plan = Vec::new();
            fs_err::File::open(file)?.take(MAX_PLAN_BYTES).read_to_end(&mut plan)?;
            Ok::<_, std::io::Error>(plan)
        });
        self.ctx.tasks.spawn(async move {
            let plan = tokio::time::timeout(PREPARATION_TIMEOUT, read).await.ok().and_then(Result::ok);
            let plan =
                plan.and_then(|plan| plan.inspect_err(|error| tracing::warn!(%error, "failed to read a plan")).ok());
            let plan = plan.map(|plan| String::from_utf8_lossy(&plan).into_owned());
            let plan = plan.filter(|plan| !plan.trim().is_empty());
            SessionInput::RequestPrepared(Box::new(PreparedRequest::Plan(proposed, plan)))
        });
    }

    async fn display_plan(&mut self, proposed: PlanRequest, plan: Option<String>) {
        let PlanRequest { request_id, call_id, .. } = proposed;
        self.handle_questions(PendingInput { request_id, call_id: Some(call_id), form: InputForm::for_plan(plan) })
            .await;
    }

    /// Displays a request whose preparation has finished, unless it was withdrawn meanwhile.
    pub(super) async fn handle_request_prepared(&mut self, prepared: PreparedRequest) {
        let request = match &prepared {
            PreparedRequest::Permission(request, _) => &request.request_id,
            PreparedRequest::Plan(proposed, _) => &proposed.request_id,
        };
        if !self.pending_requests.finish_preparing(request) {
            return;
        }
        match prepared {
            PreparedRequest::Permission(request, edit) => self.display_permission_request(*request, edit).await,
            PreparedRequest::Plan(proposed, plan) => self.display_plan(proposed, plan).await,
        }
    }

    /// Registers a request that is displayed later. Otherwise it is denied, and the result is `false`.
    fn start_preparing(&mut self, request: &AgentRequestId, call: &str, sub_agent: Option<String>) -> bool {
        let is_new = self.pending_requests.start_preparing(request.clone(), call.to_owned(), sub_agent);
        if !is_new {
            tracing::warn!("denied a request of the agent: duplicate, or too many pending requests");
            self.deny_request(request.clone(), NOT_DISPLAYED_DENIAL);
        }
        is_new
    }

    async fn handle_permission_request(&mut self, request: PermissionRequest) {
        match ProposedEdit::from_tool_call(&request.tool, request.input.get(), self.ctx.gate.working_directory()) {
            Some(proposal) => self.prepare_diff_preview(request, proposal),
            None => self.display_permission_request(request, None).await,
        }
    }

    /// Reads the change that the call would make to a file, if the agent may read that file without asking. The session
    /// continues meanwhile; the request is displayed with the preview, or without it after a time limit.
    fn prepare_diff_preview(&mut self, request: PermissionRequest, proposal: ProposedEdit) {
        let sub_agent = request.sub_agent.clone().filter(|agent| self.sub_agents.chat_uri(agent).is_some());
        if !self.start_preparing(&request.request_id, &request.call_id, sub_agent) {
            return;
        }
        let gate = Arc::clone(&self.ctx.gate);
        let preview = tokio::task::spawn_blocking(move || {
            let place = DiskResolver.resolve(&proposal.path).ok()?;
            let reading = serde_json::json!({ "file_path": place }).to_string();
            let readable = gate.evaluate(None, "Read", &reading).decision == GateDecision::Allow;
            readable.then(|| proposal.diff_preview(&place)).flatten()
        });
        self.ctx.tasks.spawn(async move {
            let edit = tokio::time::timeout(PREPARATION_TIMEOUT, preview).await.ok().and_then(Result::ok).flatten();
            SessionInput::RequestPrepared(Box::new(PreparedRequest::Permission(Box::new(request), edit)))
        });
    }

    async fn display_permission_request(&mut self, request: PermissionRequest, edit: Option<FileEdit>) {
        let (id, call) = (request.request_id.clone(), request.call_id.clone());
        let input = request.input.get();
        let ruling = self.ctx.gate.evaluate(Some(&call), &request.tool, input);
        // An ask rule overrides every allow rule, so no allow rule is offered against it.
        let offers = ruling.decided_by != "rule";
        let suggestions = if offers { self.ctx.gate.suggest_rules(&call, &request.tool, input) } else { Vec::new() };
        let choices = ToolCallOptions::new(&suggestions);
        // A sub-agent without a chat asks in its parent's chat.
        let worker = request.sub_agent.clone().filter(|agent| self.sub_agents.chat_uri(agent).is_some());
        let home = self.target_of(worker.as_deref());
        let Some(options) = self.pending_requests.add_permission(request.clone(), worker.clone(), choices) else {
            tracing::warn!("denied a permission request: duplicate, or too many pending requests");
            return self.deny_request(id, NOT_DISPLAYED_DENIAL);
        };
        let mut output = ActionBuffer::default();
        let turn = self.action_mapper_of(worker.as_deref());
        let shown = turn.is_some_and(|turn| turn.request_confirmation(&request, options, edit, &mut output));
        let shown = self.ctx.publish_output_on(&home, &mut output).await && shown;
        let chat = self.ctx.channel_uri(&home);
        let Some(pending) = self.ctx.session.pending_call(&chat, &call).filter(|_| shown) else {
            self.pending_requests.remove_permission(&call);
            return self.deny_request(id, NOT_DISPLAYED_DENIAL);
        };
        let needed = SessionInputRequest::ToolConfirmation(SessionToolConfirmationRequest {
            id: permission_request_id(&call),
            turn_id: self.active_turn_id(&chat),
            chat: chat.to_string(),
            tool_call: ToolCallConfirmationState::PendingConfirmation(pending.clone()),
        });
        self.publish_input_needed(needed).await;
        self.start_answer_timeout(id);
        // Rules or permission mode changed after the agent asked.
        if ruling.decision != GateDecision::Ask {
            self.reevaluate_pending_calls().await;
        }
    }

    /// Whether the request is from a sub-agent with a chat of its own, during a turn or not.
    pub(super) fn is_sub_agent_request(&self, asked: &DriverEvent) -> bool {
        let DriverEvent::PermissionRequested(request) = asked else { return false };
        request.sub_agent.as_ref().is_some_and(|agent| self.sub_agents.chat_uri(agent).is_some())
    }

    fn active_turn_id(&self, chat: &str) -> String {
        let turn = self.ctx.session.chat_by_uri(chat).and_then(|chat| chat.active_turn.as_ref());
        turn.map(|turn| turn.id.clone()).unwrap_or_default()
    }

    async fn handle_questions(&mut self, asked: PendingInput) {
        let request = asked.request_id.clone();
        if !self.display_form(asked).await {
            self.deny_request(request, NOT_DISPLAYED_DENIAL);
        }
    }

    /// Displays questions, which are pending from then on. `false` if they could not be displayed.
    pub(super) async fn display_form(&mut self, asked: PendingInput) -> bool {
        let (request, call) = (asked.request_id.clone(), asked.call_id.clone());
        let id = request.to_string();
        let shown = asked.form.to_request(id.clone());
        if !self.pending_requests.add_input(id.clone(), asked) {
            tracing::warn!("dropped questions of the agent: duplicate, or too many pending requests");
            return false;
        }
        let mut output = ActionBuffer::default();
        if let (Some(turn), Some(call)) = (self.ctx.turn.mapper.as_mut(), &call) {
            turn.run_without_permission(call, &mut output);
        }
        output.push(StateAction::ChatInputRequested(ChatInputRequestedAction { request: shown.clone() }));
        if !self.ctx.publish_output(&mut output).await || self.ctx.session.open_input_request(&id).is_none() {
            self.pending_requests.remove_input(&id);
            return false;
        }
        let chat = self.ctx.session.chat_uri.to_string();
        let needed = SessionChatInputRequest { id: input_request_id(&id), chat, request: shown };
        self.publish_input_needed(SessionInputRequest::ChatInput(needed)).await;
        self.start_answer_timeout(request);
        true
    }

    pub(super) async fn publish_input_needed(&mut self, request: SessionInputRequest) {
        let needed = Box::new(SessionInputNeededSetAction { request });
        self.ctx.publish_session_action(StateAction::SessionInputNeededSet(needed)).await;
        self.ctx.update_summaries().await;
    }

    /// Handles that the agent has withdrawn a request.
    pub(super) async fn handle_request_withdrawn(&mut self, request: &AgentRequestId) {
        let Some((id, open)) = self.pending_requests.withdraw(request) else { return };
        let mut output = ActionBuffer::default();
        match open {
            WithdrawnRequest::Permission(open) => {
                let home = self.target_of(open.chat_sub_agent.as_deref());
                if let Some(turn) = self.action_mapper_of(open.chat_sub_agent.as_deref()) {
                    turn.withdraw_request(&id, &mut output);
                }
                self.ctx.publish_output_on(&home, &mut output).await;
                self.ctx.write_audit(vec![withdrawal_audit_entry(&open, self.ctx.host.clock.now_ms())]).await;
                self.ctx.publish_session_action(input_needed_removed(permission_request_id(&id))).await;
            }
            WithdrawnRequest::Input => {
                let response = ChatInputResponseKind::Cancel;
                let action = ChatInputCompletedAction { request_id: id.clone(), response, answers: None };
                self.ctx.publish_output(&mut StateAction::ChatInputCompleted(action).into()).await;
                self.ctx.publish_session_action(input_needed_removed(input_request_id(&id))).await;
            }
        }
        self.ctx.update_summaries().await;
    }

    /// The pending call that an event reports as finished.
    pub(super) fn finished_pending_call(&self, event: &DriverEvent) -> Option<String> {
        match event {
            DriverEvent::ToolFinished { id, .. } => {
                let is_open = self.pending_requests.permission(id).is_some() || self.pending_requests.is_preparing(id);
                is_open.then(|| id.clone())
            }
            _ => None,
        }
    }

    /// Closes the pending request of a finished call with a denial.
    pub(super) async fn close_finished_call(&mut self, call: &str) {
        for request in self.pending_requests.stop_preparing_call(call) {
            self.deny_request(request, CALL_OVER_DENIAL);
        }
        let Some(open) = self.pending_requests.remove_permission(call) else { return };
        self.ctx.write_audit(vec![withdrawal_audit_entry(&open, self.ctx.host.clock.now_ms())]).await;
        self.deny_request(open.request_id, CALL_OVER_DENIAL);
        self.ctx.publish_session_action(input_needed_removed(permission_request_id(call))).await;
        self.ctx.update_summaries().await;
    }

    /// Adds the removal of the turn's pending requests from the session's `inputNeeded`.
    pub(super) fn remove_turn_input_needed(&self, change: SessionChange) -> SessionChange {
        let stays =
            |chat: &str| self.sub_agents.agent_in_chat(chat).is_some_and(|agent| self.sub_agents.is_background(agent));
        self.remove_input_needed_where(change, |chat| !stays(chat))
    }

    /// Does the same for one chat.
    pub(super) fn remove_chat_input_needed(&self, chat: &str, change: SessionChange) -> SessionChange {
        self.remove_input_needed_where(change, |of| of == chat)
    }

    fn remove_input_needed_where(&self, change: SessionChange, over: impl Fn(&str) -> bool) -> SessionChange {
        let open = self.ctx.session.session.input_needed.iter().flatten().filter_map(|request| match request {
            SessionInputRequest::ChatInput(request) => Some((&request.id, &request.chat)),
            SessionInputRequest::ToolConfirmation(request) => Some((&request.id, &request.chat)),
            _ => None,
        });
        // The session's own question belongs to no turn.
        let open = open.filter(|(id, chat)| *id != background_on_stop::STOP_QUESTION_REQUEST_ID && over(chat));
        open.fold(change, |change, (id, _)| change.session_action(input_needed_removed(id.clone())))
    }

    /// Withdraws the requests of an ended turn and of the sub-agents that it waited for.
    pub(super) async fn withdraw_turn_requests(&mut self) {
        let now = self.ctx.host.clock.now_ms();
        let Self { pending_requests, sub_agents, .. } = self;
        let closed = pending_requests.clear_turn(|agent| sub_agents.is_background(agent));
        let entries = closed.iter().map(|open| withdrawal_audit_entry(open, now)).collect();
        self.ctx.write_audit(entries).await;
    }

    /// Withdraws the requests of an ended sub-agent; each is answered with a denial.
    pub(super) async fn withdraw_sub_agent_requests(&mut self, agent: &str) {
        let now = self.ctx.host.clock.now_ms();
        let closed = self.pending_requests.clear_sub_agent(agent);
        self.ctx.write_audit(closed.iter().map(|open| withdrawal_audit_entry(open, now)).collect()).await;
        let preparing = self.pending_requests.stop_preparing_sub_agent(agent);
        for request in closed.into_iter().map(|open| open.request_id).chain(preparing) {
            self.deny_request(request, CALL_OVER_DENIAL);
        }
    }
}

/// The id of a call in the session's `inputNeeded`.
pub(super) fn permission_request_id(call: &str) -> String {
    format!("call:{call}")
}

/// The id of questions in the session's `inputNeeded`.
pub(super) fn input_request_id(id: &str) -> String {
    format!("input:{id}")
}

pub(super) fn input_needed_removed(id: String) -> StateAction {
    StateAction::SessionInputNeededRemoved(SessionInputNeededRemovedAction { id })
}

fn withdrawal_audit_entry(open: &PendingPermission, at_ms: i64) -> AuditEntry {
    AuditEntry {
        at_ms,
        decided_by: "host".to_owned(),
        tool_call_id: open.call_id.clone(),
        tool: open.tool.clone(),
        input: summarize_input(open.input.get()),
        sub_agent: open.sub_agent.clone(),
        decision: "withdrawn".to_owned(),
        reason: None,
    }
}
