//! Local turns: turns that the host carries out itself.

use super::harness::*;

area! { HostFixture::with_shell_commands();
    command_runs_in_the_sessions_directory,
    command_is_shown_as_a_terminal_tool_call,
    exit_code_is_reported,
    output_is_shown_while_the_command_runs,
    cancel_ends_a_command_and_its_children,
    command_materializes_the_session_without_an_agent,
    empty_command_is_rejected,
    queued_command_runs_after_the_running_turn,
    command_is_never_steered_into_a_turn,
    non_text_output_is_tolerated,
    end_of_long_output_is_shown,
    missing_command_fails_with_a_message,
    command_turn_cannot_be_resumed,
    rename_is_a_local_turn,
    rename_without_a_title_changes_nothing,
    rename_trims_the_title,
    other_slash_commands_go_to_the_agent,
    audit_log_contains_commands,
    two_sessions_run_commands_concurrently,
    agent_continues_after_a_command,
}

/// Returns the call of a local turn.
fn call(turn: &Value) -> &Value {
    &turn["responseParts"][0]["toolCall"]
}

fn printed(turn: &Value) -> &str {
    call(turn)["content"][0]["text"].as_str().unwrap_or_default()
}

async fn command_runs_in_the_sessions_directory(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "!pwd").await;
    assert_eq!(printed(&turn).trim(), case.dir.to_str().unwrap());
    assert_eq!(turn["state"], "complete");
}

async fn command_is_shown_as_a_terminal_tool_call(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "!echo hello").await;
    let call = call(&turn);
    assert_eq!((&call["status"], &call["_meta"]["toolKind"]), (&json!("completed"), &json!("terminal")));
    assert!(call["toolInput"].as_str().unwrap().contains("echo hello"));
    assert_eq!(turn.get("usage"), None, "no model was asked");
    client.assert_state_matches_host(&uris.chat).await;
    client.assert_state_matches_host(&uris.session).await;
}

async fn exit_code_is_reported(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for (command, code) in [("!true", 0), ("!exit 7", 7), ("!kill -9 $$", 137)] {
        let turn = client.send_and_wait(&uris.chat, command).await;
        let call = call(&turn);
        assert_eq!(call["success"], code == 0, "{command}: {call:#}");
        if code != 137 {
            assert_eq!(call["structuredContent"]["exitCode"], code, "{command}: {call:#}");
        }
    }
}

async fn output_is_shown_while_the_command_runs(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "!echo first; while [ ! -e go ]; do sleep 0.05; done; echo last").await;
    assert_eq!(client.wait_for_output(&uris.chat).await, "first\n");
    case.write_file("go", "");
    client.wait_for_turn_end(&uris.chat, &turn).await;
    assert_eq!(printed(&client.subscribe(&uris.chat).await["turns"][0]), "first\nlast\n");
}

fn runs(case: &ProtocolCase, mark: &str) -> bool {
    hostler_testkit::processes::descendants(case.fixture.host.pid).iter().any(|process| process.command.contains(mark))
}

async fn cancel_ends_a_command_and_its_children(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mark = if case.version == "1.0.0" { "424210" } else { "424209" };
    let turn = client
        .send_message(&uris.chat, &format!("!setsid sleep {mark} & echo begun; trap '' TERM; sleep {mark}"))
        .await;
    client.wait_for_output(&uris.chat).await;
    assert!(runs(&case, mark));
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    crate::common::session_fixture::wait_until("no process of the command remains", || !runs(&case, mark)).await;
    assert_eq!(client.subscribe(&uris.chat).await["turns"][0]["state"], "cancelled");
}

async fn command_materializes_the_session_without_an_agent(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "!true").await;
    client.wait_for_notification("root/sessionAdded", &uris.session).await;
    assert_eq!(client.subscribe(&uris.session).await["lifecycle"], "ready");
    let id = uris.session.trim_start_matches("claude:/");
    assert!(!case.fixture.host.agents().iter().any(|agent| agent.command.contains(id)));
}

async fn empty_command_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for text in ["!", "!   ", "!\n"] {
        client.dispatch_rejected(&uris.chat, turn_started_action(text)).await;
    }
}

async fn queued_command_runs_after_the_running_turn(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let first = client.send_message(&uris.chat, &format!("wait {}", case.dir.join("go").display())).await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    client.dispatch_accepted(&uris.chat, pending_message_action("queued", "q", "!echo queued")).await;
    case.write_file("go", "");
    client.wait_for_turn_end(&uris.chat, &first).await;
    let complete = client.wait_for_action(&uris.chat, "chat/toolCallComplete").await;
    assert_eq!(complete["result"]["content"][0]["text"], "queued\n");
}

