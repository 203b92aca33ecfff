//! Stopping a turn while background work is running.

use hostler_engine::BackgroundOnStop;

use super::permission_requests::needed;
use super::*;

pub(super) fn shell(id: &str) -> DriverEvent {
    DriverEvent::BackgroundTaskChanged(BackgroundTask {
        id: id.into(),
        kind: BackgroundTaskKind::Shell,
        description: format!("npm run {id}"),
        call_id: Some("c1".into()),
    })
}

async fn end_background_task(agent: &FakeAgent, listener: &mut Listener, id: &str) {
    agent.emit(DriverEvent::BackgroundTaskEnded { id: id.into() }).await;
    listener.until("chat/backgroundWorkRemoved").await;
}

/// A session whose host has this policy, with a shell and a sub-agent in the background of its first turn.
pub(super) async fn start_with_background_work(background_on_stop: BackgroundOnStop) -> (Rig, Listener, FakeAgent) {
    let mut rig = Rig::start_with(common::Options { background_on_stop, ..common::Options::default() }).await;
    let (mut listener, agent) = rig.start_first_turn().await;
    start_sub_agent(&agent, AGENT, CALL).await;
    agent.emit(in_background(AGENT, CALL)).await;
    listener.until("chat/backgroundWorkSet").await;
    agent.emit(shell("b1")).await;
    listener.until("chat/backgroundWorkSet").await;
    (rig, listener, agent)
}

async fn cancel(rig: &Rig, listener: &mut Listener) {
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
}

/// Checks that the next stop that the agent receives is the one requested here: nothing was stopped before.
async fn nothing_was_stopped_before(rig: &Rig, agent: &mut FakeAgent, id: &str) {
    rig.engine.stop_background_work(&default_chat_uri(SESSION), id).await.unwrap();
    assert_eq!(agent.stopped_tasks.recv().await.as_deref(), Some(id));
}

/// Answers the session's question.
async fn answer(rig: &Rig, asked: &Value, seq: i64, response: &str, work: &[&str]) {
    let value = json!({ "kind": "selected-many", "value": work });
    let answers = (response == "accept").then(|| json!({ "work": { "state": "submitted", "value": value } }));
    let mut action =
        json!({ "type": "chat/inputCompleted", "requestId": asked["request"]["id"], "response": response });
    if let Some(answers) = answers {
        action["answers"] = answers;
    }
    rig.engine.dispatch(dispatch_json(asked["chat"].as_str().unwrap(), seq, action, None)).await;
}

