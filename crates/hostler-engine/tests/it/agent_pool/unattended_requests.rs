//! Pending requests without a connected client.

use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{Answer, DriverEvent, ToolOutcome};
use hostler_engine::{PermissionConfig, UnattendedPolicy, default_chat_uri};
use hostler_testkit::clock::ManualClock;
use serde_json::json;

use super::{IDLE_MAX, ask_permission, begin, finish, max_agents, start_pool, uri};
use crate::common::{Options, Rig, dispatch_json};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn request_is_answered_by_a_client_that_returns_after_an_hour() {
    let (mut rig, clock) = start_pool(max_agents(1), false).await;
    let (mut listener, mut agent) = begin(&mut rig, 1).await;
    ask_permission(&agent).await;
    listener.until("session/inputNeeded").await;
    clock.wait_for_sleeper(IDLE_MAX).await;
    rig.engine.remove_subscriber(listener.subscriber.id());
    drop(listener);
    clock.advance(HOUR);
    let mut listener = rig.listen(&uri(1)).await;
    assert_eq!(listener.session.as_ref().unwrap().input_needed.as_ref().unwrap().len(), 1, "it is part of the state");
    let yes = json!({"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": "call-1", "approved": true,
        "confirmed": "user-action"});
    rig.engine.dispatch(dispatch_json(&default_chat_uri(&uri(1)), 0, yes, None)).await;
    assert!(matches!(agent.next_answer().await, (_, Answer::Allow { .. })));
    let outcome = ToolOutcome::Succeeded;
    agent.emit(DriverEvent::ToolFinished { id: "call-1".into(), outcome, output: "made".into(), edit: None }).await;
    finish(1, &mut listener, &agent).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn request_is_denied_with_a_reason_after_the_unattended_timeout() {
    let clock = ManualClock::new();
    let options = Options { clock: Arc::new(clock.clone()), ..Options::default() };
    let permissions = PermissionConfig { unattended: UnattendedPolicy::DenyAfter(HOUR), ..PermissionConfig::default() };
    let mut rig = Rig::start_as(options, permissions).await;
    let (mut listener, mut agent) = begin(&mut rig, 1).await;
    ask_permission(&agent).await;
    listener.until("session/inputNeeded").await;
    clock.wait_for_sleeper(HOUR).await;
    clock.advance(HOUR - Duration::from_secs(1));
    assert!(agent.answers.try_recv().is_err(), "there is a second left");
    clock.advance(Duration::from_secs(1));
    let (_, Answer::Deny { message }) = agent.next_answer().await else { panic!("not denied") };
    assert!(message.starts_with("Denied: no answer in time"), "{message}");
    listener.until("session/inputNeededRemoved").await;
    finish(1, &mut listener, &agent).await;
    rig.engine.shutdown().await;
}
