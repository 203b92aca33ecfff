//! Runs the driver conformance tests with the fake agent; `hostler`'s tests run them with the real one.

use std::sync::Arc;

use crate::fixture::Bed;
use base64::Engine as _;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hostler_driver::{ConversationStart, GateDecision, GatedCall, PermissionGate};
use hostler_testkit::conformance::{self, DriverUnderTest};
use uuid::Uuid;

struct OpenGate;

impl PermissionGate for OpenGate {
    fn decide(self: Arc<Self>, _: GatedCall) -> BoxFuture<'static, GateDecision> {
        ready(GateDecision::Allow).boxed()
    }
}

#[tokio::test]
async fn driver_conforms_with_the_fake_agent() {
    let bed = Arc::new(Bed::new());
    let go = bed.path("go");
    let mine = Arc::clone(&bed);
    let held = go.clone();
    let subject = DriverUnderTest {
        driver: Arc::new(bed.driver()),
        open_spec: Box::new(move || {
            let mut spec = mine.spec(ConversationStart::New(Uuid::new_v4()));
            spec.permission_gate = Arc::new(OpenGate);
            spec
        }),
        answered_prompt: "hello".to_owned(),
        tool_call_prompt: format!("hold {} tools 1", go.display()),
        text_only_prompt: format!("hold {} deltas 2", go.display()),
        hanging_prompt: "hang".to_owned(),
        hold_turns: Box::new(move || drop(std::fs::remove_file(&held))),
        release_turn: Box::new(move || std::fs::write(&go, "").unwrap()),
    };
    conformance::check_all(&subject).await;
    // The fake agent writes its input into its transcript.
    let given = |image: &[u8]| {
        let transcripts = std::fs::read_dir(bed.path("config/projects")).into_iter().flatten();
        let files = transcripts.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
        let encoded = base64::engine::general_purpose::STANDARD.encode(image);
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().matches(&encoded).count()).sum()
    };
    conformance::check_prompt_arrives_complete(&subject, &given).await;
}
