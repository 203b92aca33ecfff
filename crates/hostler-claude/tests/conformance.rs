//! The driver keeps what every driver owes the engine: with the fake agent here, with the real one in `hostler`'s tests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod bed;

use std::sync::Arc;

use bed::Bed;
use hostler_driver::{ConversationStart, Gate, GatedCall, Gatekeeper};
use hostler_testkit::conformance::{self, Subject};
use uuid::Uuid;

struct OpenGate;

impl Gatekeeper for OpenGate {
    fn decide(&self, _: &GatedCall<'_>) -> Gate {
        Gate::Allow
    }
}

#[tokio::test]
async fn the_driver_conforms_with_the_fake_agent() {
    let bed = Arc::new(Bed::new());
    let (calls, talks) = (bed.path("call"), bed.path("talk"));
    let mine = Arc::clone(&bed);
    let subject = Subject {
        driver: Arc::new(bed.driver()),
        spec: Box::new(move || {
            let mut spec = mine.spec(ConversationStart::New(Uuid::new_v4()));
            spec.gatekeeper = Arc::new(OpenGate);
            spec
        }),
        answered: "hello".to_owned(),
        calls: format!("hold {} tools 1", calls.display()),
        talks: format!("hold {} deltas 2", talks.display()),
        hangs: "hang".to_owned(),
        release: Box::new(move || {
            // The calling turn comes first.
            let file = if calls.exists() { &talks } else { &calls };
            std::fs::write(file, "").unwrap();
        }),
    };
    conformance::all(&subject).await;
}
