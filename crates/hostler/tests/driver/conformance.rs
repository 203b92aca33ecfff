//! What every driver owes the engine, with the real agent.

use std::sync::Arc;

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
        let call = json!({ "command": wait_for("go", 0), "description": "waits" });
        let subject = Subject {
            driver: Arc::new(place.driver()),
            spec: Box::new(move || mine.spec(Gate::Allow)),
            answered: "!say hello".to_owned(),
            calls: format!("!tool Bash {call}\n!say done"),
            talks: "!wait 500\n!say nothing to do".to_owned(),
            hangs: "!pace 20\n!deltas 5000".to_owned(),
            release: Box::new(move || std::fs::write(&go, "").unwrap()),
        };
        conformance::all(&subject).await;
    }
}
