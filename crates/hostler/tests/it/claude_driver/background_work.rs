//! Background work, and the turns that follow from it.

use hostler_driver::{BackgroundTaskKind, ConnectionError, DriverEvent, TurnCause};
use serde_json::json;

use crate::claude_driver::driver_fixture::{DriverFixture, markdown_text, wait_for};
use crate::common::BUILDS;

fn background(file: &str, description: &str) -> String {
    let call = json!({ "command": wait_for(file, 0), "description": description, "run_in_background": true });
    format!("!tool Bash {call}\n!say started")
}

fn began(events: &[DriverEvent]) -> &TurnCause {
    let mut causes = events.iter().filter_map(|event| match event {
        DriverEvent::TurnStarted(cause) => Some(cause),
        _ => None,
    });
    causes.next().expect("a turn began")
}

fn is_over(event: &DriverEvent) -> bool {
    matches!(event, DriverEvent::BackgroundTaskEnded { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn background_end_starts_an_agent_turn_and_does_not_end_a_prompts_turn() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        bed.send(&background("end", "the job")).await;
        let events = bed.wait_for_turn_end().await;
        let changed = |event: &DriverEvent| match event {
            DriverEvent::BackgroundTaskChanged(task) => Some(task.clone()),
            _ => None,
        };
        let tasks: Vec<_> = events.iter().filter_map(changed).collect();
        assert_eq!(tasks.len(), 1, "{build}: {events:#?}");
        assert_eq!((tasks[0].kind, tasks[0].description.as_str()), (BackgroundTaskKind::Shell, "the job"), "{build}");
        let call = events.iter().find_map(|event| match event {
            DriverEvent::ToolStarted { id, .. } => Some(id.clone()),
            _ => None,
        });
        assert_eq!(tasks[0].call_id, call, "{build}");

        std::fs::write(bed.file("end"), "").unwrap();
        let before = bed.wait_for("end of the job", is_over).await;
        assert_eq!(before.len(), 1, "{build}: nothing happens until then: {before:#?}");
        // Exactly when the agent starts its own turn about the work.
        bed.send("!say the answer").await;
        let (one, two) = (bed.wait_for_turn_end().await, bed.wait_for_turn_end().await);
        let (own, asked) = if *began(&one) == TurnCause::Prompt { (two, one) } else { (one, two) };
        let reason = "Background command \"the job\" completed (exit code 0)".to_owned();
        assert_eq!((began(&own), began(&asked)), (&TurnCause::Agent(reason), &TurnCause::Prompt), "{build}");
        assert_eq!(markdown_text(&asked), "the answer", "{build}");
        assert!(!markdown_text(&own).contains("the answer"), "{build}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_during_an_agent_initiated_turn_gets_its_own_turn() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        // The agent repeats the job's description to the model as its script: its own turn calls a tool.
        let own = json!({ "command": wait_for("own", 0), "description": "own call" });
        bed.send(&background("end", &format!("job\n!tool Bash {own}\n!say of my own"))).await;
        bed.wait_for_turn_end().await;
        std::fs::write(bed.file("end"), "").unwrap();
        bed.wait_for_gate().await;
        bed.send("!say the answer").await;
        std::fs::write(bed.file("own"), "").unwrap();
        let own = bed.wait_for_turn_end().await;
        let asked = bed.wait_for_turn_end().await;
        assert_eq!(*began(&asked), TurnCause::Prompt, "{build}");
        assert_eq!(
            (&*markdown_text(&asked), markdown_text(&own).contains("the answer")),
            ("the answer", false),
            "{build}"
        );
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_background_command_starts_no_turn() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        bed.send(&background("never", "the job")).await;
        bed.wait_for_turn_end().await;
        let task = bed.received.iter().find_map(|event| match event {
            DriverEvent::BackgroundTaskChanged(task) => Some(task.id.clone()),
            _ => None,
        });
        let task = task.unwrap();
        let other = bed.opened.connection.stop_task("nothing").await;
        assert!(matches!(other, Err(ConnectionError::RequestNotOpen)), "{build}: {other:?}");
        bed.opened.connection.stop_task(&task).await.unwrap();
        bed.wait_for("end of the job", is_over).await;
        bed.send("!say the answer").await;
        let events = bed.wait_for_turn_end().await;
        assert_eq!((began(&events), &*markdown_text(&events)), (&TurnCause::Prompt, "the answer"), "{build}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn background_sub_agent_is_reported() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        let call = json!({ "command": wait_for("go", 0), "description": "waits" });
        let agent = json!({ "description": "a helper", "prompt": format!("!tool Bash {call}\n!say sub done"),
            "subagent_type": "general-purpose", "run_in_background": true });
        bed.send(&format!("!tool Agent {agent}\n!say main done")).await;
        let changed = |event: &DriverEvent| matches!(event, DriverEvent::BackgroundTaskChanged(_));
        let events = bed.wait_for("background work", changed).await;
        let Some(DriverEvent::BackgroundTaskChanged(task)) = events.last() else { panic!("{events:?}") };
        assert_eq!((task.kind, task.description.as_str()), (BackgroundTaskKind::SubAgent, "a helper"), "{build}");
        std::fs::write(bed.file("go"), "").unwrap();
        bed.wait_for("its end", is_over).await;
        bed.close().await;
    }
}