#[tokio::test]
async fn background_work_continues_after_a_stop_and_stays_listed() {
    let (rig, mut listener, mut agent) = start_with_background_work(BackgroundOnStop::Keep).await;
    cancel(&rig, &mut listener).await;
    nothing_was_stopped_before(&rig, &mut agent, "b1").await;
    assert_eq!(needed(&listener), [Value::Null; 0]);
    assert_eq!(listener.chat.as_ref().unwrap().background_work.as_ref().unwrap().len(), 2);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn background_work_is_stopped_with_the_turn_including_late_work() {
    let (rig, mut listener, mut agent) = start_with_background_work(BackgroundOnStop::Stop).await;
    cancel(&rig, &mut listener).await;
    let mut stopped = [agent.stopped_tasks.recv().await.unwrap(), agent.stopped_tasks.recv().await.unwrap()];
    stopped.sort();
    assert_eq!(stopped, [AGENT, "b1"]);
    agent.emit(shell("late")).await;
    assert_eq!(agent.stopped_tasks.recv().await.as_deref(), Some("late"));
    // A repeated report of known work does not stop it again.
    agent.emit(shell("late")).await;
    agent.end_turn(TurnOutcome::Interrupted).await;
    rig.send_message(SESSION, "t2", "on").await;
    assert_eq!(agent.next_prompt().await, "on");
    agent.emit(shell("b2")).await;
    listener.until("chat/backgroundWorkSet").await;
    listener.until("chat/backgroundWorkSet").await;
    listener.until("chat/backgroundWorkSet").await;
    nothing_was_stopped_before(&rig, &mut agent, "b2").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn stop_question_outlives_turns_and_stops_the_chosen_work() {
    let (rig, mut listener, mut agent) = start_with_background_work(BackgroundOnStop::Ask).await;
    cancel(&rig, &mut listener).await;
    listener.until("session/inputNeededSet").await;
    let asked = needed(&listener)[0].clone();
    assert_eq!((&asked["kind"], &asked["chat"]), (&json!("chatInput"), &json!(default_chat_uri(SESSION))));
    let options = asked["request"]["questions"][0]["options"].as_array().unwrap();
    let labels: Vec<_> = options.iter().map(|option| (&option["id"], &option["label"])).collect();
    assert_eq!(labels, [(&json!(AGENT), &json!("looks around")), (&json!("b1"), &json!("npm run b1"))]);
    agent.end_turn(TurnOutcome::Interrupted).await;
    rig.send_message(SESSION, "t2", "on").await;
    assert_eq!(agent.next_prompt().await, "on");
    agent.emit_answer(8, "do", "ne").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(needed(&listener), std::slice::from_ref(&asked), "it belongs to no turn");

    answer(&rig, &asked, 1, "accept", &["b7"]).await;
    listener.until("chat/inputCompleted rejected: ").await;
    answer(&rig, &asked, 2, "accept", &["b1"]).await;
    listener.until("session/inputNeededRemoved").await;
    assert_eq!(agent.stopped_tasks.recv().await.as_deref(), Some("b1"));
    nothing_was_stopped_before(&rig, &mut agent, AGENT).await;
    answer(&rig, &asked, 3, "accept", &["b1"]).await;
    listener.until("chat/inputCompleted rejected: the request is no longer pending").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn declined_stop_question_stops_nothing() {
    let (rig, mut listener, mut agent) = start_with_background_work(BackgroundOnStop::Ask).await;
    cancel(&rig, &mut listener).await;
    listener.until("session/inputNeededSet").await;
    answer(&rig, &needed(&listener)[0], 1, "decline", &[]).await;
    listener.until("session/inputNeededRemoved").await;
    nothing_was_stopped_before(&rig, &mut agent, "b1").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn stop_question_without_remaining_work_is_withdrawn() {
    let (rig, mut listener, agent) = start_with_background_work(BackgroundOnStop::Ask).await;
    cancel(&rig, &mut listener).await;
    listener.until("session/inputNeededSet").await;
    agent.emit(shell("late")).await;
    listener.until("session/inputNeededSet").await;
    let options = |listener: &Listener| {
        needed(listener)[0]["request"]["questions"][0]["options"].as_array().unwrap().iter().count()
    };
    assert_eq!(options(&listener), 3);
    for (id, left) in [("late", 2), ("b1", 1)] {
        end_background_task(&agent, &mut listener, id).await;
        listener.until("session/inputNeededSet").await;
        assert_eq!(options(&listener), left);
    }
    end_background_task(&agent, &mut listener, AGENT).await;
    listener.until("session/inputNeededRemoved").await;
    assert_eq!(needed(&listener), [Value::Null; 0]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn stop_question_ends_with_the_agent_and_with_the_host() {
    let (rig, mut listener, agent) = start_with_background_work(BackgroundOnStop::Ask).await;
    cancel(&rig, &mut listener).await;
    listener.until("session/inputNeededSet").await;
    let rig = rig.crash().await;
    let mut after = rig.listen(SESSION).await;
    assert_eq!(needed(&after), [Value::Null; 0]);
    rig.send_message(SESSION, "t2", "on").await;
    after.until("chat/turnStarted").await;
    drop(agent);
    rig.engine.shutdown().await;

    let (rig, mut listener, agent) = start_with_background_work(BackgroundOnStop::Ask).await;
    cancel(&rig, &mut listener).await;
    listener.until("session/inputNeededSet").await;
    agent.exit("signal 9", "").await;
    listener.until("session/inputNeededRemoved").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_policy_overrides_the_host_policy() {
    let (rig, mut listener, mut agent) = start_with_background_work(BackgroundOnStop::Keep).await;
    let configure = |seq, policy: Value| {
        let action = json!({ "type": "session/configChanged", "config": { "backgroundOnStop": policy } });
        rig.engine.dispatch(dispatch_json(SESSION, seq, action, None))
    };
    configure(1, json!("kill")).await;
    listener
        .until("session/configChanged rejected: backgroundOnStop cannot be \"kill\"; use one of keep, stop, ask")
        .await;
    configure(2, json!("stop")).await;
    listener.until("session/configChanged").await;
    cancel(&rig, &mut listener).await;
    let mut stopped = [agent.stopped_tasks.recv().await.unwrap(), agent.stopped_tasks.recv().await.unwrap()];
    stopped.sort();
    assert_eq!(stopped, [AGENT, "b1"]);
    rig.engine.shutdown().await;
}
