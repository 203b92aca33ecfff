//! Status that a turn reports beside its answer.

use hostler_driver::{DriverEvent, TokenUsage, TurnOutcome};
use serde_json::{Value, json};

use crate::common::{Listener, Rig};
use crate::turn_runtime::helpers::emit_partial_answer;

fn turn(listener: &Listener, at: usize) -> Value {
    serde_json::to_value(&listener.chat.as_ref().unwrap().turns[at]).unwrap()
}

#[tokio::test]
async fn compaction_is_displayed_during_and_after_it() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    agent.emit(DriverEvent::CompactionStarted).await;
    while listener.chat.as_ref().unwrap().activity.as_deref() != Some("Compacting the conversation") {
        listener.until("chat/activityChanged").await;
    }
    agent.emit(DriverEvent::CompactionFinished { tokens_before: Some(150_000), tokens_after: Some(9_000) }).await;
    agent.emit(DriverEvent::CompactionFailed("the model did not answer".to_owned())).await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    let parts = turn(&listener, 0)["responseParts"].clone();
    assert_eq!(parts[0]["content"], "The conversation was compacted from 150000 to 9000 tokens.");
    assert_eq!(parts[1]["content"], "The conversation could not be compacted: the model did not answer");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn turn_reports_context_usage_and_cost() {
    let (rig, mut listener, agent) = Rig::with_running_turn().await;
    emit_partial_answer(&agent, 1, "hello").await;
    let usage = TokenUsage {
        input: 10,
        output: 2,
        cache_write: 5,
        context_window: Some(200_000),
        context_tokens: Some(17),
        cost_usd: Some(0.25),
        ..TokenUsage::default()
    };
    agent.emit(DriverEvent::Usage(usage)).await;
    agent.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await;
    listener.until("chat/turnComplete").await;
    let usage = turn(&listener, 0)["usage"]["_meta"]["hostler"].clone();
    let expected = json!({"cacheWriteTokens": 5, "contextWindow": 200_000, "contextTokens": 17, "costUsd": 0.25});
    assert_eq!(usage, expected);
    rig.engine.shutdown().await;
}
