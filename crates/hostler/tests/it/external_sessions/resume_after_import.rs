//! The model receives the same requests after an import as without one.

use serde_json::{Value, json};

use super::import_session::last_model_request;
use super::mid_turn_import::run_steered_turn;
use super::second_host::SecondHost;
use crate::common::BUILDS;
use crate::common::session_fixture::SessionFixture;

const LAST_PROMPT: &str = "!say last";

/// Returns the last request to the model, without paths, ids, and the duration of sub-agents.
fn normalized_model_request(bench: &SessionFixture) -> Value {
    let root = bench.home.root().to_str().unwrap();
    let slug = root.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let mut text = serde_json::to_string(&last_model_request(bench)).unwrap();
    for free in [root, &slug, bench.uris.session.strip_prefix("claude:/").unwrap()] {
        text = text.replace(free, "…");
    }
    let value_after = |text: &str, before: &str| {
        let (_, after) = text.split_once(before)?;
        after.split(|c: char| !c.is_ascii_alphanumeric()).next().map(str::to_owned)
    };
    // The id occurs in other places, too; only its own value is replaced.
    if let Some(agent) = value_after(&text, "agentId: ") {
        text = text.replace(&agent, "…");
    }
    if let Some(time) = value_after(&text, "duration_ms: ") {
        text = text.replace(&format!("duration_ms: {time}"), "duration_ms: …");
    }
    serde_json::from_str(&text).unwrap()
}

/// Runs the conversation to its end in one host; in another home, a second host imports it before the last message.
async fn assert_continues_identically(run_conversation: impl AsyncFn(&mut SessionFixture)) {
    for build in BUILDS {
        let mut whole = SessionFixture::allowing_commands(build).await;
        run_conversation(&mut whole).await;
        whole.client.send_and_wait(&whole.uris.chat, LAST_PROMPT).await;
        let expected = normalized_model_request(&whole);
        whole.stop().await;

        let mut bench = SessionFixture::allowing_commands(build).await;
        run_conversation(&mut bench).await;
        // The restart ends the agent, which then has written everything.
        bench = bench.restart_host().await;
        let mut second = SecondHost::start(&bench).await;
        second.chat(&bench).await;
        second.peer.send_and_wait(&bench.uris.chat, LAST_PROMPT).await;
        let request = normalized_model_request(&bench);
        assert_eq!(request, expected, "{build}: {request:#} instead of {expected:#}");
        second.host.stop().await;
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_conversation_continues_identically_after_a_compaction() {
    assert_continues_identically(async |bench| {
        for prompt in ["!say one", "!say two", "/compact", "!say three"] {
            bench.client.send_and_wait(&bench.uris.chat, prompt).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_conversation_continues_identically_after_a_sub_agent() {
    assert_continues_identically(async |bench| {
        let inside = json!({ "command": "echo inside", "description": "says" });
        let helper = json!({ "description": "a helper", "subagent_type": "general-purpose", "run_in_background": false,
            "prompt": format!("!tool Bash {inside}\n!say helped") });
        bench.client.send_and_wait(&bench.uris.chat, &format!("!tool Agent {helper}\n!say it has helped")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_conversation_continues_identically_after_a_steer() {
    assert_continues_identically(run_steered_turn).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_conversation_continues_identically_after_an_interrupt() {
    assert_continues_identically(async |bench| {
        let turn = bench.client.send_message(&bench.uris.chat, "!say begun\n!hang").await;
        bench.wait_for_action("chat/delta").await.unwrap();
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        bench.client.wait_for_turn_end(&bench.uris.chat).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say in between").await;
        let gate = bench.blocking_command("work");
        let turn = bench.prompt_tool_call("Bash", &gate.bash_input()).await;
        gate.wait_until_running().await;
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        bench.client.wait_for_turn_end(&bench.uris.chat).await;
        bench.client.send_and_wait(&bench.uris.chat, "!say after it").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_conversation_continues_identically_after_a_failure() {
    assert_continues_identically(async |bench| {
        bench.client.send_and_wait(&bench.uris.chat, "!say one").await;
        bench.client.send_message(&bench.uris.chat, "!error 400 This cannot be.").await;
        bench.wait_for_turn_error().await;
        bench.client.send_and_wait(&bench.uris.chat, "!say two").await;
    })
    .await;
}
