//! The lifecycle of a session: provisional, materialized, reused, cancelled, disposed, restarted.

use crate::common;
use crate::common::{Options, Rig, SESSION, SHORT_INTERRUPT_GRACE, dispatch, message, started};
use ahp_types::StateAction;
use ahp_types::actions::ChatTurnCancelledAction;
use ahp_types::state::{MessageKind, ResponsePart, SessionLifecycle, TurnState};
use hostler_driver::{
    ApiErrorCategory, CloseMode, ConversationStart, DriverEvent, OpenErrorKind, PartId, PartKind, ResumeToken,
    TokenUsage, ToolDisplay, ToolOutcome, TurnCause, TurnOutcome,
};
use hostler_engine::{CreateSession, EngineError};

#[tokio::test]
async fn provisional_session_starts_and_stores_nothing_and_is_not_listed() {
    let (rig, listener) = Rig::with_session().await;
    assert_eq!(rig.starts.open_count(), 0);
    assert_eq!(rig.listed(), Vec::<String>::new());
    assert_eq!(listener.session.as_ref().unwrap().lifecycle, SessionLifecycle::Creating);
    let default_chat = listener.session.unwrap().default_chat.unwrap();
    assert_eq!(default_chat, listener.chat.unwrap().resource);
    let rig = rig.restart().await;
    assert!(rig.engine.subscribe(SESSION, &common::Listener::new(SESSION).subscriber, 1).await.is_err(), "no row");
}

