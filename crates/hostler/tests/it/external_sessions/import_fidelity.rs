//! Fidelity of imports: one host runs a conversation with all kinds of events, another one imports it, and both
//! show the same. Allowed differences are listed here, each with its reason.

use std::collections::BTreeMap;

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use serde_json::{Value, json};

use super::second_host::SecondHost;
use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

pub(crate) const RULES: &str = "[global]\nversion = 1\nrules = [\n\
    { effect = \"allow\", scope = \"global\", rule = \"Bash\" },\n\
    { effect = \"allow\", scope = \"global\", rule = \"Write\" },\n\
    { effect = \"allow\", scope = \"global\", rule = \"Edit\" },\n\
    { effect = \"allow\", scope = \"global\", rule = \"Read\" },\n]\n";

fn bash(command: &str) -> String {
    format!("!tool Bash {}", json!({ "command": command, "description": "for the test" }))
}

/// Runs a turn to its end.
async fn turn(bench: &mut SessionFixture, script: &str) {
    bench.client.send_message(&bench.uris.chat, script).await;
    bench.client.wait_for_turn_end(&bench.uris.chat).await;
}

/// Runs all compared events in one conversation.
async fn run_conversation(bench: &mut SessionFixture) {
    let work = bench.home.work();
    let file = work.join("notes.txt");
    turn(bench, "!think Let me see.\n!say Hello, horses.").await;
    turn(bench, &format!("!say I look.\n{}\n{}\n!say Both are there.", bash("echo one"), bash("echo two; exit 3")))
        .await;
    let write = json!({ "file_path": file, "content": "oats\n" });
    let edit = json!({ "file_path": file, "old_string": "oats", "new_string": "hay" });
    let read = json!({ "file_path": file });
    turn(
        bench,
        &format!("!tool Write {write}\n!say written\n!tool Read {read}\n!say read\n!tool Edit {edit}\n!say done"),
    )
    .await;
    let helper = json!({
        "description": "a helper", "subagent_type": "general-purpose", "run_in_background": false,
        "prompt": format!("{}\n!say helped", bash("echo inside")),
    });
    turn(bench, &format!("!tool Agent {helper}\n!say it has helped")).await;
    bench.prompt_tool_call("WebFetch", &json!({ "url": "https://example.invalid/", "prompt": "what is it" })).await;
    let waiting = bench.wait_for_approval_request().await;
    bench.answer_approval(&waiting, json!({ "approved": false, "selectedOptionId": "deny" })).await;
    bench.client.wait_for_turn_end(&bench.uris.chat).await;
    turn(bench, "!error 400 This cannot be.").await;
    let stopped =
        bench.client.send_message(&bench.uris.chat, &format!("!say I wait.\n{}", bash("tail -f /dev/null"))).await;
    let runs = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::ChatToolCallReady(ready) if ready.confirmed.is_some());
    bench.client.wait_for(&bench.uris.chat, runs).await;
    bench.client.cancel_turn(&bench.uris.chat, &stopped).await;
    bench.client.wait_for_turn_end(&bench.uris.chat).await;
    turn(bench, "/compact").await;
    turn(bench, "!say The end.").await;
}

/// Normalizes a value: removes ids assigned by hosts, and times.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let free = ["startedAt", "duration", "modifiedAt", "nonce", "turnsNextCursor"];
            let compared = object.iter().filter(|(key, _)| !free.contains(&key.as_str()));
            Value::Object(compared.map(|(key, value)| (key.clone(), normal(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        other => other.clone(),
    }
}

/// Returns the chats of a session by the calls that created them, and the default chat under an empty name.
async fn chats(
    peer: &hostler_testkit::test_client::TestClient,
    bench: &SessionFixture,
) -> BTreeMap<String, Vec<Value>> {
    let session = serde_json::to_value(peer.subscribe_snapshot(&bench.uris.session).await).unwrap();
    let mut chats = BTreeMap::new();
    for line in session["chats"].as_array().unwrap() {
        let chat = serde_json::to_value(peer.chat_state(line["resource"].as_str().unwrap()).await).unwrap();
        let name = chat["origin"]["toolCallId"].as_str().unwrap_or_default().to_owned();
        let mut turns = normal(&chat["turns"]).as_array().cloned().unwrap();
        // One build records a model change as a command.
        turns.retain(|turn| !turn["message"]["text"].as_str().unwrap().starts_with("/model "));
        for turn in &mut turns {
            turn["id"] = Value::Null;
            // A transcript contains the call and its result, but not the request that was shown to a person. It
            // contains the number of attachments, where a live turn has them in its message.
            let counts =
                |part: &Value| part["content"].as_str().is_some_and(|text| text.contains(", which the agent received"));
            let parts = turn["responseParts"].as_array_mut().unwrap();
            parts.retain(|part| part["kind"] != "inputRequest" && !counts(part));
        }
        chats.insert(name, turns);
    }
    chats
}

/// Lists the differences of two values as `path: here -> there`.
fn differences(path: &str, here: &Value, there: &Value, found: &mut Vec<String>) {
    match (here, there) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let (here, there) = (&here[key.as_str()], &there[key.as_str()]);
                differences(&format!("{path}.{key}"), here, there, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (here, there)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{at}]"), here, there, found);
            }
        }
        (here, there) if here == there => {}
        (here, there) => found.push(format!("{path}: {here} -> {there}")),
    }
}

