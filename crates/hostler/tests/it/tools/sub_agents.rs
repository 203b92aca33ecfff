//! Permissions of sub-agents of the real agent: the same as of the agent, asked in the same way.

use serde_json::{Value, json};

use crate::common::BUILDS;
use crate::common::scripted_upstream::RecordedRequest;
use crate::common::session_fixture::{SessionFixture, wait_until};

fn bash(command: &str) -> Value {
    json!({ "command": command, "description": "for the test" })
}

/// Returns the model's line that makes a sub-agent run a script.
fn agent(script: &str, background: bool) -> String {
    let input = json!({
        "description": "a helper", "prompt": script, "subagent_type": "general-purpose", "run_in_background": background,
    });
    format!("!tool Agent {input}")
}

impl SessionFixture {
    /// Returns the results of the sub-agents' calls, from each request to their models.
    fn helper_tool_results(&self) -> Vec<String> {
        let blocks = |request: &RecordedRequest| -> Vec<Value> {
            let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
            messages.iter().flat_map(|message| message["content"].as_array().cloned().unwrap_or_default()).collect()
        };
        let requests = self.upstream.requests();
        let helpers = requests.iter().map(blocks).filter(|blocks| blocks.iter().all(|block| block["name"] != "Agent"));
        let results = helpers.flatten().filter(|block| block["type"] == "tool_result");
        results.map(|block| block["content"].to_string()).collect()
    }

    fn helper_received(&self, text: &str) -> bool {
        self.helper_tool_results().iter().any(|result| result.contains(text))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_asks_and_continues_with_the_answer() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let (made, other) = (bench.home.work().join("made"), bench.home.work().join("other"));
        let script = format!(
            "!tool Bash {}\n!say then\n!tool Bash {}\n!say the helper is done",
            bash("mkdir made"),
            bash("mkdir other")
        );
        bench.client.send_message(&bench.uris.chat, &format!("{}\n!say done", agent(&script, false))).await;
        let waiting = bench.wait_for_session_request().await;
        let title = &waiting["toolCall"]["confirmationTitle"];
        assert_eq!(title, "A sub-agent wants to use Bash", "{build}: {waiting:#}");
        let session = serde_json::to_value(bench.client.subscribe_snapshot(&bench.uris.session).await).unwrap();
        let needed = session["inputNeeded"].as_array().unwrap();
        assert_eq!((needed.len(), &needed[0]["toolCall"]["status"]), (1, &json!("pending-confirmation")), "{build}");
        assert!(!made.exists(), "{build}");
        bench.answer_session_request(&waiting, json!({ "approved": true })).await;
        let waiting = bench.wait_for_session_request().await;
        assert!(made.is_dir(), "{build}: it continued with the approval");
        let reason = "Not this one, helper.";
        bench.answer_session_request(&waiting, json!({ "approved": false, "reasonMessage": reason })).await;
        bench.wait_for_turn_end().await;
        assert!(!other.exists(), "{build}");
        assert!(bench.helper_received(reason), "{build}: the helper's model receives the reason");
        let call = bench.last_tool_call("Agent").await;
        assert_eq!(call["status"], "completed", "{build}: {call:#}");
        assert!(call["content"].to_string().contains("the helper is done"), "{build}: {call:#}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn background_sub_agent_asks_for_approval() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let (made, own) = (bench.home.work().join("made"), bench.home.work().join("own"));
        let helper = agent(&format!("!tool Bash {}\n!say the helper is done", bash("mkdir made")), true);
        // The agent's own call is open until the sub-agent has finished.
        let script = format!("{helper}\n!say meanwhile\n!tool Bash {}\n!say done", bash("mkdir own"));
        bench.client.send_message(&bench.uris.chat, &script).await;
        let (mut helpers, mut agents) = (None, None);
        while helpers.is_none() || agents.is_none() {
            let waiting = bench.wait_for_session_request().await;
            match waiting["toolCall"]["toolInput"].as_str().unwrap() {
                input if input.contains("mkdir made") => helpers = Some(waiting),
                _ => agents = Some(waiting),
            }
        }
        let helpers = helpers.unwrap();
        let title = &helpers["toolCall"]["confirmationTitle"];
        assert_eq!(title, "A sub-agent wants to use Bash", "{build}: {helpers:#}");
        assert!(!made.exists() && !own.exists(), "{build}");
        bench.answer_session_request(&helpers, json!({ "approved": true })).await;
        wait_until("the helper has done its work", || made.is_dir()).await;
        assert!(!own.exists(), "{build}: one answer is about one call");
        bench.answer_session_request(&agents.unwrap(), json!({ "approved": false })).await;
        bench.wait_for_turn_end().await;
        assert!(!own.exists(), "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deny_rule_applies_to_sub_agents() {
    let rules =
        "[global]\nversion = 1\nrules = [{ effect = \"deny\", scope = \"global\", rule = \"Bash(mkdir:*)\" }]\n";
    for build in BUILDS {
        for background in [false, true] {
            let mut bench = SessionFixture::with_rules(build, rules).await;
            let made = bench.home.work().join("made");
            let helper = agent(&format!("!tool Bash {}\n!say the helper is done", bash("mkdir made")), background);
            let script = format!("{helper}\n!say meanwhile\n!tool Bash {}\n!say done", bash("touch own"));
            bench.client.send_message(&bench.uris.chat, &script).await;
            let waiting = bench.wait_for_approval_request().await;
            assert!(waiting["toolInput"].as_str().unwrap().contains("touch own"), "{build}: {waiting:#}");
            wait_until("the helper receives the denial", || bench.helper_received("Bash(mkdir:*)")).await;
            bench.answer_approval(&waiting, json!({ "approved": false })).await;
            assert!(!bench.wait_for_turn_end().await, "{build}: no request is pending about a denied call");
            assert!(!made.exists(), "{build}");
            bench.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_mode_applies_to_sub_agents() {
    for build in BUILDS {
        for background in [false, true] {
            let mut bench = SessionFixture::start(build).await;
            bench.set_permission_mode("plan").await;
            let file = bench.home.work().join("made.txt");
            let write = json!({ "file_path": file, "content": "x" });
            let steps = format!(
                "!tool Write {write}\n!say then\n!tool Bash {}\n!say the helper is done",
                bash("touch made.txt")
            );
            // The agent's own question is open until the sub-agent has tried everything.
            let script = format!(
                "{}\n!say meanwhile\n!tool ExitPlanMode {{\"plan\":\"none\"}}\n!say done",
                agent(&steps, background)
            );
            bench.client.send_message(&bench.uris.chat, &script).await;
            let asked = bench.wait_for_questions().await;
            // The second request contains the first call's result, the third one both.
            wait_until("the helper has tried", || bench.helper_tool_results().len() >= 3).await;
            bench
                .dispatch(json!({ "type": "chat/inputCompleted", "requestId": asked["id"], "response": "decline" }))
                .await;
            assert!(
                !bench.wait_for_turn_end().await,
                "{build}: no request is pending about a call that plan mode denies"
            );
            assert!(!file.exists(), "{build}");
            bench.stop().await;
        }
    }
}
