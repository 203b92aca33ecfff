//! Sub-agent chats: read-only, linked to the calls that started them.

mod background_output;
use crate::common;
mod permission_requests;
mod stop_turn;
mod store_failures;
mod termination;

use std::sync::Arc;

use crate::common::{Listener, Rig, SESSION, dispatch_json};
use ahp_types::state::{ChatState, SessionStatus};
use hostler_driver::{
    BackgroundTask, BackgroundTaskKind, DriverEvent, GateDecision, PartId, PartKind, Prompt, SubAgentEvent, SubAgentId,
    SubAgentOutcome, SubAgentStart, TokenUsage, ToolDisplay, ToolOutcome, TurnOutcome,
};
use hostler_engine::{EngineError, SnapshotTurns, Subscriber, default_chat_uri, sub_agent_chat_uri};
use hostler_testkit::clock::ManualClock;
use hostler_testkit::fake_driver::FakeAgent;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The sub-agent `a1`, started by the call `T`.
const AGENT: &str = "a1";
const CALL: &str = "T";

fn chat_of(call: &str) -> String {
    sub_agent_chat_uri(SESSION, call)
}

fn raw(value: &Value) -> Arc<RawValue> {
    RawValue::from_string(value.to_string()).unwrap().into()
}

fn sub_agent_event(agent: &str, event: SubAgentEvent) -> DriverEvent {
    DriverEvent::SubAgent { agent: SubAgentId(agent.into()), event }
}

fn event_of(agent: &str, event: DriverEvent) -> DriverEvent {
    sub_agent_event(agent, SubAgentEvent::Activity(Box::new(event)))
}

fn started(agent: &str, call: &str, parent: Option<&str>) -> DriverEvent {
    sub_agent_event(
        agent,
        SubAgentEvent::Started(SubAgentStart {
            call_id: call.into(),
            parent_id: parent.map(|parent| SubAgentId(parent.into())),
            kind: Some("helper".into()),
            description: "looks around".into(),
            prompt: Prompt::new("look around"),
        }),
    )
}

fn finished(agent: &str, outcome: SubAgentOutcome) -> DriverEvent {
    sub_agent_event(agent, SubAgentEvent::Finished(outcome))
}

fn in_background(agent: &str, call: &str) -> DriverEvent {
    DriverEvent::BackgroundTaskChanged(BackgroundTask {
        id: agent.into(),
        kind: BackgroundTaskKind::SubAgent,
        description: "looks around".into(),
        call_id: Some(call.into()),
    })
}

/// A running call.
fn call(id: &str, tool: &str) -> [DriverEvent; 3] {
    let display = ToolDisplay { name: tool.into(), ..ToolDisplay::default() };
    [
        DriverEvent::ToolStarted { id: id.into(), name: tool.into(), display: display.clone() },
        DriverEvent::ToolReady { id: id.into(), input: raw(&json!({})), display },
        DriverEvent::ToolDecided { id: id.into(), decision: GateDecision::Allow },
    ]
}

fn returned(id: &str) -> DriverEvent {
    let (id, output) = (id.into(), "handed back".into());
    DriverEvent::ToolFinished { id, outcome: ToolOutcome::Succeeded, output, edit: None }
}

fn text(part: u64, text: &str) -> [DriverEvent; 2] {
    let part = PartId(part);
    [DriverEvent::PartStarted { part, kind: PartKind::Text }, DriverEvent::PartDelta { part, text: text.into() }]
}

/// Starts a session whose agent runs a sub-agent, and a client that is subscribed to its chat as well.
async fn start_with_sub_agent() -> (Rig, Listener, FakeAgent) {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    start_sub_agent(&agent, AGENT, CALL).await;
    listener.until("session/chatAdded").await;
    watch(&rig, &mut listener, CALL).await;
    (rig, listener, agent)
}

async fn start_sub_agent(agent: &FakeAgent, id: &str, by: &str) {
    for event in call(by, "Agent") {
        agent.emit(event).await;
    }
    agent.emit(started(id, by, None)).await;
}

async fn watch(rig: &Rig, listener: &mut Listener, call: &str) {
    rig.engine.subscribe(&chat_of(call), &listener.subscriber, 9).await.unwrap();
    listener.snapshot().await;
}

