//! Settings that change under a running agent: model, effort, thinking budget; and compaction.

use hostler_driver::{AgentSettingChange, ConnectionError, DriverEvent, GateDecision, TurnCause, TurnOutcome};
use serde_json::Value;

use crate::claude_driver::driver_fixture::{DriverFixture, markdown_text};
use crate::common::BUILDS;

/// Returns the latest request to the model.
fn latest(bed: &DriverFixture) -> Value {
    bed.environment.model.requests().last().unwrap().body.clone()
}

async fn run_turn(bed: &mut DriverFixture, text: &str) -> Vec<DriverEvent> {
    bed.send(&format!("!say {text}")).await;
    let events = bed.wait_for_turn_end().await;
    assert!(matches!(events[0], DriverEvent::TurnStarted(TurnCause::Prompt)), "{}: {events:#?}", bed.build);
    assert!(!events.iter().any(|event| matches!(event, DriverEvent::Notice(_))), "{}: {events:#?}", bed.build);
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn next_request_uses_changed_settings() {
    for build in BUILDS {
        let mut bed = DriverFixture::open_with(build, GateDecision::Allow, |spec| {
            spec.model = "claude-opus-4-6".to_owned();
            spec.effort = Some("low".to_owned());
            spec.additional_directories = vec![std::env::temp_dir()];
        })
        .await;
        run_turn(&mut bed, "one").await;
        assert_eq!(latest(&bed)["output_config"]["effort"], "low", "{build}");
        bed.opened.connection.apply_setting(AgentSettingChange::Effort(Some("medium".to_owned()))).await.unwrap();
        run_turn(&mut bed, "two").await;
        assert_eq!(latest(&bed)["output_config"]["effort"], "medium", "{build}");
        let none = bed.opened.connection.apply_setting(AgentSettingChange::Effort(None)).await;
        assert!(matches!(none, Err(ConnectionError::Refused(_))), "{build}: {none:?}");

        bed.opened.connection.apply_setting(AgentSettingChange::Model("claude-sonnet-4-5".to_owned())).await.unwrap();
        bed.opened.connection.apply_setting(AgentSettingChange::ThinkingBudget(Some(4000))).await.unwrap();
        let events = run_turn(&mut bed, "three").await;
        assert_eq!(latest(&bed)["model"], "claude-sonnet-4-5", "{build}");
        assert_eq!(latest(&bed)["thinking"]["budget_tokens"], 4000, "{build}");
        let usage = events.iter().rev().find_map(|event| match event {
            DriverEvent::Usage(usage) => Some(usage.clone()),
            _ => None,
        });
        let usage = usage.unwrap();
        assert_eq!(usage.model.as_deref(), Some("claude-sonnet-4-5"), "{build}");
        assert!(usage.context_tokens.is_some_and(|tokens| tokens > 0), "{build}: {usage:?}");
        assert!(usage.cost_usd.is_some_and(|dollars| dollars > 0.0 && dollars < 1.0), "{build}: {usage:?}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_budget_applies_from_the_start() {
    for build in BUILDS {
        let mut bed =
            DriverFixture::open_with(build, GateDecision::Allow, |spec| spec.thinking_budget = Some(2000)).await;
        run_turn(&mut bed, "one").await;
        assert_eq!(latest(&bed)["thinking"]["budget_tokens"], 2000, "{build}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_is_reported_once_and_its_summary_is_not_a_response() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        run_turn(&mut bed, "one").await;
        bed.send("/compact").await;
        let events = bed.wait_for_turn_end().await;
        let compaction: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                DriverEvent::TurnStarted(TurnCause::Prompt) => Some("began"),
                DriverEvent::CompactionStarted => Some("started"),
                DriverEvent::CompactionFinished { tokens_before: Some(_), tokens_after: Some(_) } => Some("finished"),
                DriverEvent::Usage(_) | DriverEvent::ResumeToken(_) | DriverEvent::PermissionModeChanged(_) => None,
                DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false }) => Some("ended"),
                other => panic!("{build}: {other:?}"),
            })
            .collect();
        assert_eq!(compaction, ["began", "started", "finished", "ended"], "{build}");
        assert_eq!(markdown_text(&run_turn(&mut bed, "two").await), "two", "{build}");
        bed.close().await;
    }
}