#[tokio::test]
async fn first_message_materializes_and_announces_once_after_the_handshake() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "hi there\nsecond line").await;
    listener.until("chat/turnStarted").await;
    let start = rig.starts.next_start().await;
    assert_eq!(
        start.spec.conversation,
        ConversationStart::New(SESSION.trim_start_matches("claude:/").parse().unwrap())
    );
    assert_eq!(start.spec.working_directory, rig.work);
    assert_eq!(rig.listed(), Vec::<String>::new(), "not before the handshake");
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "hi there\nsecond line");
    agent.emit_answer(1, "hel", "lo").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(rig.listed(), [SESSION]);

    rig.send_message(SESSION, "t2", "again").await;
    assert_eq!(agent.next_prompt().await, "again");
    agent.emit_answer(2, "x", "y").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(rig.starts.open_count(), 1, "the second message uses the same process");
    assert_eq!(listener.added.len(), 1);
    let summary = &listener.added[0];
    assert_eq!(summary.resource, SESSION);
    assert_eq!(summary.provider, "claude");
    assert_eq!(summary.title, "hi there");
    assert_eq!(summary.working_directories.as_ref().unwrap().len(), 1);
    assert!(summary.project.is_none());
    let ready = listener.events.iter().position(|event| event == "session/ready").unwrap();
    let added = listener.events.iter().position(|event| event == "added").unwrap();
    let first_delta = listener.events.iter().position(|event| event.starts_with("chat/delta")).unwrap();
    assert!(ready < added && added < first_delta);
    assert_eq!(listener.session.unwrap().lifecycle, SessionLifecycle::Ready);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn parts_precede_their_deltas_and_usage_precedes_the_end() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    for (part, kind, text) in [(7, PartKind::Reasoning, "hmm"), (8, PartKind::Text, "one"), (9, PartKind::Text, "two")]
    {
        agent.emit(DriverEvent::PartStarted { part: PartId(part), kind }).await;
        agent.emit(DriverEvent::PartDelta { part: PartId(part), text: text.into() }).await;
    }
    agent.emit(DriverEvent::PartDelta { part: PartId(8), text: " more".into() }).await;
    agent.emit(DriverEvent::PartDelta { part: PartId(99), text: "lost".into() }).await;
    agent.emit(DriverEvent::Usage(TokenUsage { input: 3, output: 4, ..TokenUsage::default() })).await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    listener.until("chat/turnComplete").await;
    assert_eq!(
        listener.chat_events(),
        [
            "chat/turnStarted",
            "chat/responsePart reasoning p1",
            "chat/reasoning p1 \"hmm\"",
            "chat/responsePart markdown p2",
            "chat/delta p2 \"one\"",
            "chat/responsePart markdown p3",
            "chat/delta p3 \"two\"",
            "chat/delta p2 \" more\"",
            "chat/usage",
            "chat/turnComplete",
        ]
    );
    let turn = &listener.chat.unwrap().turns[0];
    assert_eq!(turn.state, TurnState::Complete);
    assert_eq!(turn.usage.as_ref().unwrap().output_tokens, Some(4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn second_turn_during_a_running_one_is_refused() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    rig.send_message(SESSION, "t2", "too early").await;
    listener.until("chat/turnStarted rejected: a turn is running").await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.unwrap().turns.len(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_turn_starts_are_refused_with_a_reason() {
    let (rig, mut listener) = Rig::with_session().await;
    let mut bad = Vec::new();
    let mut action = started("t", " \n ");
    bad.push((action.clone(), "the message is empty"));
    action.message = message("x", None);
    action.turn_id = String::new();
    bad.push((action.clone(), "the turn ID"));
    action.turn_id = "t".into();
    action.message.origin.kind = MessageKind::Agent;
    bad.push((action.clone(), "a client can only send messages of its user"));
    action.message = message("x", None);
    action.queued_message_id = Some("q".into());
    bad.push((action.clone(), "the message is not in the queue"));
    action.queued_message_id = None;
    let attachment = serde_json::json!({"type": "simple", "label": "x"});
    action.message.attachments = Some(vec![serde_json::from_value(attachment).unwrap()]);
    bad.push((action, "the attachments of the message were not prepared"));
    for (action, reason) in bad {
        rig.engine.dispatch(dispatch(SESSION, StateAction::ChatTurnStarted(action))).await;
        listener.until(&format!("chat/turnStarted rejected: {reason}")).await;
    }
    assert_eq!(rig.starts.open_count(), 0);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unreadable_start_time_does_not_prevent_the_end() {
    let (mut rig, mut listener) = Rig::with_session().await;
    let mut action = started("t1", "hi");
    action.started_at = "yesterday".into();
    rig.engine.dispatch(dispatch(SESSION, StateAction::ChatTurnStarted(action))).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.unwrap().turns[0].state, TurnState::Complete);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn failed_start_reports_the_reason_and_the_next_message_retries() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "hi").await;
    rig.starts.next_start().await.fail(OpenErrorKind::ExitedEarly, "it fell over", "boom on stderr");
    listener.until("chat/error agentExited").await;
    assert_eq!(rig.listed(), Vec::<String>::new());
    assert!(rig.engine.agents().is_empty());
    let chat = listener.chat.as_ref().unwrap();
    let Some(ResponsePart::Error(part)) = chat.turns[0].response_parts.last() else { panic!("an error part") };
    assert_eq!(part.error.message, "it fell over");
    assert_eq!(part.error.meta.as_ref().unwrap()["hostler"]["stderr"], "boom on stderr");
    assert_eq!(listener.session.as_ref().unwrap().lifecycle, SessionLifecycle::Creating);
    assert_eq!(chat.activity, None);

    rig.send_message(SESSION, "t2", "again").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "again");
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(rig.listed(), [SESSION]);
    assert_eq!(listener.added.len(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn cancel_during_the_start_aborts_it_and_announces_nothing() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "hi").await;
    let mut start = rig.starts.next_start().await;
    rig.cancel(SESSION, "t1").await;
    start.wait_abandoned().await;
    listener.until("chat/turnCancelled").await;
    assert_eq!(rig.listed(), Vec::<String>::new());
    rig.send_message(SESSION, "t2", "now").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "now");
    rig.engine.shutdown().await;
    assert_eq!(agent.wait_closed().await, CloseMode::Now);
}

#[tokio::test]
async fn late_output_after_a_cancel_is_dropped_and_the_next_turn_waits() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::PartStarted { part: PartId(1), kind: PartKind::Text }).await;
    agent.emit(DriverEvent::PartDelta { part: PartId(1), text: "partial".into() }).await;
    listener.until("chat/delta").await;
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    rig.send_message(SESSION, "t2", "next").await;
    listener.until("chat/turnStarted").await;
    agent.wait_interrupted().await;
    agent.emit(DriverEvent::PartDelta { part: PartId(1), text: "late".into() }).await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
    assert_eq!(agent.next_prompt().await, "next", "held until the agent settled");
    agent.emit_answer(2, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let chat = listener.chat.as_ref().unwrap();
    assert_eq!(chat.turns[0].state, TurnState::Cancelled);
    let ResponsePart::Markdown(part) = &chat.turns[0].response_parts[0] else { panic!("no partial text") };
    assert_eq!(part.content, "partial");
    assert_eq!(chat.turns[1].response_parts.len(), 1);
    assert_eq!(rig.starts.open_count(), 1, "the process survives an interrupt");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_that_ignores_an_interrupt_is_replaced() {
    let options = Options { interrupt_grace: SHORT_INTERRUPT_GRACE, ..Options::default() };
    let mut rig = Rig::start_with(options).await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    rig.send_message(SESSION, "t1", "hi").await;
    let mut stubborn = rig.starts.next_start().await.succeed();
    stubborn.next_prompt().await;
    stubborn.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    stubborn.emit(DriverEvent::PartStarted { part: PartId(1), kind: PartKind::Text }).await;
    listener.until("chat/responsePart").await;
    rig.cancel(SESSION, "t1").await;
    rig.send_message(SESSION, "t2", "next").await;
    assert_eq!(stubborn.wait_closed().await, CloseMode::Now);
    let start = rig.starts.next_start().await;
    assert!(matches!(&start.spec.conversation, ConversationStart::Resume { token, .. } if token.0 == "tok"));
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "next");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn extreme_client_timestamps_do_not_prevent_the_end() {
    let (mut rig, mut listener) = Rig::with_session().await;
    let mut action = started("t1", "hi");
    action.started_at = "9999-12-31T23:59:59Z".to_owned();
    rig.engine.dispatch(dispatch(SESSION, StateAction::ChatTurnStarted(action))).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    let action = ChatTurnCancelledAction { turn_id: "t1".to_owned(), duration: i64::MAX, meta: None };
    rig.engine.dispatch(dispatch(SESSION, StateAction::ChatTurnCancelled(action))).await;
    listener.until("chat/turnCancelled").await;
    let chat = listener.chat.as_ref().unwrap();
    assert!(chat.active_turn.is_none());
    assert_eq!(chat.turns.last().unwrap().state, TurnState::Cancelled);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn cancel_of_a_turn_that_is_not_running_is_refused() {
    let (rig, mut listener) = Rig::with_session().await;
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled rejected: no turn is running").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_crash_fails_the_turn_and_the_next_message_resumes() {
    let (mut rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    agent.exit("signal 9", "last stderr line").await;
    listener.until("chat/error agentExited").await;
    rig.send_message(SESSION, "t2", "go on").await;
    let start = rig.starts.next_start().await;
    assert!(matches!(start.spec.conversation, ConversationStart::Resume { .. }));
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, "go on");
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.added.len(), 1, "the session is announced once");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn refused_credential_fails_the_turn_at_once() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    let retry = |category, status| DriverEvent::Retrying {
        attempt: 1,
        max_attempts: 10,
        delay: std::time::Duration::from_secs(1),
        status: Some(status),
        category,
    };
    agent.emit(retry(ApiErrorCategory::Overloaded, 529)).await;
    listener.until("chat/activityChanged").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity.as_deref(), Some("Starting Fake"));
    listener.until("chat/activityChanged").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    listener.until("chat/activityChanged").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity.as_deref(), Some("Retrying 1 of 10 in 1 s"));
    agent.emit(retry(ApiErrorCategory::Auth, 401)).await;
    listener.until("chat/error auth").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    agent.wait_interrupted().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn refused_tool_is_displayed_as_a_refused_call() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    let id = || "toolu_1".to_owned();
    let input = serde_json::value::RawValue::from_string(r#"{"command":"ls"}"#.into()).unwrap();
    agent.emit(DriverEvent::ToolStarted { id: id(), name: "Bash".into(), display: ToolDisplay::default() }).await;
    agent.emit(DriverEvent::ToolInputDelta { id: id(), json: r#"{"command":"#.into() }).await;
    agent.emit(DriverEvent::ToolReady { id: id(), input: input.into(), display: ToolDisplay::default() }).await;
    agent
        .emit(DriverEvent::ToolFinished {
            id: id(),
            outcome: ToolOutcome::Denied,
            output: "no tools".into(),
            edit: None,
        })
        .await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let chat = serde_json::to_value(listener.chat.unwrap()).unwrap();
    let call = &chat["turns"][0]["responseParts"][0]["toolCall"];
    assert_eq!(call["status"], "cancelled", "{call:#}");
    assert_eq!(call["reason"], "denied");
    assert_eq!(call["reasonMessage"], "no tools");
    assert_eq!(call["toolInput"], r#"{"command":"ls"}"#);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn empty_answer_is_displayed_as_such() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: true })).await;
    listener.until("chat/responsePart systemNotification").await;
    listener.until("chat/turnComplete").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn agent_initiated_work_is_a_separate_turn() {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    agent.emit(DriverEvent::TurnStarted(TurnCause::Agent("A task is done.".to_owned()))).await;
    agent.emit(DriverEvent::PartStarted { part: PartId(2), kind: PartKind::Text }).await;
    listener.until("chat/responsePart markdown").await;
    rig.send_message(SESSION, "t2", "next").await;
    listener.until("chat/turnStarted rejected: a turn is running").await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    listener.until("chat/turnComplete").await;
    rig.send_message(SESSION, "t2", "next").await;
    assert_eq!(agent.next_prompt().await, "next");
    agent.emit_answer(3, "c", "d").await;
    listener.until("chat/turnComplete").await;
    let turns = listener.chat.unwrap().turns;
    let texts: Vec<_> = turns.iter().map(|turn| turn.message.text.as_str()).collect();
    assert_eq!(texts, ["hi", "A task is done.", "next"]);
    assert_eq!(turns[1].message.origin.kind, MessageKind::SystemNotification);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn model_change_reopens_the_agent_with_the_same_conversation() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "hi").await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.model, "fake-model");
    let mut first = start.succeed();
    first.next_prompt().await;
    first.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    first.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let mut action = started("t2", "other");
    action.message = message("other", Some("other-model"));
    rig.engine.dispatch(dispatch(SESSION, StateAction::ChatTurnStarted(action))).await;
    assert_eq!(first.wait_closed().await, CloseMode::Graceful);
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.model, "other-model");
    assert!(matches!(start.spec.conversation, ConversationStart::Resume { .. }));
    assert_eq!(start.succeed().next_prompt().await, "other");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn disposing_a_session_closes_its_agent_and_removes_it() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::PartStarted { part: PartId(1), kind: PartKind::Text }).await;
    listener.until("chat/responsePart").await;
    rig.engine.dispose_session(SESSION).await.unwrap();
    assert!(agent.is_closed());
    listener.until("chat/turnCancelled").await;
    listener.until("removed").await;
    assert_eq!(rig.listed(), Vec::<String>::new());
    assert!(matches!(rig.engine.dispose_session(SESSION).await, Err(EngineError::SessionNotFound(_))));
    // The URI is free again.
    rig.create(SESSION);
    let rig = rig.restart().await;
    assert_eq!(rig.listed(), Vec::<String>::new());
}

