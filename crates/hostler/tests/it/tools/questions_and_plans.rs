//! Questions and plans of the real agent.

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use serde_json::{Value, json};

use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

fn questions() -> Value {
    let option = |label: &str| json!({ "label": label, "description": format!("the {label} one") });
    json!({ "questions": [
        { "question": "Which colour?", "header": "Colour", "multiSelect": false, "options": [option("red"), option("blue")] },
        { "question": "Which sizes?", "header": "Sizes", "multiSelect": true, "options": [option("small"), option("large")] },
    ] })
}

fn chosen(value: Value) -> Value {
    let kind = if value.is_array() { "selected-many" } else { "selected" };
    json!({ "state": "submitted", "value": { "kind": kind, "value": value } })
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_to_questions_reach_the_model() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        bench.prompt_tool_call("AskUserQuestion", &questions()).await;
        let asked = bench.wait_for_questions().await;
        assert_eq!(asked["questions"][0]["options"][1]["label"], "blue", "{build}: {asked:#}");
        let ids: Vec<_> = asked["questions"].as_array().unwrap().iter().map(|q| q["id"].as_str().unwrap()).collect();
        let answers = json!({ ids[0]: chosen(json!("blue")), ids[1]: chosen(json!(["small", "large"])) });
        let completed = json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept", "answers": answers });
        bench.dispatch(completed).await;
        bench.wait_for_turn_end().await;
        let result = bench.last_tool_result();
        assert!(result.contains("blue") && result.contains("small") && result.contains("large"), "{build}: {result}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn question_accepts_free_text_or_no_answer() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        bench.prompt_tool_call("AskUserQuestion", &questions()).await;
        let asked = bench.wait_for_questions().await;
        let id = asked["questions"][0]["id"].as_str().unwrap();
        let own =
            json!({ "state": "submitted", "value": { "kind": "selected", "value": "", "freeformValues": ["mauve"] } });
        let completed = json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept", "answers": { id: own } });
        bench.dispatch(completed).await;
        bench.wait_for_turn_end().await;
        assert!(bench.last_tool_result().contains("mauve"), "{build}: {}", bench.last_tool_result());

        bench.prompt_tool_call("AskUserQuestion", &questions()).await;
        let asked = bench.wait_for_questions().await;
        bench.dispatch(json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "cancel" })).await;
        bench.wait_for_turn_end().await;
        assert!(bench.last_tool_result().contains("does not want to answer"), "{build}: {}", bench.last_tool_result());
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_is_shown_rejected_and_carried_out_in_the_chosen_mode() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        bench.set_permission_mode("plan").await;
        let plan = json!({ "plan": "1. Write a file" });
        bench.prompt_tool_call("ExitPlanMode", &plan).await;
        let asked = bench.wait_for_questions().await;
        assert_eq!(asked["message"], "1. Write a file", "{build}: {asked:#}");
        let feedback = json!({ "state": "submitted", "value": { "kind": "text", "value": "Write two files" } });
        let back = json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept",
            "answers": { "plan": feedback } });
        bench.dispatch(back).await;
        bench.wait_for_turn_end().await;
        assert!(bench.last_tool_result().contains("Write two files"), "{build}: {}", bench.last_tool_result());

        let file = bench.home.work().join("made.txt");
        let write = json!({ "file_path": file, "content": "x" });
        let script = format!("!tool ExitPlanMode {plan}\n!say on it\n!tool Write {write}\n!say done");
        bench.client.send_message(&bench.uris.chat, &script).await;
        let asked = bench.wait_for_questions().await;
        let go = json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept",
            "answers": { "plan": chosen(json!("accept-edits")) } });
        bench.dispatch(go).await;
        assert!(!bench.wait_for_turn_end().await, "{build}: edits are not asked about any more");
        assert!(file.exists(), "{build}");
        let session = bench.client.subscribe_snapshot(&bench.uris.session).await;
        let session = serde_json::to_value(session).unwrap();
        assert_eq!(session["config"]["values"]["permissionMode"], "acceptEdits", "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_written_to_its_file_is_shown() {
    let mut bench = SessionFixture::start("native").await;
    bench.set_permission_mode("plan").await;
    let plans = bench.home.path("claude").join("plans");
    std::fs::create_dir(&plans).unwrap();
    let file = json!({ "file_path": plans.join("mine.md"), "content": "# The plan in the file" });
    let script = format!("!tool Write {file}\n!say written\n!tool ExitPlanMode {{}}\n!say done");
    bench.client.send_message(&bench.uris.chat, &script).await;
    let asked = bench.wait_for_questions().await;
    assert_eq!(asked["message"], "# The plan in the file", "{asked:#}");
    bench.dispatch(json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "decline" })).await;
    bench.wait_for_turn_end().await;
    bench.stop().await;
}

/// Waits until this permission mode of the session is announced.
async fn announced(bench: &mut SessionFixture, mode: &str) {
    let session = bench.uris.session.clone();
    let changed = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::SessionConfigChanged(change) if change.config["permissionMode"] == mode);
    bench.client.wait_for(&session, changed).await;
    let session = serde_json::to_value(bench.client.subscribe_snapshot(&session).await).unwrap();
    assert_eq!(session["config"]["values"]["permissionMode"], mode, "{}", bench.build);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_follows_the_agent_into_and_out_of_plan_mode() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let file = bench.home.work().join("made.txt");
        let write = json!({ "file_path": file, "content": "x" });
        let script = format!("!tool EnterPlanMode {{}}\n!say planning\n!tool Write {write}\n!say done");
        bench.client.send_message(&bench.uris.chat, &script).await;
        announced(&mut bench, "plan").await;
        assert!(!bench.wait_for_turn_end().await, "{build}: plan mode asks about nothing that writes, it denies");
        assert!(!file.exists(), "{build}");

        // Choosing the previous mode of the session reaches the agent.
        bench.set_permission_mode("default").await;
        bench.prompt_tool_call("Write", &write).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": true })).await;
        bench.wait_for_turn_end().await;
        assert!(file.exists(), "{build}");

        let plan = json!({ "plan": "1. Write a file" });
        let script = format!("!tool EnterPlanMode {{}}\n!say planning\n!tool ExitPlanMode {plan}\n!say done");
        bench.client.send_message(&bench.uris.chat, &script).await;
        announced(&mut bench, "plan").await;
        let asked = bench.wait_for_questions().await;
        let go = json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "accept",
            "answers": { "plan": chosen(json!("default")) } });
        bench.dispatch(go).await;
        announced(&mut bench, "default").await;
        bench.wait_for_turn_end().await;
        bench.prompt_tool_call("Write", &json!({ "file_path": file, "content": "y" })).await;
        let waiting = bench.wait_for_approval_request().await;
        bench.answer_approval(&waiting, json!({ "approved": true })).await;
        bench.wait_for_turn_end().await;
        let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
        assert_eq!(session["config"]["values"]["permissionMode"], "default", "{build}: nothing was set back");
        bench.stop().await;
    }
}
