//! What every driver owes the engine, with the real agent.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_driver::Gate;
use hostler_testkit::conformance::{self, Subject};
use serde_json::json;

use crate::bed::{Place, wait_for};
use crate::common::BUILDS;

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_conforms_with_the_real_agent() {
    for build in BUILDS {
        let place = Arc::new(Place::new(build).await);
        let (mine, go) = (Arc::clone(&place), place.home.work().join("go"));
        let held = go.clone();
        let call = json!({ "command": wait_for("go", 0), "description": "waits" });
        let subject = Subject {
            driver: Arc::new(place.driver()),
            spec: Box::new(move || mine.spec(Gate::Allow)),
            answered: "!say hello".to_owned(),
            calls: format!("!tool Bash {call}\n!say done"),
            talks: "!wait 500\n!say nothing to do".to_owned(),
            hangs: "!pace 20\n!deltas 5000".to_owned(),
            hold: Box::new(move || drop(std::fs::remove_file(&held))),
            release: Box::new(move || std::fs::write(&go, "").unwrap()),
        };
        conformance::all(&subject).await;
        let given = |picture: &[u8]| {
            let requests = place.model.requests();
            let conversation = requests.last().unwrap().body["messages"].to_string();
            conversation.matches(&STANDARD.encode(picture)).count()
        };
        conformance::a_message_arrives_whole(&subject, &given).await;
    }
}
