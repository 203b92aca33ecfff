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
use hostler_driver::{
    AgentRequestId, Answer, DriverEvent, FileEdit, GateDecision, PermissionRequest, PlanRequest, QuestionRequest,
};
use hostler_rules::{DiskResolver, PathResolver as _};
use hostler_store::AuditEntry;

use super::SessionInput;
use super::agent::AgentEvent;
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::sub_agents::SubAgents;
use crate::clock::ClockExt as _;
use crate::permissions::UnattendedPolicy;
use crate::permissions::diff_preview::ProposedEdit;
use crate::permissions::pending_requests::{
    InputForm, PendingInput, PendingPermission, PendingRequests, ToolCallOptions, WithdrawnRequest,
};
use crate::permissions::session_gate::summarize_input;
use crate::sessions::action_mapper::ActionBuffer;

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

impl PendingRequests {
    /// Displays a request of the agent. A request outside a turn is denied, because the agent must not wait forever; a
    /// sub-agent with a chat of its own has a turn of its own.
    pub(super) async fn display_request(
        &mut self,
        asked: DriverEvent,
        is_output_visible: bool,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        match asked {
            DriverEvent::PermissionRequested(request) => {
                let chat_sub_agent = sub_agents.with_chat(request.sub_agent.as_deref());
                if !is_output_visible && chat_sub_agent.is_none() {
                    return vec![deny(request.request_id, TURN_OVER_DENIAL)];
                }
                match ProposedEdit::from_tool_call(&request.tool, request.input.get(), ctx.gate.working_directory()) {
                    Some(proposal) => self.prepare_diff_preview(request, chat_sub_agent, proposal, ctx),
                    None => self.display_permission_request(request, None, sub_agents, ctx).await,
                }
            }
            DriverEvent::QuestionsAsked(QuestionRequest { request_id, .. })
            | DriverEvent::PlanProposed(PlanRequest { request_id, .. })
                if !is_output_visible =>
            {
                vec![deny(request_id, TURN_OVER_DENIAL)]
            }
            DriverEvent::QuestionsAsked(asked) => {
                let form = InputForm::new(asked.title, asked.questions);
                self.display_questions(asked.request_id, asked.call_id, form, ctx).await
            }
            DriverEvent::PlanProposed(proposed) => {
                let plan = proposed.plan.clone().or_else(|| plan_in_call(&proposed.call_id, ctx));
                match (plan, ctx.gate.last_plan()) {
                    (None, Some(file)) => self.prepare_plan(proposed, file, ctx),
                    (plan, _) => self.display_plan(proposed, plan, ctx).await,
                }
            }
            _ => Vec::new(),
        }
    }

    /// Some builds let the model write the plan into a file. The session continues while the file is read.
    fn prepare_plan(&mut self, proposed: PlanRequest, file: PathBuf, ctx: &mut SessionContext) -> Vec<SessionEffect> {
        if !self.start_preparing(proposed.request_id.clone(), proposed.call_id.clone(), None) {
            return refuse(proposed.request_id);
        }
        let read = tokio::task::spawn_blocking(move || {
            let mut plan = Vec::new();
            fs_err::File::open(file)?.take(MAX_PLAN_BYTES).read_to_end(&mut plan)?;
            Ok::<_, std::io::Error>(plan)
        });
        ctx.tasks.spawn(async move {
            let plan = tokio::time::timeout(PREPARATION_TIMEOUT, read).await.ok().and_then(Result::ok);
            let plan =
                plan.and_then(|plan| plan.inspect_err(|error| tracing::warn!(%error, "failed to read a plan")).ok());
            let plan = plan.map(|plan| String::from_utf8_lossy(&plan).into_owned());
            let plan = plan.filter(|plan| !plan.trim().is_empty());
            SessionInput::RequestPrepared(Box::new(PreparedRequest::Plan(proposed, plan)))
        });
        Vec::new()
    }

