//! Conformance checks on the Claude driver, with the real agent.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_driver::GateDecision;
use hostler_testkit::conformance::{self, DriverUnderTest};
use serde_json::json;

use crate::claude_driver::driver_fixture::{DriverEnvironment, wait_for};
use crate::common::BUILDS;

#[tokio::test(flavor = "multi_thread")]
async fn driver_conforms_with_the_real_agent() {
    for build in BUILDS {
        let place = Arc::new(DriverEnvironment::new(build).await);
        let (mine, go) = (Arc::clone(&place), place.home.work().join("go"));
        let held = go.clone();
        let call = json!({ "command": wait_for("go", 0), "description": "waits" });
        let subject = DriverUnderTest {
            driver: Arc::new(place.driver()),
            open_spec: Box::new(move || mine.spec(GateDecision::Allow)),
            answered_prompt: "!say hello".to_owned(),
            tool_call_prompt: format!("!tool Bash {call}\n!say done"),
            text_only_prompt: "!wait 500\n!say nothing to do".to_owned(),
            hanging_prompt: "!pace 20\n!deltas 5000".to_owned(),
            hold_turns: Box::new(move || drop(std::fs::remove_file(&held))),
            release_turn: Box::new(move || std::fs::write(&go, "").unwrap()),
        };
        conformance::check_all(&subject).await;
        let given = |image: &[u8]| {
            let requests = place.model.requests();
            let conversation = requests.last().unwrap().body["messages"].to_string();
            conversation.matches(&STANDARD.encode(image)).count()
        };
        conformance::check_prompt_arrives_complete(&subject, &given).await;
    }
}
