//! The message queue of a chat.

use hostler_driver::{DriverEvent, TurnOutcome};

use crate::common::{Rig, SESSION};

#[tokio::test]
async fn queued_messages_run_in_order_after_the_turn() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    rig.queue("a", "second").await;
    rig.queue("b", "third").await;
    listener.until("chat/pendingMessageSet").await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!(listener.queued(), ["second", "third"]);
    agent.emit_answer(1, "x", "y").await;
    assert_eq!(agent.next_prompt().await, "second");
    agent.emit_answer(2, "x", "y").await;
    assert_eq!(agent.next_prompt().await, "third");
    agent.emit_answer(3, "x", "y").await;
    for _ in 0..3 {
        listener.until("chat/turnComplete").await;
    }
    assert_eq!(
        (listener.message_texts(), listener.queued().len()),
        (vec!["hi".into(), "second".into(), "third".into()], 0)
    );
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn queued_message_on_an_idle_chat_starts_at_once() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.queue("a", "first of all").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "first of all");
    agent.emit_answer(1, "x", "y").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.session.as_ref().unwrap().title, "first of all");
    assert_eq!((listener.message_texts().len(), listener.queued().len()), (1, 0));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn turn_and_queued_message_sent_together_start_one_agent_and_two_turns() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "one").await;
    rig.queue("a", "two").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "one");
    agent.emit_answer(1, "x", "y").await;
    assert_eq!(agent.next_prompt().await, "two");
    agent.emit_answer(2, "x", "y").await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert_eq!((rig.starts.open_count(), listener.message_texts()), (1, vec!["one".to_owned(), "two".to_owned()]));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn queue_is_edited_shortened_and_reordered_by_any_client() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    for (id, text) in [("z", "one"), ("a", "two"), ("m", "three")] {
        rig.queue(id, text).await;
        listener.until("chat/pendingMessageSet").await;
    }
    rig.queue("a", "TWO").await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!(listener.queued(), ["one", "TWO", "three"], "an edit stays in its place");
    rig.reorder(&["m", "unknown"]).await;
    listener.until("chat/queuedMessagesReordered").await;
    assert_eq!(listener.queued(), ["three", "one", "TWO"], "messages that are not named stay in their order");
    rig.remove_pending("queued", "z").await;
    listener.until("chat/pendingMessageRemoved").await;
    rig.remove_pending("queued", "z").await;
    listener.until("chat/pendingMessageRemoved rejected: the message is not in the queue").await;
    agent.emit_answer(1, "x", "y").await;
    assert_eq!(agent.next_prompt().await, "three");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn edit_of_a_message_that_became_a_turn_is_rejected() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    rig.queue("a", "second").await;
    agent.emit_answer(1, "x", "y").await;
    assert_eq!(agent.next_prompt().await, "second");
    rig.queue("a", "second, corrected").await;
    listener.until("chat/pendingMessageSet rejected: the message has already become a turn").await;
    rig.remove_pending("queued", "a").await;
    listener.until("chat/pendingMessageRemoved rejected: the message has already become a turn").await;
    assert_eq!(listener.queued(), Vec::<String>::new());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn full_queue_rejects_messages_with_a_reason() {
    let (rig, mut listener, _agent) = Rig::with_running_turn().await;
    for number in 0..hostler_engine::DEFAULT_MAX_QUEUED_MESSAGES {
        rig.queue(&format!("q{number}"), "x").await;
    }
    rig.queue("more", "x").await;
    listener.until("chat/pendingMessageSet rejected: the queue is full (100 messages)").await;
    rig.queue("q7", "an edit still fits").await;
    listener.until("chat/pendingMessageSet").await;
    assert_eq!(listener.queued().len(), 100);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn queue_is_paused_after_a_stop() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    rig.queue("a", "later").await;
    listener.until("chat/pendingMessageSet").await;
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    agent.wait_interrupted().await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
    listener.until("session/metaChanged").await;
    assert!(listener.is_paused());
    rig.send_message(SESSION, "t2", "something else").await;
    assert_eq!(agent.next_prompt().await, "something else");
    agent.emit_answer(1, "x", "y").await;
    assert_eq!(agent.next_prompt().await, "later", "the queue continues after the next message");
    agent.emit_answer(2, "x", "y").await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert!(!listener.is_paused());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn paused_queue_resumes_on_queueing_or_reordering() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    rig.queue("a", "a").await;
    rig.queue("b", "b").await;
    rig.cancel(SESSION, "t1").await;
    agent.wait_interrupted().await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
    listener.until("chat/turnCancelled").await;
    rig.reorder(&["b"]).await;
    assert_eq!(agent.next_prompt().await, "b");
    listener.until("chat/queuedMessagesReordered").await;
    listener.until("chat/turnStarted").await;
    let turn = listener.chat.as_ref().unwrap().active_turn.as_ref().unwrap().id.clone();
    rig.cancel(SESSION, &turn).await;
    listener.until("chat/turnCancelled").await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
    rig.queue("c", "c").await;
    assert_eq!(agent.next_prompt().await, "a", "the head starts");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn queue_is_paused_after_a_failure() {
    let (mut rig, mut listener, agent) = Rig::with_running_turn().await;
    rig.queue("a", "later").await;
    listener.until("chat/pendingMessageSet").await;
    agent.exit("signal 9", "").await;
    listener.until("chat/error agentExited").await;
    listener.until("session/metaChanged").await;
    assert!(listener.is_paused());
    rig.queue("b", "even later").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "later");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn queue_survives_a_restart_and_stays_paused() {
    for graceful in [true, false] {
        let (rig, mut listener, _agent) = Rig::with_running_turn().await;
        rig.queue("a", "one").await;
        rig.queue("b", "two").await;
        listener.until("chat/pendingMessageSet").await;
        listener.until("chat/pendingMessageSet").await;
        let mut rig = if graceful { rig.restart().await } else { rig.crash().await };
        let mut listener = rig.listen(SESSION).await;
        assert_eq!(listener.queued(), ["one", "two"], "graceful: {graceful}");
        assert!(listener.is_paused());
        assert_eq!(rig.starts.open_count(), 0);
        rig.queue("c", "three").await;
        let mut agent = rig.starts.next_start().await.succeed();
        assert_eq!(agent.next_prompt().await, "one");
        listener.until("chat/turnStarted").await;
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn client_starts_a_queued_message_and_consumes_it() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    rig.queue("a", "one").await;
    rig.queue("b", "two").await;
    rig.cancel(SESSION, "t1").await;
    agent.wait_interrupted().await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
    listener.until("chat/turnCancelled").await;
    let mut action = crate::common::started("t2", "two");
    action.queued_message_id = Some("b".into());
    let action = ahp_types::StateAction::ChatTurnStarted(action);
    rig.engine.dispatch(crate::common::dispatch(SESSION, action)).await;
    assert_eq!(agent.next_prompt().await, "two");
    listener.until("chat/turnStarted").await;
    assert_eq!(listener.queued(), ["one"]);
    agent.emit_answer(1, "x", "y").await;
    assert_eq!(agent.next_prompt().await, "one");
    rig.engine.shutdown().await;
}
