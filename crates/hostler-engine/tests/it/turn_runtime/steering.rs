//! Steering: messages for the running turn.

use hostler_driver::{DriverEvent, TokenUsage, ToolDisplay, ToolOutcome, TurnOutcome};
use hostler_testkit::fake_driver::FakeAgent;
use serde_json::value::RawValue;

use crate::common::{Rig, SESSION};
use crate::turn_runtime::helpers::emit_partial_answer;

/// A call starts, and its hook fires.
async fn call(agent: &FakeAgent, id: &str) {
    let (id, name) = (id.to_owned(), "Bash".to_owned());
    agent.emit(DriverEvent::ToolStarted { id: id.clone(), name, display: ToolDisplay::default() }).await;
    let input = RawValue::from_string("{}".to_owned()).unwrap().into();
    agent.emit(DriverEvent::ToolReady { id: id.clone(), input, display: ToolDisplay::default() }).await;
    agent.emit(DriverEvent::ToolDecided { id, decision: hostler_driver::GateDecision::Allow }).await;
}

async fn result(agent: &FakeAgent, id: &str) {
    let outcome = ToolOutcome::Succeeded;
    agent.emit(DriverEvent::ToolFinished { id: id.to_owned(), outcome, output: "ok".to_owned(), edit: None }).await;
}

fn used(input: u64, output: u64) -> DriverEvent {
    DriverEvent::Usage(TokenUsage { input, output, ..TokenUsage::default() })
}

const DONE: TurnOutcome = TurnOutcome::Completed { empty: false };

