//! Questions and plans of sub-agents: no build gives them these tools.

use super::*;

/// Returns the tools that ask people, with inputs.
fn tools() -> [(&'static str, Value); 2] {
    let options = [("red", "like fire"), ("blue", "like water")];
    let options = options.map(|(label, description)| json!({ "label": label, "description": description }));
    let question = json!({ "question": "Which colour?", "header": "Colour", "multiSelect": false, "options": options });
    [("AskUserQuestion", json!({ "questions": [question] })), ("ExitPlanMode", json!({ "plan": "1. do it" }))]
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agent_questions_and_plans_are_refused_with_a_reason() {
    for build in BUILDS {
        for (tool, input) in tools() {
            let mut bench = SessionFixture::start(build).await;
            let script = format!("!tool {tool} {input}\n!say asked");
            bench.client.send_message(&bench.uris.chat, &format!("{}\n!say done", helper(&script, false))).await;
            assert!(!bench.wait_for_turn_end().await, "{build}: no request is pending");
            let turn = ended(&bench).await;
            let call = &turn["responseParts"][0]["toolCall"];
            assert_eq!((&call["toolName"], &call["success"]), (&json!(tool), &json!(false)), "{build}: {turn:#}");
            let sentence = call["error"]["message"].as_str().unwrap();
            assert!(
                sentence.starts_with(&format!("No such tool available: {tool}. {tool} is not available inside")),
                "{build}: {sentence}"
            );
            assert!(sentence.ends_with('.') && !sentence.contains('<'), "{build}: {sentence}");
            assert_eq!(turn["responseParts"][1]["content"], "asked", "{build}: the sub-agent continues: {turn:#}");
            assert_no_pending_requests(&bench).await;
            bench.stop().await;
        }
    }
}
