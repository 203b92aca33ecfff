//! Tool calls as clients see them.

use hostler_driver::{DriverEvent, FileEdit, GateDecision, ToolOutcome};
use hostler_engine::EngineError;
use serde_json::json;

use crate::common::SESSION;
use crate::pending_requests::helpers::{Bench, bash, finished};

#[tokio::test]
async fn call_is_running_only_after_the_gate_allows_it() {
    let mut bench = Bench::start().await;
    bench.call("c1", "Bash", &bash("ls")).await;
    bench.listener.until("chat/toolCallDelta").await;
    let call = bench.shown("c1");
    assert_eq!((&call["status"], &call["displayName"]), (&json!("streaming"), &json!("The Bash")), "{call:#}");
    assert_eq!(call["_meta"], json!({ "toolKind": "terminal", "language": "shellscript" }));
    bench.agent.emit(DriverEvent::ToolDecided { id: "c1".into(), decision: GateDecision::Ask }).await;
    bench.agent.emit(DriverEvent::ToolDecided { id: "c1".into(), decision: GateDecision::Allow }).await;
    bench.listener.until("chat/toolCallReady").await;
    let call = bench.shown("c1");
    assert_eq!((&call["status"], &call["confirmed"]), (&json!("running"), &json!("not-needed")), "{call:#}");
    assert_eq!(call["invocationMessage"]["markdown"], "Using Bash now");
    bench.agent.emit(finished("c1", ToolOutcome::Succeeded, "a.txt")).await;
    bench.end().await;
    let call = bench.shown("c1");
    assert_eq!((&call["success"], &call["pastTenseMessage"]["markdown"]), (&json!(true), &json!("Used Bash then")));
    assert_eq!(bench.listener.events.iter().filter(|event| event.starts_with("chat/toolCallReady")).count(), 1);
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn parallel_calls_end_independently() {
    let mut bench = Bench::start().await;
    for id in ["ok", "bad", "refused", "open"] {
        bench.call(id, "Bash", &bash(id)).await;
    }
    bench.agent.emit(finished("refused", ToolOutcome::Denied, "no rule for it")).await;
    bench.agent.emit(finished("bad", ToolOutcome::Failed, "exit code 1")).await;
    bench.agent.emit(finished("ok", ToolOutcome::Succeeded, "")).await;
    bench.agent.emit(finished("ok", ToolOutcome::Failed, "again")).await;
    bench.end().await;
    let status = |id: &str| bench.shown(id)["status"].as_str().unwrap().to_owned();
    assert_eq!(["ok", "bad", "refused", "open"].map(status), ["completed", "completed", "cancelled", "cancelled"]);
    let bad = bench.shown("bad");
    assert_eq!((&bad["success"], &bad["error"]["message"]), (&json!(false), &json!("exit code 1")));
    assert_eq!(bench.shown("ok")["success"], true, "the first result stands");
    let refused = bench.shown("refused");
    assert_eq!((&refused["reason"], &refused["reasonMessage"]), (&json!("denied"), &json!("no rule for it")));
    assert_eq!(bench.shown("open")["reason"], "skipped");
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn long_output_is_a_blob_that_is_deleted_with_its_session() {
    let mut bench = Bench::start().await;
    let long = "ä line\n".repeat(10_000);
    bench.call("c1", "Bash", &bash("yes")).await;
    bench.agent.emit(finished("c1", ToolOutcome::Succeeded, &long)).await;
    bench.listener.until("chat/toolCallComplete").await;
    let content = bench.shown("c1")["content"].clone();
    assert!(content[0]["text"].as_str().unwrap().len() < 4096);
    let uri = content[1]["uri"].as_str().unwrap();
    assert_eq!((&content[1]["type"], &content[1]["sizeHint"]), (&json!("resource"), &json!(long.len())));
    assert_eq!(bench.rig.engine.content(uri).await.unwrap().body, long.into_bytes(), "there as soon as it is named");
    for wrong in ["ahp-content:/00", "file:///etc/passwd", "ahp-content:/../x", ""] {
        let nothing = bench.rig.engine.content(wrong).await;
        assert!(matches!(nothing, Err(EngineError::ContentNotFound(_))), "{wrong}");
    }
    bench.rig.engine.dispose_session(SESSION).await.unwrap();
    assert!(bench.rig.engine.content(uri).await.is_err());
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn edit_contains_the_file_before_and_after() {
    let mut bench = Bench::start().await;
    bench.call("c1", "Edit", &json!({ "file_path": "/w/a.txt" })).await;
    let edit = FileEdit {
        path: "/w/a.txt".into(),
        before: Some("old\n".into()),
        after: Some("new\nlines\n".into()),
        added_lines: 2,
        removed_lines: 1,
    };
    let (id, outcome, output) = ("c1".into(), ToolOutcome::Succeeded, "done".into());
    bench.agent.emit(DriverEvent::ToolFinished { id, outcome, output, edit: Some(edit) }).await;
    bench.listener.until("chat/toolCallComplete").await;
    let edit = &bench.shown("c1")["content"][0];
    assert_eq!((&edit["type"], &edit["diff"]), (&json!("fileEdit"), &json!({ "added": 2, "removed": 1 })));
    assert_eq!(edit["after"]["uri"], "file:///w/a.txt");
    for (side, text) in [("before", "old\n"), ("after", "new\nlines\n")] {
        let uri = edit[side]["content"]["uri"].as_str().unwrap();
        assert_eq!(bench.rig.engine.content(uri).await.unwrap().body, text.as_bytes(), "{side}");
    }
    bench.rig.engine.shutdown().await;
}

#[tokio::test]
async fn long_input_is_streamed_partly_and_stored_as_a_blob() {
    let mut bench = Bench::start().await;
    let display = crate::pending_requests::helpers::display("Write");
    bench.agent.emit(DriverEvent::ToolStarted { id: "c1".into(), name: "Write".into(), display }).await;
    for _ in 0..40 {
        bench.agent.emit(DriverEvent::ToolInputDelta { id: "c1".into(), json: "x".repeat(1_000) }).await;
    }
    bench.call("c1", "Write", &json!({ "content": "y".repeat(40_000) })).await;
    bench.agent.emit(DriverEvent::ToolDecided { id: "c1".into(), decision: GateDecision::Allow }).await;
    bench.listener.until("chat/toolCallReady").await;
    let call = bench.shown("c1");
    assert!(call["toolInput"]["sizeHint"].as_u64().unwrap() > 40_000, "{call:#}");
    bench.end().await;
    let chat = bench.chat().to_string();
    assert!(chat.len() < 20_000, "the state stays small: {}", chat.len());
    bench.rig.engine.shutdown().await;
}