async fn command_is_never_steered_into_a_turn(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let first = client.send_message(&uris.chat, &format!("wait {}", case.dir.join("go").display())).await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    client.dispatch_accepted(&uris.chat, pending_message_action("steering", "s", "!echo later")).await;
    let state = client.subscribe(&uris.chat).await;
    assert_eq!(state.get("steeringMessage"), None);
    assert_eq!(state["queuedMessages"][0]["message"]["text"], "!echo later");
    case.write_file("go", "");
    client.wait_for_turn_end(&uris.chat, &first).await;
    client.wait_for_action(&uris.chat, "chat/toolCallComplete").await;
}

async fn non_text_output_is_tolerated(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, r"!printf 'a\377\000b'").await;
    let text = printed(&turn).trim_end();
    assert!(text.starts_with('a') && text.ends_with('b'), "{turn:#}");
    client.assert_state_matches_host(&uris.chat).await;
}

async fn end_of_long_output_is_shown(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "!seq 1 200000; echo the end").await;
    let content = call(&turn)["content"].as_array().unwrap();
    let whole = content.iter().find_map(|content| content["uri"].as_str()).expect("a name for all of it");
    let text = client.call_ok("resourceRead", json!({"uri": whole})).await["data"].as_str().unwrap().to_owned();
    assert!(text.ends_with("200000\nthe end\n") && text.len() < 257 * 1024, "{} bytes", text.len());
    assert!(turn.to_string().len() < 10_000, "the state holds little of it");
}

async fn missing_command_fails_with_a_message(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "!no-such-command-here").await;
    assert!(printed(&turn).contains("not found"), "{turn:#}");
    assert_eq!(call(&turn)["structuredContent"]["exitCode"], 127);
}

async fn command_turn_cannot_be_resumed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "!exit 1").await;
    client.dispatch_rejected(&uris.chat, json!({"type": "chat/turnResume", "turnId": turn["id"]})).await;
}

async fn rename_is_a_local_turn(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_and_wait(&uris.chat, "/rename Mended fence").await;
    assert_eq!(turn["state"], "complete");
    let state = client.subscribe(&uris.session).await;
    assert_eq!((&state["title"], &state["chats"][0]["title"]), (&json!("Mended fence"), &json!("Mended fence")));
    client.assert_state_matches_host(&uris.session).await;
}

async fn rename_without_a_title_changes_nothing(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "/rename First").await;
    client.send_and_wait(&uris.chat, "/rename").await;
    client.send_and_wait(&uris.chat, "/rename   ").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "First");
}

async fn rename_trims_the_title(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "/rename   My   chat ").await;
    assert_eq!(client.subscribe(&uris.session).await["title"], "My chat");
}

async fn other_slash_commands_go_to_the_agent(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    for text in ["/renamed x", "/help", "say /rename x"] {
        assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, text).await), format!("echo: {text}"));
    }
}

async fn audit_log_contains_commands(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "!echo audited").await;
    let log = client.call_ok("hostler/listAudit", json!({"channel": uris.session})).await;
    let entry = &log["items"][0];
    assert_eq!((&entry["decidedBy"], &entry["decision"]), (&json!(client.id), &json!("allow")), "{log:#}");
    assert!(entry["input"].as_str().unwrap().contains("echo audited"));
}

async fn two_sessions_run_commands_concurrently(case: ProtocolCase) {
    let (mut one, mine) = case.connect_with_session().await;
    let (mut two, theirs) = case.connect_with_session().await;
    // Each command waits for the other.
    let a = one.send_message(&mine.chat, "!touch a; while [ ! -e b ]; do sleep 0.05; done").await;
    let b = two.send_message(&theirs.chat, "!touch b; while [ ! -e a ]; do sleep 0.05; done").await;
    one.wait_for_turn_end(&mine.chat, &a).await;
    two.wait_for_turn_end(&theirs.chat, &b).await;
}

async fn agent_continues_after_a_command(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.send_and_wait(&uris.chat, "one").await;
    client.send_and_wait(&uris.chat, "!echo between").await;
    assert_eq!(markdown_text(&client.send_and_wait(&uris.chat, "two").await), "echo: two");
    assert_eq!(client.subscribe(&uris.chat).await["turns"].as_array().unwrap().len(), 3);
    client.assert_state_matches_host(&uris.chat).await;
}
