//! `hostler rules` beside a host whose agent waits for a person.

use serde_json::json;

use crate::common::bench::Bench;
use crate::common::{BUILDS, finish, text};

async fn add(bench: &Bench, effect: &str, rule: &str) {
    let work = bench.home.work();
    let output =
        finish(bench.home.hostler(&["rules", "add", effect, rule, "--workspace", work.to_str().unwrap()])).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_is_added_decides_the_call_that_waits() {
    for build in BUILDS {
        let mut bench = Bench::start(build).await;
        let made = bench.home.work().join("made");
        bench.use_tool("Bash", &json!({ "command": "mkdir made", "description": "for the test" })).await;
        bench.waiting().await;
        add(&bench, "allow", "Bash(mkdir made)").await;
        bench.end().await;
        assert!(made.is_dir(), "{build}");
        let call = bench.call("Bash").await;
        assert_eq!(
            (&call["status"], &call["confirmed"]),
            (&json!("completed"), &json!("setting")),
            "{build}: {call:#}"
        );

        bench.use_tool("Bash", &json!({ "command": "rmdir made", "description": "for the test" })).await;
        bench.waiting().await;
        add(&bench, "deny", "Bash(rmdir:*)").await;
        bench.end().await;
        assert!(made.is_dir(), "{build}");
        assert_eq!(bench.call("Bash").await["status"], "cancelled", "{build}");
        assert!(bench.told().contains("Bash(rmdir:*)"), "{build}: the model knows why: {}", bench.told());
        bench.stop().await;
    }
}