/// Allowed difference, and its reason.
pub(crate) type AllowedDifference = (&'static str, &'static str);

/// Differences in every conversation: the transcript does not contain these facts.
const COMMON_DIFFERENCES: [AllowedDifference; 2] = [
    (".usage._meta.hostler.contextWindow:", "only a live agent reports it, at the end of a turn"),
    (".usage._meta.hostler.costUsd:", "only a live agent reports it, at the end of a turn"),
];

/// Imports the session in another host and asserts that both show the same, except for allowed differences.
pub(crate) async fn assert_import_matches(mut bench: SessionFixture, named: &[AllowedDifference]) {
    let build = bench.build;
    let here = chats(&bench.client, &bench).await;
    bench = bench.restart_host().await;
    let second = SecondHost::start(&bench).await;
    let there = chats(&second.peer, &bench).await;
    assert_eq!(here.keys().collect::<Vec<_>>(), there.keys().collect::<Vec<_>>(), "{build}");
    let mut found = Vec::new();
    for (name, turns) in &here {
        let other = &there[name];
        let name = if name.is_empty() { "chat" } else { "subAgentChat" };
        let messages = |turns: &[Value]| turns.iter().map(|turn| turn["message"]["text"].clone()).collect::<Vec<_>>();
        assert_eq!(messages(turns), messages(other), "{build}: {name}");
        differences(name, &Value::Array(turns.clone()), &Value::Array(other.clone()), &mut found);
    }
    let is_named = |difference: &String| {
        let place = difference.split_once(": ").map_or(difference.as_str(), |(place, _)| place);
        COMMON_DIFFERENCES.iter().chain(named).any(|(part, _)| format!("{place}:").contains(part))
    };
    found.retain(|difference| !is_named(difference));
    assert!(found.is_empty(), "{build}:\n{}", found.join("\n"));
    second.host.stop().await;
    bench.stop().await;
}

const IMPORT_DIFFERENCES: [AllowedDifference; 11] = [
    (".subagentAgentName:", "the older build does not report the kind while it works; the call in the transcript does"),
    (".content[0].agentName:", "the same"),
    (
        "subAgentChat[0].usage.outputTokens:",
        "a live sub-agent's message may arrive before its answer was counted completely",
    ),
    (
        "subAgentChat[0].usage.inputTokens:",
        "the same: the last of its answers may not be reported at all while it works",
    ),
    ("chat[6].responseParts[1].toolCall.", "the older build writes that a stopped call failed"),
    (
        "chat[4].responseParts[0].toolCall.reasonMessage:",
        "a denial without a reason is imported with the text that the model received",
    ),
    ("chat[4].responseParts[0].toolCall.selectedOption:", "the agent does not receive the option"),
    ("chat[4].responseParts[0].toolCall.toolInput:", "a pending call shows the input in the order of the request"),
    ("chat[5].usage", "a live agent reports the usage of a turn whose request was refused, which is zero"),
    ("chat[6].usage:", "a live agent does not report the usage of a stopped turn"),
    ("chat[7].usage", "a live agent reports the usage of the compaction request; a transcript does not contain it"),
];

#[tokio::test(flavor = "multi_thread")]
async fn import_matches_the_live_session() {
    for build in BUILDS {
        let mut bench = SessionFixture::with_rules(build, RULES).await;
        run_conversation(&mut bench).await;
        assert_import_matches(bench, &IMPORT_DIFFERENCES).await;
    }
}