    async fn display_plan(
        &mut self,
        PlanRequest { request_id, call_id, .. }: PlanRequest,
        plan: Option<String>,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        self.display_questions(request_id, Some(call_id), InputForm::for_plan(plan), ctx).await
    }

    /// Displays a request whose preparation has finished, unless it was withdrawn meanwhile.
    pub(super) async fn display_prepared(
        &mut self,
        prepared: PreparedRequest,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        match prepared {
            PreparedRequest::Permission(request, edit) if self.finish_preparing(&request.request_id) => {
                self.display_permission_request(*request, edit, sub_agents, ctx).await
            }
            PreparedRequest::Plan(proposed, plan) if self.finish_preparing(&proposed.request_id) => {
                self.display_plan(proposed, plan, ctx).await
            }
            _ => Vec::new(),
        }
    }

    /// Reads the change that the call would make to a file, if the agent may read that file without asking. The session
    /// continues meanwhile; the request is displayed with the preview, or without it after a time limit.
    fn prepare_diff_preview(
        &mut self,
        request: PermissionRequest,
        chat_sub_agent: Option<String>,
        proposal: ProposedEdit,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        if !self.start_preparing(request.request_id.clone(), request.call_id.clone(), chat_sub_agent) {
            return refuse(request.request_id);
        }
        let gate = Arc::clone(&ctx.gate);
        let preview = tokio::task::spawn_blocking(move || {
            let place = DiskResolver.resolve(&proposal.path).ok()?;
            let reading = serde_json::json!({ "file_path": place }).to_string();
            let readable = gate.evaluate_anew(None, "Read", &reading).decision == GateDecision::Allow;
            readable.then(|| proposal.diff_preview(&place)).flatten()
        });
        ctx.tasks.spawn(async move {
            let edit = tokio::time::timeout(PREPARATION_TIMEOUT, preview).await.ok().and_then(Result::ok).flatten();
            SessionInput::RequestPrepared(Box::new(PreparedRequest::Permission(Box::new(request), edit)))
        });
        Vec::new()
    }

    async fn display_permission_request(
        &mut self,
        request: PermissionRequest,
        edit: Option<FileEdit>,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let (id, call) = (request.request_id.clone(), request.call_id.clone());
        let input = request.input.get();
        let ruling = ctx.gate.evaluate(&call, &request.tool, input);
        // An ask rule overrides every allow rule, so no allow rule is offered against it.
        let offers = ruling.decided_by != "rule";
        let suggestions = if offers { ctx.gate.suggest_rules(&call, &request.tool, input) } else { Vec::new() };
        // A sub-agent without a chat asks in its parent's chat.
        let worker = sub_agents.with_chat(request.sub_agent.as_deref());
        let home = sub_agents.target_of(worker.as_deref());
        let choices = ToolCallOptions::new(&suggestions);
        let Some(options) = self.add_permission(request.clone(), worker.clone(), choices) else {
            return refuse(id);
        };
        let mut output = ActionBuffer::default();
        let turn = sub_agents.action_mapper(worker.as_deref(), ctx);
        let shown = turn.is_some_and(|turn| turn.request_confirmation(&request, options, edit, &mut output));
        let shown = ctx.publish_output_on(&home, &mut output).await && shown;
        let chat = ctx.channel_uri(&home);
        let Some(pending) = ctx.session.pending_call(&chat, &call).filter(|_| shown) else {
            self.remove_permission(&call);
            return vec![deny(id, NOT_DISPLAYED_DENIAL)];
        };
        let turn = ctx.session.chat_by_uri(&chat).and_then(|chat| chat.active_turn.as_ref());
        let needed = SessionInputRequest::ToolConfirmation(SessionToolConfirmationRequest {
            id: permission_request_id(&call),
            turn_id: turn.map(|turn| turn.id.clone()).unwrap_or_default(),
            chat: chat.to_string(),
            tool_call: ToolCallConfirmationState::PendingConfirmation(pending.clone()),
        });
        publish_input_needed(needed, ctx).await;
        start_answer_timeout(id, ctx);
        // Rules or permission mode changed after the agent asked.
        if ruling.decision == GateDecision::Ask { Vec::new() } else { vec![SessionEffect::ReevaluateCalls] }
    }

