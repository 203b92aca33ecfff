//! A session with a running turn, and the common steps of these tests.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::{ChatInputCompletedAction, ChatToolCallConfirmedAction, SessionConfigChangedAction};
use ahp_types::common::JsonObject;
use ahp_types::state::{ChatInputAnswer, ChatInputResponseKind};
use hostler_driver::{
    AgentRequestId, DriverEvent, GateDecision, GatedCall, PermissionGate, PermissionRequest, ToolDisplay, ToolKind,
    ToolOutcome, TurnOutcome,
};
use hostler_engine::{AuditRow, Dispatch, PermissionConfig};
use hostler_testkit::fake_driver::FakeAgent;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::common::{Listener, Rig, SESSION, dispatch};

/// A session whose agent works on a turn.
pub(crate) struct Bench {
    pub(crate) rig: Rig,
    pub(crate) listener: Listener,
    pub(crate) agent: FakeAgent,
    pub(crate) gate: Arc<dyn PermissionGate>,
}

pub(crate) const TURN: &str = "t1";

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::with(PermissionConfig::default()).await
    }

    pub(crate) async fn with(permissions: PermissionConfig) -> Self {
        Self::on(Rig::with(permissions).await).await
    }

    pub(crate) async fn on(rig: Rig) -> Self {
        rig.create(SESSION);
        Self::again(rig, TURN).await
    }

    /// Starts a turn in an existing session.
    pub(crate) async fn again(mut rig: Rig, turn: &str) -> Self {
        let listener = rig.listen(SESSION).await;
        rig.send_message(SESSION, turn, "go").await;
        let start = rig.starts.next_start().await;
        let gate = Arc::clone(&start.spec.permission_gate);
        let mut agent = start.succeed();
        agent.next_prompt().await;
        Self { rig, listener, agent, gate }
    }

    /// The gate's decision about a call.
    pub(crate) async fn gated(&self, id: &str, tool: &str, input: &Value) -> GateDecision {
        gated(&self.gate, id, tool, input).await
    }

    /// The model writes a call.
    pub(crate) async fn call(&self, id: &str, tool: &str, input: &Value) {
        let display = display(tool);
        let started = DriverEvent::ToolStarted { id: id.into(), name: tool.into(), display: display.clone() };
        self.agent.emit(started).await;
        self.agent.emit(DriverEvent::ToolReady { id: id.into(), input: raw(input), display }).await;
    }

    /// The agent requests permission for a call.
    pub(crate) async fn ask(&self, request: &str, id: &str, tool: &str, input: &Value) {
        self.agent.emit(DriverEvent::PermissionRequested(permission(request, id, tool, input))).await;
    }

    /// The model writes a call, and the agent requests permission; returns when the request is published.
    pub(crate) async fn wait_for(&mut self, id: &str, tool: &str, input: &Value) {
        self.call(id, tool, input).await;
        self.ask(&format!("r-{id}"), id, tool, input).await;
        self.listener.until("session/inputNeededSet").await;
    }

    /// A client answers a call.
    pub(crate) async fn confirm(&self, client: &str, action: ChatToolCallConfirmedAction) {
        self.dispatch(client, StateAction::ChatToolCallConfirmed(action)).await;
    }

    pub(crate) async fn dispatch(&self, client: &str, action: StateAction) {
        self.rig.engine.dispatch(Dispatch { client_id: client.into(), ..dispatch(SESSION, action) }).await;
    }

    /// A client answers questions.
    pub(crate) async fn complete(&self, id: &str, response: ChatInputResponseKind, answers: &[(&str, Value)]) {
        let answers = answers.iter().map(|(id, answer)| {
            let answer: ChatInputAnswer = serde_json::from_value(answer.clone()).unwrap();
            ((*id).to_owned(), answer)
        });
        let action = ChatInputCompletedAction { request_id: id.into(), response, answers: Some(answers.collect()) };
        self.dispatch("me", StateAction::ChatInputCompleted(action)).await;
    }

    /// A client changes the permission mode.
    pub(crate) async fn change_mode(&self, mode: &str) {
        let config = JsonObject::from_iter([("permissionMode".to_owned(), mode.into())]);
        let action = StateAction::SessionConfigChanged(SessionConfigChangedAction { config, replace: None });
        let change = Dispatch { channel: SESSION.into(), ..dispatch(SESSION, action) };
        self.rig.engine.dispatch(change).await;
    }

    /// Waits until the session has processed everything so far.
    pub(crate) async fn settled(&mut self) {
        self.confirm("me", yes("there is no such call")).await;
        self.listener.until("chat/toolCallConfirmed rejected: the request is no longer pending").await;
    }

    /// The agent ends the turn.
    pub(crate) async fn end(&mut self) {
        self.agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
        self.listener.until("chat/turnComplete").await;
    }

    /// The session's chat as the client knows it.
    pub(crate) fn chat(&self) -> Value {
        serde_json::to_value(self.listener.chat.as_ref().unwrap()).unwrap()
    }

    pub(crate) fn session(&self) -> Value {
        serde_json::to_value(self.listener.session.as_ref().unwrap()).unwrap()
    }

    /// A call as the client knows it, in any turn.
    pub(crate) fn shown(&self, id: &str) -> Value {
        let chat = self.chat();
        let turns = chat["turns"].as_array().unwrap().iter().chain(std::iter::once(&chat["activeTurn"]));
        let mut parts = turns.flat_map(|turn| turn["responseParts"].as_array().cloned().unwrap_or_default());
        let part = parts.find(|part| part["toolCall"]["toolCallId"] == id);
        part.unwrap_or_else(|| panic!("no call {id} in {chat:#}"))["toolCall"].clone()
    }

    pub(crate) async fn audit(&self) -> Vec<AuditRow> {
        self.rig.engine.audit(SESSION, 0, 1_000).await.unwrap()
    }
}

