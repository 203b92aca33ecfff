use hostler_driver::{DriverEvent, TokenUsage, ToolDisplay, ToolOutcome, TurnOutcome};
use hostler_testkit::fake_driver::FakeAgent;
use serde_json::value::RawValue;

use crate::common::{Rig, SESSION};
use crate::helpers::says;

/// A call begins, and its hook fires.
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
async fn what_the_agent_was_told_splits_its_answer_where_it_took_effect() {
    let (rig, mut listener, agent) = Rig::asked().await;
    says(&agent, 1, "let me look").await;
    call(&agent, "c1").await;
    rig.steer("s", "in blue, please").await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!(listener.steering().as_deref(), Some("in blue, please"));
    assert_eq!(agent.wait_steered().await.prompt.expose(), "in blue, please");
    agent.inject_steer().await.unwrap();
    result(&agent, "c1").await;
    agent.emit(used(100, 10)).await;
    says(&agent, 2, "in blue it is").await;
    agent.emit(used(250, 30)).await;
    agent.end_turn(DONE).await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.steering().as_deref(), Some("in blue, please"), "shown until its answer begins");
    listener.until("chat/turnStarted").await;
    assert_eq!(listener.steering(), None);
    listener.until("chat/turnComplete").await;
    let chat = listener.chat.as_ref().unwrap();
    assert_eq!(listener.said(), ["hi", "in blue, please"]);
    let shown = |turn: usize| serde_json::to_string(&chat.turns[turn].response_parts).unwrap();
    assert!(shown(0).contains("let me look") && shown(0).contains("c1") && !shown(0).contains("it is"));
    assert!(shown(1).contains("in blue it is"));
    let tokens = |turn: usize| chat.turns[turn].usage.as_ref().map(|u| (u.input_tokens, u.output_tokens)).unwrap();
    assert_eq!((tokens(0), tokens(1)), ((Some(100), Some(10)), (Some(150), Some(20))), "each turn has its own share");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn with_a_call_open_the_turn_is_not_split_yet() {
    let (rig, mut listener, agent) = Rig::asked().await;
    call(&agent, "c1").await;
    call(&agent, "c2").await;
    rig.steer("s", "more").await;
    agent.wait_steered().await;
    agent.inject_steer().await.unwrap();
    result(&agent, "c1").await;
    says(&agent, 1, "first").await;
    result(&agent, "c2").await;
    says(&agent, 2, "second").await;
    agent.end_turn(DONE).await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    let chat = listener.chat.as_ref().unwrap();
    assert!(serde_json::to_string(&chat.turns[0].response_parts).unwrap().contains("first"));
    assert!(serde_json::to_string(&chat.turns[1].response_parts).unwrap().contains("second"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn what_the_agent_could_not_be_told_becomes_the_first_of_the_queue() {
    let (rig, mut listener, mut agent) = Rig::asked().await;
    rig.queue("q", "later").await;
    rig.steer("s", "sooner").await;
    agent.wait_steered().await;
    says(&agent, 1, "no tool follows").await;
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
async fn a_second_one_replaces_the_first_while_the_agent_was_not_told_and_is_queued_otherwise() {
    let (rig, mut listener, agent) = Rig::asked().await;
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
async fn it_is_taken_back_only_while_the_agent_was_not_told() {
    let (rig, mut listener, agent) = Rig::asked().await;
    rig.steer("s1", "one").await;
    agent.wait_steered().await;
    rig.unpend("steering", "s1").await;
    listener.until("chat/pendingMessageRemoved").await;
    assert!(agent.inject_steer().await.is_none(), "the driver holds nothing");
    rig.steer("s2", "two").await;
    agent.wait_steered().await;
    agent.inject_steer().await.unwrap();
    rig.unpend("steering", "s2").await;
    listener.until("chat/pendingMessageRemoved rejected: the agent was told already").await;
    rig.unpend("steering", "nobody").await;
    listener.until("chat/pendingMessageRemoved rejected: no such message").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn on_an_idle_chat_or_when_it_is_too_long_it_waits_for_its_own_turn() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.steer("s1", "nobody is working").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "nobody is working");
    listener.until("chat/turnStarted").await;
    rig.steer("s2", &"ü".repeat(hostler_driver::MAX_STEERING_UTF16_UNITS + 1)).await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!((listener.steering(), listener.queued().len()), (None, 1));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn it_is_held_while_the_agent_starts() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.say(SESSION, "t1", "hi").await;
    rig.steer("s", "quickly").await;
    listener.until("chat/pendingMessageSet").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "hi");
    assert_eq!(agent.wait_steered().await.prompt.expose(), "quickly");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_cancel_keeps_it_for_later_and_says_what_the_agent_was_told() {
    for told in [false, true] {
        let (rig, mut listener, agent) = Rig::asked().await;
        call(&agent, "c1").await;
        rig.steer("s", "stop that").await;
        agent.wait_steered().await;
        listener.until("chat/pendingMessageSet").await;
        if told {
            agent.inject_steer().await.unwrap();
            // The receipt has been heard when the next action is.
            agent.emit(used(1, 1)).await;
            listener.until("chat/usage").await;
        }
        rig.cancel(SESSION, "t1").await;
        listener.until("chat/turnCancelled").await;
        listener.until("chat/pendingMessageRemoved").await;
        let turns = serde_json::to_string(&listener.chat.as_ref().unwrap().turns).unwrap();
        assert_eq!(turns.contains("You said, while the agent was working: stop that"), told);
        if !told {
            listener.until("chat/queuedMessagesReordered").await;
        }
        assert_eq!(listener.queued().len(), usize::from(!told), "told: {told}");
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn at_the_very_end_of_a_turn_the_receipt_decides() {
    let (rig, mut listener, mut agent) = Rig::asked().await;
    rig.steer("s", "just in time").await;
    agent.wait_steered().await;
    listener.until("chat/pendingMessageSet").await;
    // The driver has given it up, but nobody has heard of it when the client cancels.
    let held = agent.take_steer().unwrap();
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    assert_eq!(listener.steering().as_deref(), Some("just in time"), "it is not known yet what became of it");
    agent.emit(DriverEvent::SteerUndelivered(held.id)).await;
    agent.emit(DriverEvent::TurnEnded(DONE)).await;
    listener.until("chat/queuedMessagesReordered").await;
    assert_eq!((listener.steering(), listener.queued()), (None, vec!["just in time".to_owned()]));
    rig.say(SESSION, "t2", "next").await;
    assert_eq!(agent.next_prompt().await, "next");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn neither_an_agents_death_nor_the_hosts_loses_or_doubles_it() {
    let (rig, mut listener, agent) = Rig::asked().await;
    rig.steer("s", "remember me").await;
    agent.wait_steered().await;
    listener.until("chat/pendingMessageSet").await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error").await;
    listener.until("chat/queuedMessagesReordered").await;
    assert_eq!((listener.steering(), listener.queued()), (None, vec!["remember me".to_owned()]));
    rig.engine.shutdown().await;

    for told in [false, true] {
        let (rig, mut listener, agent) = Rig::asked().await;
        call(&agent, "c1").await;
        rig.steer("s", "remember me").await;
        agent.wait_steered().await;
        listener.until("chat/pendingMessageSet").await;
        if told {
            agent.inject_steer().await.unwrap();
            agent.emit(used(1, 1)).await;
            listener.until("chat/usage").await;
        }
        let rig = rig.crash().await;
        let listener = rig.listen(SESSION).await;
        assert_eq!((listener.steering(), listener.queued().len()), (None, usize::from(!told)), "told: {told}");
        let turns = serde_json::to_string(&listener.chat.as_ref().unwrap().turns).unwrap();
        assert_eq!(turns.contains("remember me"), told);
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn what_the_agent_was_told_in_the_moment_of_a_cancel_stays_in_the_transcript() {
    let (rig, mut listener, agent) = Rig::asked().await;
    call(&agent, "c1").await;
    rig.steer("s", "in blue, please").await;
    let id = agent.wait_steered().await.id;
    // The agent is told, and the cancel overtakes the news of it.
    agent.take_steer().unwrap();
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    agent.emit(DriverEvent::SteerInjected(id)).await;
    listener.until("chat/turnCancelled").await;
    assert_eq!((listener.said(), listener.steering()), (vec!["hi".to_owned(), "in blue, please".to_owned()], None));
    let rig = rig.restart().await;
    assert_eq!(rig.listen(SESSION).await.said(), ["hi", "in blue, please"]);
    rig.engine.shutdown().await;
}