    async fn display_questions(
        &mut self,
        request_id: AgentRequestId,
        call_id: Option<String>,
        form: InputForm,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        match self.display_form(PendingInput { request_id: request_id.clone(), call_id, form }, ctx).await {
            true => Vec::new(),
            false => vec![deny(request_id, NOT_DISPLAYED_DENIAL)],
        }
    }

    /// Displays questions, which are pending from then on. `false` if they could not be displayed.
    pub(super) async fn display_form(&mut self, asked: PendingInput, ctx: &mut SessionContext) -> bool {
        let (request, call) = (asked.request_id.clone(), asked.call_id.clone());
        let id = request.to_string();
        let shown = asked.form.to_request(id.clone());
        if !self.add_input(id.clone(), asked) {
            tracing::warn!("dropped questions of the agent: duplicate, or too many pending requests");
            return false;
        }
        let mut output = ActionBuffer::default();
        if let (Some(turn), Some(call)) = (ctx.turn.mapper.as_mut(), &call) {
            turn.run_without_permission(call, &mut output);
        }
        output.push(StateAction::ChatInputRequested(ChatInputRequestedAction { request: shown.clone() }));
        if !ctx.publish_output(&mut output).await || ctx.session.open_input_request(&id).is_none() {
            self.remove_input(&id);
            return false;
        }
        let chat = ctx.session.chat_uri.to_string();
        let needed = SessionChatInputRequest { id: input_request_id(&id), chat, request: shown };
        publish_input_needed(SessionInputRequest::ChatInput(needed), ctx).await;
        start_answer_timeout(request, ctx);
        true
    }

    // ── Withdrawal ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Withdraws a request that the agent, or the host, no longer waits for.
    pub(super) async fn withdraw_request(
        &mut self,
        request: &AgentRequestId,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) {
        match self.withdraw(request) {
            Some((id, WithdrawnRequest::Permission(open))) => {
                let mut output = ActionBuffer::default();
                let home = sub_agents.target_of(open.chat_sub_agent.as_deref());
                if let Some(turn) = sub_agents.action_mapper(open.chat_sub_agent.as_deref(), ctx) {
                    turn.withdraw_request(&id, &mut output);
                }
                ctx.publish_output_on(&home, &mut output).await;
                write_withdrawals(&[open], ctx).await;
                ctx.publish_session_action(input_needed_removed(permission_request_id(&id))).await;
                ctx.update_summaries().await;
            }
            Some((id, WithdrawnRequest::Input)) => publish_input_withdrawn(id, ctx).await,
            None => {}
        }
    }

    /// Withdraws the host's own question.
    pub(super) async fn withdraw_question(&mut self, request: &AgentRequestId, ctx: &mut SessionContext) {
        if let Some((id, WithdrawnRequest::Input)) = self.withdraw(request) {
            publish_input_withdrawn(id, ctx).await;
        }
    }

    /// The pending call that an event reports as finished.
    pub(super) fn finished_call(&self, event: &DriverEvent) -> Option<String> {
        let DriverEvent::ToolFinished { id, .. } = event else { return None };
        (self.permission(id).is_some() || self.is_preparing(id)).then(|| id.clone())
    }

    /// Closes the pending request of a finished call with a denial.
    pub(super) async fn close_finished_call(&mut self, call: &str, ctx: &mut SessionContext) -> Vec<SessionEffect> {
        let preparing = self.stop_preparing_call(call).into_iter();
        let mut denials: Vec<_> = preparing.map(|request| deny(request, CALL_OVER_DENIAL)).collect();
        if let Some(open) = self.remove_permission(call) {
            write_withdrawals(std::slice::from_ref(&open), ctx).await;
            denials.push(deny(open.request_id, CALL_OVER_DENIAL));
            ctx.publish_session_action(input_needed_removed(permission_request_id(call))).await;
            ctx.update_summaries().await;
        }
        denials
    }

