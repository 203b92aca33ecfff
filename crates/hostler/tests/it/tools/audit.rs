//! Audit log, as `hostler sessions export --audit` prints it.

use serde_json::json;

use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

#[tokio::test(flavor = "multi_thread")]
async fn audit_log_is_exported_with_and_without_a_running_host() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        bench.prompt_tool_call("Bash", &json!({ "command": "mkdir made", "description": "for the test" })).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": true, "selectedOptionId": "allow-once" })).await;
        bench.wait_for_turn_end().await;
        let session = bench.uris.session.clone();
        let running = bench.home.export_audit_log(&session).await;
        let [asked, allowed] = &running[..] else { panic!("{build}: {running:#?}") };
        assert_eq!((&asked["decision"], &asked["decidedBy"]), (&json!("ask"), &json!("mode")), "{build}");
        assert_eq!(allowed["decision"], "allow", "{build}");
        assert!(allowed["decidedBy"].as_str().unwrap().starts_with("peer-"), "{build}: the client's id: {allowed}");
        for entry in &running {
            assert_eq!((&entry["tool"], &entry["toolCallId"]), (&json!("Bash"), &waiting["toolCallId"]), "{build}");
            assert!(entry["input"].as_str().unwrap().contains("mkdir made"), "{build}: {entry}");
            assert!(entry["atMs"].as_u64().unwrap() > 0, "{build}: {entry}");
        }
        let SessionFixture { home, host, .. } = bench;
        host.stop().await;
        assert_eq!(home.export_audit_log(&session).await, running, "{build}: it outlives the host");
    }
}