#[tokio::test]
async fn injected_steer_splits_the_turn_where_its_answer_starts() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    emit_partial_answer(&agent, 1, "let me look").await;
    call(&agent, "c1").await;
    rig.steer("s", "in blue, please").await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!(listener.steering().as_deref(), Some("in blue, please"));
    assert_eq!(agent.wait_steered().await.prompt.expose(), "in blue, please");
    agent.inject_steer().await.unwrap();
    result(&agent, "c1").await;
    agent.emit(used(100, 10)).await;
    emit_partial_answer(&agent, 2, "in blue it is").await;
    agent.emit(used(250, 30)).await;
    agent.end_turn(DONE).await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.steering().as_deref(), Some("in blue, please"), "shown until its answer begins");
    listener.until("chat/turnStarted").await;
    assert_eq!(listener.steering(), None);
    listener.until("chat/turnComplete").await;
    let chat = listener.chat.as_ref().unwrap();
    assert_eq!(listener.message_texts(), ["hi", "in blue, please"]);
    let shown = |turn: usize| serde_json::to_string(&chat.turns[turn].response_parts).unwrap();
    assert!(shown(0).contains("let me look") && shown(0).contains("c1") && !shown(0).contains("it is"));
    assert!(shown(1).contains("in blue it is"));
    let tokens = |turn: usize| chat.turns[turn].usage.as_ref().map(|u| (u.input_tokens, u.output_tokens)).unwrap();
    assert_eq!((tokens(0), tokens(1)), ((Some(100), Some(10)), (Some(150), Some(20))), "each turn has its own share");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn turn_is_not_split_during_an_open_call() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    call(&agent, "c1").await;
    call(&agent, "c2").await;
    rig.steer("s", "more").await;
    agent.wait_steered().await;
    agent.inject_steer().await.unwrap();
    result(&agent, "c1").await;
    emit_partial_answer(&agent, 1, "first").await;
    result(&agent, "c2").await;
    emit_partial_answer(&agent, 2, "second").await;
    agent.end_turn(DONE).await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    let chat = listener.chat.as_ref().unwrap();
    assert!(serde_json::to_string(&chat.turns[0].response_parts).unwrap().contains("first"));
    assert!(serde_json::to_string(&chat.turns[1].response_parts).unwrap().contains("second"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn undelivered_steer_becomes_the_head_of_the_queue() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    rig.queue("q", "later").await;
    rig.steer("s", "sooner").await;
    agent.wait_steered().await;
    emit_partial_answer(&agent, 1, "no tool follows").await;
    agent.end_turn(DONE).await;
    assert_eq!(agent.next_prompt().await, "sooner");
    listener.until("chat/turnComplete").await;
    listener.until("chat/pendingMessageRemoved").await;
    listener.until("chat/pendingMessageSet").await;
    listener.until("chat/queuedMessagesReordered").await;
    assert_eq!(listener.queued(), ["sooner", "later"]);
    agent.emit_answer(2, "x", "y").await;
    assert_eq!(agent.next_prompt().await, "later");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn second_steer_replaces_an_uninjected_one_and_is_queued_otherwise() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    call(&agent, "c1").await;
    rig.steer("s1", "one").await;
    agent.wait_steered().await;
    rig.steer("s2", "two").await;
    listener.until("chat/pendingMessageSet").await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!((listener.steering().as_deref(), agent.wait_steered().await.prompt.expose()), (Some("two"), "two"));
    agent.inject_steer().await.unwrap();
    rig.steer("s3", "three").await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!((listener.steering().as_deref(), listener.queued()), (Some("two"), vec!["three".to_owned()]));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn steer_can_be_removed_only_before_injection() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    rig.steer("s1", "one").await;
    agent.wait_steered().await;
    rig.remove_pending("steering", "s1").await;
    listener.until("chat/pendingMessageRemoved").await;
    assert!(agent.inject_steer().await.is_none(), "the driver has no pending steer");
    rig.steer("s2", "two").await;
    agent.wait_steered().await;
    agent.inject_steer().await.unwrap();
    rig.remove_pending("steering", "s2").await;
    listener.until("chat/pendingMessageRemoved rejected: the agent has already received the message").await;
    rig.remove_pending("steering", "unknown").await;
    listener.until("chat/pendingMessageRemoved rejected: the message does not wait").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn steer_on_an_idle_chat_or_too_long_is_queued() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.steer("s1", "no turn is running").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "no turn is running");
    listener.until("chat/turnStarted").await;
    rig.steer("s2", &"ü".repeat(hostler_driver::MAX_STEERING_UTF16_UNITS + 1)).await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!((listener.steering(), listener.queued().len()), (None, 1));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn steer_is_held_while_the_agent_starts() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "hi").await;
    rig.steer("s", "quickly").await;
    listener.until("chat/pendingMessageSet").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    assert_eq!(agent.wait_steered().await.prompt.expose(), "quickly");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn cancel_queues_an_undelivered_steer_and_reports_an_injected_one() {
    for injected in [false, true] {
        let (rig, mut listener, agent) = Rig::with_running_turn().await;
        call(&agent, "c1").await;
        rig.steer("s", "stop that").await;
        agent.wait_steered().await;
        listener.until("chat/pendingMessageSet").await;
        if injected {
            agent.inject_steer().await.unwrap();
            // The receipt is processed when the next action arrives.
            agent.emit(used(1, 1)).await;
            listener.until("chat/usage").await;
        }
        rig.cancel(SESSION, "t1").await;
        listener.until("chat/turnCancelled").await;
        listener.until("chat/pendingMessageRemoved").await;
        let turns = serde_json::to_string(&listener.chat.as_ref().unwrap().turns).unwrap();
        assert_eq!(turns.contains("You said, while the agent was working: stop that"), injected);
        if !injected {
            listener.until("chat/queuedMessagesReordered").await;
        }
        assert_eq!(listener.queued().len(), usize::from(!injected), "injected: {injected}");
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn steer_of_a_cancelled_turn_is_queued_only_after_its_receipt() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    rig.steer("s", "just in time").await;
    agent.wait_steered().await;
    listener.until("chat/pendingMessageSet").await;
    // The driver has given the steer up, but the actor does not know it yet when the client cancels.
    let held = agent.take_steer().unwrap();
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    assert_eq!(listener.steering().as_deref(), Some("just in time"), "the receipt has not arrived");
    agent.emit(DriverEvent::SteerUndelivered(held.id)).await;
    agent.emit(DriverEvent::TurnEnded(DONE)).await;
    listener.until("chat/queuedMessagesReordered").await;
    assert_eq!((listener.steering(), listener.queued()), (None, vec!["just in time".to_owned()]));
    rig.send_message(SESSION, "t2", "next").await;
    assert_eq!(agent.next_prompt().await, "next");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_or_host_crash_neither_loses_nor_repeats_a_steer() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    rig.steer("s", "remember me").await;
    agent.wait_steered().await;
    listener.until("chat/pendingMessageSet").await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error").await;
    listener.until("chat/queuedMessagesReordered").await;
    assert_eq!((listener.steering(), listener.queued()), (None, vec!["remember me".to_owned()]));
    rig.engine.shutdown().await;

    for injected in [false, true] {
        let (rig, mut listener, agent) = Rig::with_running_turn().await;
        call(&agent, "c1").await;
        rig.steer("s", "remember me").await;
        agent.wait_steered().await;
        listener.until("chat/pendingMessageSet").await;
        if injected {
            agent.inject_steer().await.unwrap();
            agent.emit(used(1, 1)).await;
            listener.until("chat/usage").await;
        }
        let rig = rig.crash().await;
        let listener = rig.listen(SESSION).await;
        assert_eq!(
            (listener.steering(), listener.queued().len()),
            (None, usize::from(!injected)),
            "injected: {injected}"
        );
        let turns = serde_json::to_string(&listener.chat.as_ref().unwrap().turns).unwrap();
        assert_eq!(turns.contains("remember me"), injected);
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn steer_injected_during_a_cancel_stays_in_the_chat() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    call(&agent, "c1").await;
    rig.steer("s", "in blue, please").await;
    let id = agent.wait_steered().await.id;
    // The steer is injected, and the cancel overtakes its receipt.
    agent.take_steer().unwrap();
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    agent.emit(DriverEvent::SteerInjected(id)).await;
    listener.until("chat/turnCancelled").await;
    assert_eq!(
        (listener.message_texts(), listener.steering()),
        (vec!["hi".to_owned(), "in blue, please".to_owned()], None)
    );
    let rig = rig.restart().await;
    assert_eq!(rig.listen(SESSION).await.message_texts(), ["hi", "in blue, please"]);
    rig.engine.shutdown().await;
}