fn sub_agent_chat<'a>(listener: &'a Listener, call: &str) -> &'a ChatState {
    &listener.sub_agent_chats[&chat_of(call)]
}

/// A call of the default chat's last turn, as JSON.
fn call_in_chat(listener: &Listener, id: &str) -> Value {
    let chat = serde_json::to_value(listener.chat.as_ref().unwrap()).unwrap();
    let turn = if chat["activeTurn"].is_null() {
        chat["turns"].as_array().unwrap().last().unwrap()
    } else {
        &chat["activeTurn"]
    };
    let parts = turn["responseParts"].as_array().unwrap();
    parts.iter().find(|part| part["toolCall"]["toolCallId"] == id).unwrap()["toolCall"].clone()
}

/// The chats in the session's summary.
fn listed(rig: &Rig) -> Vec<Value> {
    let page = rig.engine.list_sessions(None, None).unwrap();
    let chats = page.summaries().remove(0).chats.unwrap();
    chats.iter().map(|chat| serde_json::to_value(chat).unwrap()).collect()
}

fn in_progress(line: &Value) -> bool {
    line["status"].as_u64().unwrap() & u64::from(SessionStatus::InProgress.bits()) != 0
}

#[tokio::test]
async fn sub_agent_work_is_displayed_in_a_separate_chat() {
    let (rig, mut listener, agent) = start_with_sub_agent().await;
    let line = listener.session.as_ref().unwrap().chats.iter().find(|line| line.resource == chat_of(CALL)).unwrap();
    let line = serde_json::to_value(line).unwrap();
    assert_eq!(line["interactivity"], "read-only");
    assert_eq!(line["title"], "looks around");
    assert_eq!(line["origin"], json!({ "kind": "tool", "chat": default_chat_uri(SESSION), "toolCallId": CALL }));
    let turn = sub_agent_chat(&listener, CALL).active_turn.as_ref().unwrap();
    assert_eq!(turn.message.text, "look around");
    assert_eq!(serde_json::to_value(&turn.message.origin).unwrap()["kind"], "tool");
    let linked =
        json!({ "type": "subagent", "resource": chat_of(CALL), "title": "looks around", "agentName": "helper" });
    let shown = call_in_chat(&listener, CALL);
    assert_eq!((&shown["status"], &shown["content"][0]), (&json!("running"), &linked), "{shown:#}");
    assert_eq!(shown["_meta"]["subagentChatUri"], chat_of(CALL));
    let listed = listed(&rig);
    assert_eq!((&listed[1]["resource"], &listed[1]["origin"]), (&line["resource"], &line["origin"]), "{listed:#?}");
    assert_eq!((&listed[1]["interactivity"], in_progress(&listed[1])), (&json!("read-only"), true));

    for event in text(7, "I look") {
        agent.emit(event_of(AGENT, event)).await;
    }
    for event in call("B", "Read") {
        agent.emit(event_of(AGENT, event)).await;
    }
    agent.emit(event_of(AGENT, returned("B"))).await;
    let usage = TokenUsage { input: 30, output: 4, ..TokenUsage::default() };
    agent.emit(event_of(AGENT, DriverEvent::Usage(usage))).await;
    agent.emit(finished(AGENT, SubAgentOutcome::Completed)).await;
    listener.until("chat/turnComplete").await;
    let turn = serde_json::to_value(&sub_agent_chat(&listener, CALL).turns[0]).unwrap();
    assert_eq!(turn["responseParts"][0]["content"], "I look");
    assert_eq!(turn["responseParts"][1]["toolCall"]["status"], "completed");
    assert_eq!((&turn["state"], &turn["usage"]["inputTokens"]), (&json!("complete"), &json!(30)), "{turn:#}");
    listener.until("session/chatUpdated").await;
    let line = listener.session.as_ref().unwrap().chats.iter().find(|line| line.resource == chat_of(CALL)).unwrap();
    assert!(!in_progress(&serde_json::to_value(line).unwrap()) && !in_progress(&self::listed(&rig)[1]));
    assert!(listener.chat.as_ref().unwrap().active_turn.is_some(), "the parent continues");

    agent.emit(returned(CALL)).await;
    agent.emit_answer(8, "do", "ne").await;
    listener.until("chat/turnComplete").await;
    let shown = call_in_chat(&listener, CALL);
    assert_eq!((&shown["content"][0], &shown["content"][1]["text"]), (&linked, &json!("handed back")), "{shown:#}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn sub_agent_chats_are_read_only() {
    let (rig, mut listener, _agent) = start_with_sub_agent().await;
    let message = json!({ "type": "chat/turnStarted", "turnId": "mine", "startedAt": "2026-01-01T00:00:00.000Z",
        "message": { "text": "hi", "origin": { "kind": "user" } } });
    rig.engine.dispatch(dispatch_json(&chat_of(CALL), 1, message.clone(), None)).await;
    listener.until("chat/turnStarted rejected: the chat of a sub-agent is read-only").await;
    let read = json!({ "type": "chat/isReadChanged", "isRead": true });
    rig.engine.dispatch(dispatch_json(&chat_of(CALL), 2, read, None)).await;
    listener.until("chat/isReadChanged").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn parallel_and_nested_sub_agents_have_separate_chats() {
    let (rig, mut listener, agent) = start_with_sub_agent().await;
    start_sub_agent(&agent, "a2", "U").await;
    listener.until("session/chatAdded").await;
    for event in call("N", "Agent") {
        agent.emit(event_of(AGENT, event)).await;
    }
    agent.emit(started("a3", "N", Some(AGENT))).await;
    listener.until("session/chatAdded").await;
    let chats = &listener.session.as_ref().unwrap().chats;
    assert_eq!(chats.len(), 4);
    let origin = serde_json::to_value(&chats[3].origin).unwrap();
    assert_eq!(origin, json!({ "kind": "tool", "chat": chat_of(CALL), "toolCallId": "N" }));
    watch(&rig, &mut listener, "U").await;
    watch(&rig, &mut listener, "N").await;
    agent.emit(finished("a2", SubAgentOutcome::Completed)).await;
    listener.until("chat/turnComplete").await;
    // The end of a parent ends its sub-agents.
    agent.emit(finished(AGENT, SubAgentOutcome::Completed)).await;
    listener.until("chat/turnCancelled").await;
    listener.until("chat/turnComplete").await;
    let state = |call| serde_json::to_value(sub_agent_chat(&listener, call).turns[0].state).unwrap();
    assert_eq!([state(CALL), state("U"), state("N")], ["complete", "complete", "cancelled"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn subscribe_waits_for_a_sub_agent_chat() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    let (engine, subscriber) = (rig.engine.clone(), listener.subscriber.clone());
    let waits =
        tokio::spawn(async move { engine.subscribe_or_wait(&chat_of(CALL), SnapshotTurns::All, &subscriber, 9).await });
    start_sub_agent(&agent, AGENT, CALL).await;
    waits.await.unwrap().unwrap();
    listener.snapshot().await;
    assert!(sub_agent_chat(&listener, CALL).active_turn.is_some());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn subscribe_to_a_chat_that_never_starts_times_out() {
    let clock = ManualClock::new();
    let options = common::Options { clock: Arc::new(clock.clone()), ..common::Options::default() };
    let mut rig = Rig::start_with(options).await;
    let (_listener, _agent) = rig.start_first_turn().await;
    let (engine, (subscriber, _deliveries)) = (rig.engine.clone(), Subscriber::new(8));
    let waits =
        tokio::spawn(
            async move { engine.subscribe_or_wait(&chat_of("never"), SnapshotTurns::All, &subscriber, 9).await },
        );
    while !waits.is_finished() {
        clock.advance(std::time::Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert!(matches!(waits.await.unwrap(), Err(EngineError::ChannelNotFound(_))));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn turn_ids_are_unique_over_all_chats_of_a_session() {
    let (rig, mut listener, agent) = start_with_sub_agent().await;
    let of_worker = sub_agent_chat(&listener, CALL).active_turn.as_ref().unwrap().id.clone();
    agent.emit(finished(AGENT, SubAgentOutcome::Completed)).await;
    agent.emit(returned(CALL)).await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    while listener.chat.as_ref().unwrap().active_turn.is_some() {
        listener.next().await;
    }
    for used in ["t1", &*of_worker] {
        rig.send_message(SESSION, used, "once more").await;
        listener.until("chat/turnStarted rejected: the turn ID").await;
    }
    rig.engine.shutdown().await;
}
