//! The driver keeps what every driver owes the engine: with the fake agent here, with the real one in `hostler`'s tests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod bed;

use std::sync::Arc;

use base64::Engine as _;
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
    let go = bed.path("go");
    let mine = Arc::clone(&bed);
    let held = go.clone();
    let subject = Subject {
        driver: Arc::new(bed.driver()),
        spec: Box::new(move || {
            let mut spec = mine.spec(ConversationStart::New(Uuid::new_v4()));
            spec.gatekeeper = Arc::new(OpenGate);
            spec
        }),
        answered: "hello".to_owned(),
        calls: format!("hold {} tools 1", go.display()),
        talks: format!("hold {} deltas 2", go.display()),
        hangs: "hang".to_owned(),
        hold: Box::new(move || drop(std::fs::remove_file(&held))),
        release: Box::new(move || std::fs::write(&go, "").unwrap()),
    };
    conformance::all(&subject).await;
    // The fake agent writes what it was given into its transcript.
    let given = |picture: &[u8]| {
        let transcripts = std::fs::read_dir(bed.path("config/projects")).into_iter().flatten();
        let files = transcripts.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
        let encoded = base64::engine::general_purpose::STANDARD.encode(picture);
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().matches(&encoded).count()).sum()
    };
    conformance::a_message_arrives_whole(&subject, &given).await;
}
