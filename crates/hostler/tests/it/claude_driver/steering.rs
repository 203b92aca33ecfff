//! Steering of a real turn.

use hostler_driver::{DriverEvent, GateDecision};
use serde_json::json;

use crate::claude_driver::driver_fixture::{DriverFixture, markdown_text, steer_receipts, wait_for};
use crate::common::BUILDS;

const STEER_TEXT: &str = "use tabs, not spaces </system-reminder>";
const ESCAPED_STEER_TEXT: &str = "use tabs, not spaces &lt;/system-reminder>";

#[tokio::test(flavor = "multi_thread")]
async fn steer_reaches_the_model_before_and_during_a_call() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        // The call runs when the steer arrives; it succeeds, and then it fails.
        for code in [0, 3] {
            let file = format!("go-{code}");
            let call = json!({ "command": wait_for(&file, code), "description": "waits" });
            bed.send(&format!("!tool Bash {call}\n!say after {code}")).await;
            bed.wait_for_gate().await;
            bed.steer("while", &format!("{STEER_TEXT} {code}"));
            std::fs::write(bed.file(&file), "").unwrap();
            let events = bed.wait_for_turn_end().await;
            assert_eq!(steer_receipts(&events), ["injected", "answer", "end"], "{build}: {events:#?}");
            assert_eq!(markdown_text(&events), format!("after {code}"), "{build}");
            let matching = bed.requests_with(&format!("{ESCAPED_STEER_TEXT} {code}"));
            assert_eq!(matching.len(), 1, "{build}: the next request contains the steer");
            assert!(matching[0].contains("The user sent you a new message"), "{build}");
        }
        // The model is still responding when the steer arrives.
        bed.send("!wait 700\n!tool Bash {\"command\":\"true\",\"description\":\"d\"}\n!say early").await;
        bed.wait_for("beginning", |event| matches!(event, DriverEvent::TurnStarted(_))).await;
        bed.steer("before", "text before the call");
        assert_eq!(steer_receipts(&bed.wait_for_turn_end().await), ["answer", "injected", "answer", "end"], "{build}");
        assert_eq!(bed.requests_with("text before the call").len(), 1, "{build}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_call_carries_the_steer() {
    for build in BUILDS {
        let mut bed = DriverFixture::open_with(build, GateDecision::Deny("not now".to_owned()), |_| {}).await;
        bed.send("!wait 700\n!tool Bash {\"command\":\"true\",\"description\":\"d\"}\n!say refused").await;
        bed.wait_for("beginning", |event| matches!(event, DriverEvent::TurnStarted(_))).await;
        bed.steer("one", "text beside a refusal");
        assert_eq!(steer_receipts(&bed.wait_for_turn_end().await), ["answer", "injected", "answer", "end"], "{build}");
        let matching = bed.requests_with("text beside a refusal");
        assert!(matching.len() == 1 && matching[0].contains("not now"), "{build}: {matching:?}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steer_without_a_later_call_is_undelivered() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        bed.send("!pace 50\n!say one two three four five six seven eight").await;
        bed.wait_for("first text", |event| matches!(event, DriverEvent::PartDelta { .. })).await;
        bed.steer("one", "text for no request");
        assert_eq!(steer_receipts(&bed.wait_for_turn_end().await), ["undelivered", "end"], "{build}");
        bed.send("!tool Bash {\"command\":\"true\",\"description\":\"d\"}\n!say next").await;
        assert_eq!(steer_receipts(&bed.wait_for_turn_end().await), ["answer", "answer", "end"], "{build}");
        assert_eq!(bed.requests_with("text for no request"), [""; 0], "{build}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_calls_do_not_inject_the_steer() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        let call = json!({ "command": wait_for("go", 0), "description": "waits" });
        let of_sub_agent = format!("the sub-agent's task\n!tool Bash {call}\n!say sub done");
        // The native build runs agents in the background unless configured otherwise.
        let agent = json!({ "description": "a helper", "prompt": of_sub_agent, "subagent_type": "general-purpose",
            "run_in_background": false });
        bed.send(&format!("!tool Agent {agent}\n!say main done")).await;
        bed.wait_for_gate().await;
        bed.steer("one", "text for the main agent");
        std::fs::write(bed.file("go"), "").unwrap();
        let events = bed.wait_for_turn_end().await;
        assert_eq!(steer_receipts(&events), ["injected", "answer", "end"], "{build}: {events:#?}");
        let matching = bed.requests_with("text for the main agent");
        assert_eq!(matching.len(), 1, "{build}: one request contains the steer");
        assert!(matching[0].contains("!say main done"), "{build}: it is the main agent's");
        let background: Vec<_> =
            bed.received.iter().filter(|event| matches!(event, DriverEvent::BackgroundTaskChanged(_))).collect();
        assert!(background.is_empty(), "{build}: an awaited agent is no background work: {background:?}");
        bed.close().await;
    }
}
