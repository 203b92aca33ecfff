//! The agent pool with fake agents and a manual clock: idle windows, limits, prewarmed agents.

mod idle_timeout;
mod limits;
mod prewarm;
mod soak;
mod unattended_requests;

use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{AgentRequestId, DriverEvent, PermissionRequest, ResumeToken, ToolDisplay};
use hostler_engine::{AgentPoolConfig, AgentPoolLimits};
use hostler_testkit::clock::ManualClock;
use hostler_testkit::fake_driver::FakeAgent;

use crate::common::{Listener, Options, Rig, dispatch, message, started};
use ahp_types::StateAction;

const IDLE: Duration = Duration::from_secs(300);
const IDLE_MAX: Duration = Duration::from_secs(7200);

fn uri(number: usize) -> String {
    format!("claude:/0b9e3c5e-8f2b-4a36-9f61-{number:012}")
}

/// Starts a host with these limits and a manual clock.
async fn start_pool(limits: AgentPoolLimits, prewarm: bool) -> (Rig, ManualClock) {
    let clock = ManualClock::new();
    let agent_pool = AgentPoolConfig {
        idle_timeout: IDLE,
        max_idle_timeout: IDLE_MAX,
        stall_timeout: Duration::ZERO,
        limits,
        prewarm,
    };
    let options = Options { clock: Arc::new(clock.clone()), agent_pool, ..Options::default() };
    (Rig::start_with(options).await, clock)
}

fn max_agents(count: usize) -> AgentPoolLimits {
    AgentPoolLimits { max_agents: count, max_prewarmed: 2 }
}

/// Creates a session and starts its first turn, `t1`.
async fn begin(rig: &mut Rig, number: usize) -> (Listener, FakeAgent) {
    let uri = uri(number);
    rig.create(&uri);
    let listener = rig.listen(&uri).await;
    rig.send_message(&uri, "t1", "hi").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    (listener, agent)
}

/// The agent requests permission for a tool call.
async fn ask_permission(agent: &FakeAgent) {
    let input: Arc<serde_json::value::RawValue> =
        serde_json::value::to_raw_value(&serde_json::json!({"command": "make"})).unwrap().into();
    let display = ToolDisplay::default();
    let call = "call-1".to_owned();
    agent.emit(DriverEvent::ToolStarted { id: call.clone(), name: "Bash".into(), display: display.clone() }).await;
    agent.emit(DriverEvent::ToolReady { id: call.clone(), input: Arc::clone(&input), display: display.clone() }).await;
    let request = PermissionRequest {
        request_id: AgentRequestId("r1".into()),
        call_id: call,
        tool: "Bash".into(),
        input,
        sub_agent: None,
        reason: None,
        display,
    };
    agent.emit(DriverEvent::PermissionRequested(request)).await;
}

/// Completes the turn.
async fn finish(number: usize, listener: &mut Listener, agent: &FakeAgent) {
    agent.emit(DriverEvent::ResumeToken(ResumeToken(format!("token-{number}")))).await;
    agent.emit_answer(1, "hel", "lo").await;
    listener.until("chat/turnComplete").await;
}

/// Creates a session with one completed turn and an idle agent.
async fn idle_session(rig: &mut Rig, number: usize) -> (Listener, FakeAgent) {
    let (mut listener, agent) = begin(rig, number).await;
    finish(number, &mut listener, &agent).await;
    // The actor reports the idle agent after it has published the end of the turn.
    while rig.engine.agent_pool_status().idle == 0 {
        tokio::task::yield_now().await;
    }
    (listener, agent)
}

async fn send_message_with_model(rig: &Rig, number: usize, turn: &str, text: &str, model: &str) {
    let mut action = started(turn, text);
    action.message = message(text, Some(model));
    rig.engine.dispatch(dispatch(&uri(number), StateAction::ChatTurnStarted(action))).await;
}