/// A gate's decision about a call.
pub(crate) async fn gated(gate: &Arc<dyn PermissionGate>, id: &str, tool: &str, input: &Value) -> GateDecision {
    let (call_id, tool, input) = (id.to_owned(), tool.to_owned(), raw(input));
    Arc::clone(gate).decide(GatedCall { call_id, tool, input, sub_agent: None, cwd: None }).await
}

pub(crate) fn raw(input: &Value) -> Arc<RawValue> {
    RawValue::from_string(input.to_string()).unwrap().into()
}

pub(crate) fn permission(request: &str, id: &str, tool: &str, input: &Value) -> PermissionRequest {
    PermissionRequest {
        request_id: AgentRequestId(request.into()),
        call_id: id.into(),
        tool: tool.into(),
        input: raw(input),
        sub_agent: None,
        reason: None,
        display: ToolDisplay::default(),
    }
}

pub(crate) fn display(tool: &str) -> ToolDisplay {
    let (kind, language) =
        if tool == "Bash" { (ToolKind::Terminal, Some("shellscript")) } else { (ToolKind::Other, None) };
    ToolDisplay {
        name: format!("The {tool}"),
        kind,
        running_text: format!("Using {tool} now"),
        finished_text: format!("Used {tool} then"),
        intention: Some("because".into()),
        language,
        mcp: None,
    }
}

pub(crate) fn bash(command: &str) -> Value {
    json!({ "command": command })
}

pub(crate) fn yes(id: &str) -> ChatToolCallConfirmedAction {
    confirmation(id, true)
}

pub(crate) fn no(id: &str) -> ChatToolCallConfirmedAction {
    confirmation(id, false)
}

pub(crate) fn chosen(id: &str, approved: bool, option: &str) -> ChatToolCallConfirmedAction {
    ChatToolCallConfirmedAction { selected_option_id: Some(option.into()), ..confirmation(id, approved) }
}

fn confirmation(id: &str, approved: bool) -> ChatToolCallConfirmedAction {
    ChatToolCallConfirmedAction {
        turn_id: TURN.into(),
        tool_call_id: id.into(),
        meta: None,
        approved,
        confirmed: None,
        reason: None,
        edited_tool_input: None,
        user_suggestion: None,
        reason_message: None,
        selected_option_id: None,
    }
}

pub(crate) fn finished(id: &str, outcome: ToolOutcome, output: &str) -> DriverEvent {
    DriverEvent::ToolFinished { id: id.into(), outcome, output: output.into(), edit: None }
}