    /// Withdraws the requests of an ended turn and of the sub-agents that it waited for.
    pub(super) async fn withdraw_turn(&mut self, sub_agents: &SubAgents, ctx: &mut SessionContext) {
        let closed = self.clear_turn(|agent| sub_agents.is_background(agent));
        write_withdrawals(&closed, ctx).await;
    }

    /// Withdraws the requests of an ended sub-agent; each is answered with a denial.
    pub(super) async fn withdraw_sub_agent(&mut self, agent: &str, ctx: &mut SessionContext) -> Vec<SessionEffect> {
        let closed = self.clear_sub_agent(agent);
        write_withdrawals(&closed, ctx).await;
        let preparing = self.stop_preparing_sub_agent(agent);
        let over = closed.into_iter().map(|open| open.request_id).chain(preparing);
        over.map(|request| deny(request, CALL_OVER_DENIAL)).collect()
    }
}

fn deny(request: AgentRequestId, message: &str) -> SessionEffect {
    SessionEffect::Agent(AgentEvent::Answer(request, Answer::Deny { message: message.to_owned() }))
}

/// Denies a request that cannot be pending.
fn refuse(request: AgentRequestId) -> Vec<SessionEffect> {
    tracing::warn!("denied a request of the agent: duplicate, or too many pending requests");
    vec![deny(request, NOT_DISPLAYED_DENIAL)]
}

/// Some builds pass the text of a plan only in the call.
fn plan_in_call(call: &str, ctx: &SessionContext) -> Option<String> {
    let input: serde_json::Value = serde_json::from_str(ctx.turn.mapper.as_ref()?.call_input(call)?).ok()?;
    input.get("plan")?.as_str().filter(|plan| !plan.trim().is_empty()).map(str::to_owned)
}

pub(super) async fn publish_input_needed(request: SessionInputRequest, ctx: &mut SessionContext) {
    let needed = Box::new(SessionInputNeededSetAction { request });
    ctx.publish_session_action(StateAction::SessionInputNeededSet(needed)).await;
    ctx.update_summaries().await;
}

async fn publish_input_withdrawn(id: String, ctx: &mut SessionContext) {
    let removed = input_needed_removed(input_request_id(&id));
    let action = ChatInputCompletedAction { request_id: id, response: ChatInputResponseKind::Cancel, answers: None };
    ctx.publish_output(&mut StateAction::ChatInputCompleted(action).into()).await;
    ctx.publish_session_action(removed).await;
    ctx.update_summaries().await;
}

/// Applies the unattended policy to a new request: wait, a timeout, or an immediate answer.
fn start_answer_timeout(request: AgentRequestId, ctx: &mut SessionContext) {
    let time = match &ctx.host.permissions.config().unattended {
        UnattendedPolicy::Wait => return,
        UnattendedPolicy::DenyAfter(time) => *time,
        UnattendedPolicy::Answer(_) => Duration::ZERO,
    };
    let timeout = ctx.host.clock.sleep(time);
    ctx.tasks.spawn(async move {
        timeout.await;
        SessionInput::RequestTimedOut(request)
    });
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

/// Writes withdrawn calls to the audit log.
async fn write_withdrawals(closed: &[PendingPermission], ctx: &mut SessionContext) {
    let at_ms = ctx.host.clock.now_ms();
    let entry = |open: &PendingPermission| AuditEntry {
        at_ms,
        decided_by: "host".to_owned(),
        tool_call_id: open.call_id.clone(),
        tool: open.tool.clone(),
        input: summarize_input(open.input.get()),
        sub_agent: open.sub_agent.clone(),
        decision: "withdrawn".to_owned(),
        reason: None,
    };
    ctx.write_audit(closed.iter().map(entry).collect()).await;
}
