//! Shell commands of people: the real binary runs them under a supervisor, and no process of them remains.

use crate::common::{HostProcess, TEST_TIMEOUT, TestHome};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};

/// Enables commands of people.
const COMMANDS_ENABLED: (&str, &str) = ("HOSTLER_NO_SHELL_COMMANDS", "false");

async fn client(host: &HostProcess) -> RawClient {
    RawClient::connect_and_initialize(&host.url()).await
}

/// Returns output and exit of the last turn's call.
async fn run(raw: &mut RawClient, chat: &str, line: &str) -> Value {
    raw.send_message(chat, line).await;
    let (_, over) = raw.wait_for_action("chat/toolCallComplete").await;
    raw.wait_for_action("chat/turnComplete").await;
    over["result"].clone()
}

#[tokio::test]
async fn command_runs_with_the_users_environment_without_host_secrets() {
    let home = TestHome::new();
    let host =
        home.serve_fake(&[COMMANDS_ENABLED, ("HOSTLER_UPSTREAM_KEY", "planted-key"), ("ORDINARY", "value")]).await;
    let mut raw = client(&host).await;
    let (_, chat) = raw.create_session(&home.work()).await;
    let result = run(&mut raw, &chat, "!pwd; env; echo problem >&2; exit 5").await;
    let printed = result["content"][0]["text"].as_str().unwrap();
    assert!(printed.starts_with(&format!("{}\n", home.work().display())), "{printed}");
    assert!(printed.contains("ORDINARY=value") && printed.contains("problem"), "{printed}");
    assert!(!printed.contains("planted-key") && !printed.contains("HOSTLER_"), "{printed}");
    assert_eq!(result["structuredContent"]["exitCode"], 5);
    assert!(host.agents().is_empty(), "no agent was started");
    // Its background processes end with it.
    let result = run(&mut raw, &chat, "!setsid sleep 4242 & echo left").await;
    assert_eq!(result["content"][0]["text"], "left\n");
    assert_eq!(host.process_tree(), [] as [u32; 0]);
    host.stop().await;
}

#[tokio::test]
async fn cancel_ends_the_whole_process_tree_of_a_command() {
    let home = TestHome::new();
    let host = home.serve_fake(&[COMMANDS_ENABLED]).await;
    let mut raw = client(&host).await;
    let (_, chat) = raw.create_session(&home.work()).await;
    raw.send_message(&chat, "!setsid sleep 4242 & echo begun; trap '' TERM; sleep 4242").await;
    let turn = loop {
        let (_, shown) = raw.wait_for_action("chat/toolCallContentChanged").await;
        if shown["content"][0]["text"] == "begun\n" {
            break shown["turnId"].clone();
        }
    };
    assert!(host.process_tree().len() >= 3, "a supervisor, a shell and two that sleep: {:?}", host.process_tree());
    let cancel = json!({"type": "chat/turnCancelled", "turnId": turn, "duration": 1});
    let params = json!({"channel": chat, "clientSeq": 99, "action": cancel});
    raw.send(json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).to_string()).await;
    raw.wait_for_action("chat/turnCancelled").await;
    let gone = async {
        while !host.process_tree().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, gone).await.expect("no process of the command remains");
    host.stop().await;
}

#[tokio::test]
async fn model_scripts_go_to_the_model_and_other_commands_to_the_shell() {
    let home = TestHome::new();
    let host = home.serve_with(&["--upstream", "scripted", "--claude", "native"], &[COMMANDS_ENABLED]).await;
    let mut raw = client(&host).await;
    let (_, chat) = raw.create_session(&home.work()).await;
    let result = run(&mut raw, &chat, "!echo from the shell").await;
    assert_eq!(result["content"][0]["text"], "from the shell\n");
    assert!(host.agents().is_empty());
    raw.send_message(&chat, "!say from the model").await;
    let (_, delta) = raw.wait_for_action("chat/delta").await;
    assert!(delta["content"].as_str().unwrap().starts_with("from"), "{delta}");
    raw.wait_for_action("chat/turnComplete").await;
    assert_eq!(host.agents().len(), 1);
    // The agent's own commands are known now.
    let ask = json!({"channel": chat, "kind": "userMessage", "text": "/comp", "offset": 5});
    let items = raw.call("completions", ask).await.unwrap();
    assert_eq!(items["items"][0]["insertText"], "/compact", "{items}");
    host.stop().await;
}