#[tokio::test]
async fn provisional_session_can_be_disposed_of() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.engine.dispose_session(SESSION).await.unwrap();
    assert_eq!(rig.starts.open_count(), 0);
    rig.create("claude:/other");
    rig.send_message("claude:/other", "t", "hi").await;
    let _agent = rig.starts.next_start().await.succeed();
    listener.until("added").await;
    assert_eq!(listener.events, ["added"], "the removal of a provisional session is not announced");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn used_uri_is_refused_and_the_first_session_is_unchanged() {
    let (mut rig, mut listener) = Rig::with_session().await;
    rig.send_message(SESSION, "t1", "hi").await;
    let start = rig.starts.next_start().await;
    let request = CreateSession { uri: SESSION.into(), ..CreateSession::default() };
    assert!(matches!(rig.engine.create_session(request), Err(EngineError::SessionExists(_))));
    assert!(!start.is_abandoned());
    let mut agent = start.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_session_requests_are_refused_with_a_reason() {
    let rig = Rig::start().await;
    let request = |uri: &str| CreateSession { uri: uri.into(), ..CreateSession::default() };
    let refused = |request: CreateSession| rig.engine.create_session(request).unwrap_err().to_string();
    assert!(refused(request("nonsense")).contains("is not a session URI"));
    assert!(refused(request("codex:/1")).contains("does not offer"));
    let mut gone = request("claude:/1");
    gone.working_directories = vec!["file:///does/not/exist".into()];
    assert!(refused(gone.clone()).contains("does not exist"));
    gone.working_directories = vec!["https://example.org/".into()];
    assert!(refused(gone.clone()).contains("not a file URI"));
    let mut bypass = request("claude:/1");
    bypass.config = serde_json::json!({"permissionMode": "bypassPermissions"}).as_object().cloned();
    assert!(refused(bypass).contains("permissionMode cannot be"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn shutdown_ends_all_sessions_and_is_idempotent() {
    let mut rig = Rig::start().await;
    for uri in ["claude:/idle", "claude:/starting", "claude:/running"] {
        rig.create(uri);
    }
    let mut listener = rig.listen("claude:/running").await;
    rig.send_message("claude:/running", "t1", "hi").await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    rig.send_message("claude:/starting", "t2", "hi").await;
    let mut starting = rig.starts.next_start().await;
    tokio::join!(rig.engine.shutdown(), rig.engine.shutdown());
    assert_eq!(agent.wait_closed().await, CloseMode::Now);
    starting.wait_abandoned().await;
    listener.until("chat/turnCancelled").await;
    assert!(rig.engine.create_session(CreateSession { uri: "claude:/new".into(), ..Default::default() }).is_err());
    let rig = rig.restart().await;
    assert_eq!(rig.listed(), ["claude:/running"], "an announced session still exists; one that never started does not");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn restart_restores_acknowledged_state_and_ends_interrupted_turns() {
    let (mut rig, mut listener, mut agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
    agent.emit_answer(1, "hel", "lo").await;
    listener.until("chat/turnComplete").await;
    rig.send_message(SESSION, "t2", "more").await;
    agent.next_prompt().await;
    agent.emit(DriverEvent::PartStarted { part: PartId(2), kind: PartKind::Text }).await;
    agent.emit(DriverEvent::PartDelta { part: PartId(2), text: "partial".into() }).await;
    listener.until("chat/delta").await;

    // The streamed part is committed within the window; a durable write of another session forces the commit.
    rig.create("claude:/other");
    rig.send_message("claude:/other", "x", "y").await;
    rig.starts.next_start().await.fail(OpenErrorKind::Other, "no", "");
    let mut other = rig.listen("claude:/other").await;
    if other.chat.as_ref().unwrap().turns.is_empty() {
        other.until("chat/error").await;
    }
    let mut rig = rig.crash().await;
    let listener = rig.listen(SESSION).await;
    let chat = listener.chat.unwrap();
    assert_eq!(chat.turns.len(), 2);
    assert!(chat.active_turn.is_none());
    assert_eq!(chat.turns[1].state, TurnState::Error);
    let ResponsePart::Markdown(part) = &chat.turns[1].response_parts[0] else { panic!("the partial text") };
    assert_eq!(part.content, "partial");
    let Some(ResponsePart::Error(error)) = chat.turns[1].response_parts.last() else { panic!("an error") };
    assert_eq!(error.error.error_type, "interrupted");
    assert!(rig.listed().contains(&SESSION.to_owned()));
    rig.send_message(SESSION, "t3", "go on").await;
    let start = rig.starts.next_start().await;
    assert!(matches!(&start.spec.conversation, ConversationStart::Resume { token, .. } if token.0 == "tok"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_list_is_paged_newest_first() {
    let mut rig = Rig::start().await;
    for n in 0..5 {
        let uri = format!("claude:/{n}");
        rig.create(&uri);
        let mut listener = rig.listen(&uri).await;
        let mut action = started("t", "hi");
        action.started_at = format!("2026-11-15T08:00:0{n}.000Z");
        rig.engine.dispatch(dispatch(&uri, StateAction::ChatTurnStarted(action))).await;
        let _agent = rig.starts.next_start().await.succeed();
        listener.until("added").await;
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = rig.engine.list_sessions(Some(2), cursor.as_deref()).unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.summaries().into_iter().map(|item| item.resource));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["claude:/4", "claude:/3", "claude:/2", "claude:/1", "claude:/0"]);
    assert!(rig.engine.list_sessions(None, Some("garbage")).is_err());
    rig.engine.shutdown().await;
}

/// Changes the store's file with SQL.
fn execute_sql(rig: &Rig, sql: &str) {
    rusqlite::Connection::open(rig.state.join("hostler.db")).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn unloadable_session_reports_an_error_and_can_be_deleted() {
    let mut rig = Rig::start().await;
    rig.run_first_turn().await;
    rig.engine.shutdown().await;
    execute_sql(&rig, "UPDATE snapshots SET body = '{'");
    let rig = rig.restart().await;
    let listener = common::Listener::new(SESSION);
    for _ in 0..2 {
        let refused = rig.engine.subscribe(SESSION, &listener.subscriber, 1).await.unwrap_err();
        assert!(matches!(refused, EngineError::SessionNotFound(_)), "{refused:?}");
        assert_eq!(rig.listed(), [SESSION], "it is still there");
    }
    rig.engine.dispose_session(SESSION).await.unwrap();
    assert_eq!(rig.listed(), [""; 0]);
    assert!(!rig.engine.has_session(SESSION));
    let rig = rig.restart().await;
    assert_eq!(rig.listed(), [""; 0], "after a restart, too");
    rig.create(SESSION);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn temporarily_unreadable_session_recovers() {
    let mut rig = Rig::start().await;
    rig.run_first_turn().await;
    let rig = rig.restart().await;
    execute_sql(&rig, "ALTER TABLE snapshots RENAME TO away");
    let listener = common::Listener::new(SESSION);
    let refused = rig.engine.subscribe(SESSION, &listener.subscriber, 1).await.unwrap_err();
    assert!(matches!(refused, EngineError::Store(_)), "{refused:?}");
    let refused = rig.engine.dispose_session(SESSION).await.unwrap_err();
    assert!(matches!(refused, EngineError::Store(_)), "{refused:?}");
    execute_sql(&rig, "ALTER TABLE away RENAME TO snapshots");
    assert_eq!(rig.listen(SESSION).await.chat.unwrap().turns.len(), 1);
    rig.engine.dispose_session(SESSION).await.unwrap();
    rig.engine.shutdown().await;
}
