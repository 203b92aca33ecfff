//! What the real agent reports of a command's output while the command runs.

use serde_json::{Value, json};

use crate::common::session_fixture::SessionFixture;
use crate::common::{BUILDS, TestHome};

/// Neither build reports any. This test notices a build that does, whose output can then be shown live.
#[tokio::test(flavor = "multi_thread")]
async fn command_output_is_not_reported_before_its_end() {
    for build in BUILDS {
        let home = TestHome::new();
        let wire = home.path("home").join("wire.jsonl");
        let mut bench = SessionFixture::with_agent_script(home, build, |agent| {
            format!("{agent} \"$@\" | tee -a '{}'", wire.display())
        })
        .await;
        // The output is not part of the command line, so that an echo of the command does not match.
        let command = "for i in 1 2 3 4 5 6; do printf 'out%s-%s\\n' put $i; sleep 1; done; touch ended";
        bench.prompt_tool_call("Bash", &json!({ "command": command, "description": "for the test" })).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": true })).await;
        bench.wait_for_turn_end().await;
        let recording = std::fs::read_to_string(&wire).unwrap();
        let first =
            recording.lines().find(|line| line.contains("output-1")).expect("the output is reported at the end");
        let first: Value = serde_json::from_str(first).unwrap();
        let hook = first["request"]["input"]["hook_event_name"] == "PostToolUse";
        assert!(first["type"] == "user" || hook, "{build} reports it earlier: {first:#}");
        assert!(first.to_string().contains("output-6"), "{build}: it comes as a whole: {first:#}");
        let text = bench.last_tool_call("Bash").await["content"][0]["text"].clone();
        assert!(text.as_str().unwrap().contains("output-6"), "{build}: {text}");
        bench.stop().await;
    }
}
