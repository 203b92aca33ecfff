//! `hostler rules` beside a host whose agent has a pending call.

use serde_json::json;

use crate::common::session_fixture::SessionFixture;
use crate::common::{BUILDS, run_to_end, text};

async fn add(bench: &SessionFixture, effect: &str, rule: &str) {
    let work = bench.home.work();
    let output =
        run_to_end(bench.home.hostler_command(&["rules", "add", effect, rule, "--workspace", work.to_str().unwrap()]))
            .await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn added_rule_decides_the_pending_call() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let made = bench.home.work().join("made");
        bench.prompt_tool_call("Bash", &json!({ "command": "mkdir made", "description": "for the test" })).await;
        bench.wait_for_approval_request().await;
        add(&bench, "allow", "Bash(mkdir made)").await;
        bench.wait_for_turn_end().await;
        assert!(made.is_dir(), "{build}");
        let call = bench.last_tool_call("Bash").await;
        assert_eq!(
            (&call["status"], &call["confirmed"]),
            (&json!("completed"), &json!("setting")),
            "{build}: {call:#}"
        );

        bench.prompt_tool_call("Bash", &json!({ "command": "rmdir made", "description": "for the test" })).await;
        bench.wait_for_approval_request().await;
        add(&bench, "deny", "Bash(rmdir:*)").await;
        bench.wait_for_turn_end().await;
        assert!(made.is_dir(), "{build}");
        assert_eq!(bench.last_tool_call("Bash").await["status"], "cancelled", "{build}");
        assert!(
            bench.last_tool_result().contains("Bash(rmdir:*)"),
            "{build}: the model knows why: {}",
            bench.last_tool_result()
        );
        bench.stop().await;
    }
}
