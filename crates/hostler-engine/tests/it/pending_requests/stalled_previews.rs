//! Requests whose diff preview hangs: the session continues meanwhile.

use hostler_driver::{Answer, DriverEvent, ToolOutcome};
use hostler_testkit::stalled_disk::{StalledDisk, run_with_stallable_disk};
use serde_json::{Value, json};

use crate::common::SESSION;
use crate::pending_requests::helpers::{Bench, bash, finished, yes};

impl Bench {
    /// The agent requests permission to write a file.
    async fn ask_to_write(&self, id: &str) {
        let input = json!({ "file_path": "new.txt", "content": "new" });
        self.call(id, "Write", &input).await;
        self.ask(&format!("r-{id}"), id, "Write", &input).await;
    }

    fn status(&self, id: &str) -> Value {
        self.shown(id)["status"].clone()
    }
}

#[test]
fn hanging_preview_delays_neither_a_steer_nor_another_request_nor_a_cancel() {
    run_with_stallable_disk(async {
        let mut bench = Bench::start().await;
        let stall = StalledDisk::start().await;
        bench.ask_to_write("c1").await;
        let message = json!({ "text": "in blue", "origin": { "kind": "user" } });
        let steer = json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": "s1", "message": message });
        bench.dispatch("me", serde_json::from_value(steer).unwrap()).await;
        bench.listener.until("chat/pendingMessageSet").await;
        assert_eq!(bench.agent.wait_steered().await.prompt.expose(), "in blue");
        bench.wait_for("c2", "Bash", &bash("make")).await;
        assert_eq!(bench.status("c2"), "pending-confirmation", "another request is displayed");
        bench.confirm("me", yes("c2")).await;
        bench.listener.until("chat/toolCallConfirmed").await;
        assert_ne!(bench.status("c1"), "pending-confirmation", "the first one still waits for its preview");
        bench.rig.cancel(SESSION, "t1").await;
        bench.listener.until("chat/turnCancelled").await;
        bench.agent.wait_interrupted().await;
        drop(stall);
        bench.settled().await;
        let ready = bench.listener.events.iter().filter(|event| *event == "session/inputNeededSet").count();
        assert_eq!(ready, 1, "the request of the ended turn is dropped with its preview");
        assert_eq!(bench.session()["inputNeeded"], Value::Null);
        bench.rig.engine.shutdown().await;
    });
}

#[test]
fn request_is_displayed_with_its_preview_when_the_disk_answers() {
    run_with_stallable_disk(async {
        let mut bench = Bench::start().await;
        let stall = StalledDisk::start().await;
        bench.ask_to_write("c1").await;
        bench.listener.until("chat/toolCallStart").await;
        assert_eq!(bench.status("c1"), "streaming");
        drop(stall);
        bench.listener.until("session/inputNeededSet").await;
        assert_eq!(bench.shown("c1")["edits"]["items"][0]["diff"], json!({ "added": 1, "removed": 0 }));
        bench.confirm("me", yes("c1")).await;
        assert!(matches!(bench.agent.next_answer().await.1, Answer::Allow { input: None }));
        bench.rig.engine.shutdown().await;
    });
}

#[test]
fn request_is_displayed_without_its_preview_if_the_disk_does_not_answer() {
    run_with_stallable_disk(async {
        let mut bench = Bench::start().await;
        let _stall = StalledDisk::start().await;
        bench.ask_to_write("c1").await;
        bench.listener.until("session/inputNeededSet").await;
        let call = bench.shown("c1");
        assert_eq!((&call["status"], &call["edits"]), (&json!("pending-confirmation"), &Value::Null));
        bench.confirm("me", yes("c1")).await;
        assert!(matches!(bench.agent.next_answer().await.1, Answer::Allow { input: None }));
    });
}

#[test]
fn request_that_ends_before_its_preview_is_not_displayed() {
    run_with_stallable_disk(async {
        let mut bench = Bench::start().await;
        let stall = StalledDisk::start().await;
        bench.ask_to_write("c1").await;
        bench.agent.emit(DriverEvent::RequestWithdrawn(hostler_driver::AgentRequestId("r-c1".into()))).await;
        bench.ask_to_write("c2").await;
        bench.agent.emit(finished("c2", ToolOutcome::Failed, "no")).await;
        let (request, answer) = bench.agent.next_answer().await;
        assert_eq!(request.0, "r-c2");
        assert!(matches!(answer, Answer::Deny { .. }), "the agent does not wait for a call that has ended");
        // A repeated request is denied while the first one is prepared.
        bench.ask_to_write("c3").await;
        bench.ask("r-c3", "c3", "Write", &json!({ "file_path": "new.txt", "content": "other" })).await;
        assert!(matches!(bench.agent.next_answer().await.1, Answer::Deny { .. }));
        drop(stall);
        bench.listener.until("session/inputNeededSet").await;
        let needed = bench.session()["inputNeeded"].clone();
        assert_eq!(needed.as_array().map(Vec::len), Some(1), "{needed:#}");
        assert_eq!(needed[0]["toolCall"]["toolCallId"], "c3");
        assert_ne!(bench.status("c1"), "pending-confirmation");
        bench.rig.engine.shutdown().await;
    });
}
