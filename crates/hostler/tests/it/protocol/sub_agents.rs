//! Sub-agents of the real agent: read-only chats.

use super::harness::*;

area! { HostFixture::with_claude("native", &[]);
    sub_agent_has_a_chat_that_its_call_refers_to,
    sub_agent_chat_is_announced_before_its_output,
    sub_agent_chat_accepts_no_messages,
    subscribe_waits_for_a_starting_sub_agent_chat,
    sub_agent_asks_in_its_own_chat,
    cancelling_the_turn_cancels_its_sub_agent,
    awaited_sub_agent_turn_cannot_be_cancelled,
    sub_agent_chats_match_their_envelopes,
}

/// Returns the model's line that makes a sub-agent run a script.
fn helper(script: &str) -> String {
    let input = json!({"description": "a helper", "prompt": script, "subagent_type": "general-purpose",
        "run_in_background": false});
    format!("!tool Agent {input}\n!say done")
}

/// Returns a script that requests a permission.
fn makes(directory: &str) -> String {
    let input = json!({"command": format!("mkdir {directory}"), "description": "for the test"});
    format!("!tool Bash {input}\n!say {directory} is made")
}

/// Starts a sub-agent; returns its chat.
async fn working(client: &mut RecordingClient, uris: &CaseUris, script: &str) -> (String, String) {
    let turn = client.send_message(&uris.chat, &helper(script)).await;
    let added = client.wait_for_action(&uris.session, "session/chatAdded").await["summary"].take();
    (turn, added["resource"].as_str().unwrap().to_owned())
}

async fn sub_agent_has_a_chat_that_its_call_refers_to(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let (turn, sub_agent_chat) = working(&mut client, &uris, "!say from below").await;
    assert_eq!(client.wait_for_turn_end(&uris.chat, &turn).await["type"], "chat/turnComplete");
    let state = client.subscribe(&sub_agent_chat).await;
    assert_eq!((&state["interactivity"], &state["origin"]["chat"]), (&json!("read-only"), &json!(uris.chat)));
    assert!(markdown_text(&state["turns"][0]).contains("from below"), "{state:#}");
    let parent = client.subscribe(&uris.chat).await;
    let parts = parent["turns"][0]["responseParts"].as_array().unwrap();
    let call = &parts.iter().find(|part| part["toolCall"]["toolName"] == "Agent").unwrap()["toolCall"];
    assert_eq!(
        (&call["content"][0]["type"], &call["content"][0]["resource"]),
        (&json!("subagent"), &json!(sub_agent_chat))
    );
    assert_eq!(state["origin"]["toolCallId"], call["toolCallId"]);
}

async fn sub_agent_chat_is_announced_before_its_output(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let (turn, sub_agent_chat) = working(&mut client, &uris, "!say hello").await;
    assert!(sub_agent_chat.starts_with("ahp-chat://subagent/"), "{sub_agent_chat}");
    client.subscribe(&sub_agent_chat).await;
    client.wait_for_turn_end(&uris.chat, &turn).await;
    client.assert_state_matches_host(&sub_agent_chat).await;
    let chats = client.subscribe(&uris.session).await["chats"].clone();
    let line = chats.as_array().unwrap().iter().find(|line| line["resource"] == sub_agent_chat).unwrap();
    assert_eq!(line["interactivity"], "read-only");
}

async fn sub_agent_chat_accepts_no_messages(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let (turn_id, sub_agent_chat) = working(&mut client, &uris, "!say hello").await;
    client.wait_for_turn_end(&uris.chat, &turn_id).await;
    let before = client.subscribe(&sub_agent_chat).await;
    for action in [
        turn_started_action("hello"),
        pending_message_action("queued", "q", "x"),
        pending_message_action("steering", "s", "x"),
    ] {
        client.dispatch_rejected(&sub_agent_chat, action).await;
    }
    assert_eq!(client.subscribe(&sub_agent_chat).await["turns"], before["turns"]);
}

async fn subscribe_waits_for_a_starting_sub_agent_chat(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, &helper("!say hello")).await;
    let start = client.wait_for_action(&uris.chat, "chat/toolCallStart").await;
    let sub_agent_chat =
        format!("{}/{}", uris.chat.replace("//default/", "//subagent/"), start["toolCallId"].as_str().unwrap());
    let state = client.subscribe(&sub_agent_chat).await;
    assert_eq!(state["resource"], sub_agent_chat);
    client.wait_for_turn_end(&uris.chat, &turn).await;
}

async fn sub_agent_asks_in_its_own_chat(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, &helper(&makes("made"))).await;
    let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
    let sub_agent_chat = needed["chat"].as_str().unwrap().to_owned();
    assert_ne!(sub_agent_chat, uris.chat);
    let yes = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
        "toolCallId": needed["toolCall"]["toolCallId"], "approved": true, "confirmed": "user-action"});
    // Without a subscription to that chat.
    client.dispatch(&sub_agent_chat, yes).await;
    assert_eq!(client.wait_for_turn_end(&uris.chat, &turn).await["type"], "chat/turnComplete");
    assert!(case.dir.join("made").is_dir());
}

async fn cancelling_the_turn_cancels_its_sub_agent(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, &helper(&makes("made"))).await;
    let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
    let sub_agent_chat = needed["chat"].as_str().unwrap().to_owned();
    client.subscribe(&sub_agent_chat).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    while client.subscribe(&sub_agent_chat).await.get("activeTurn").is_some() {
        client.wait_for(|message| message["params"]["channel"] == sub_agent_chat).await;
    }
    assert_eq!(client.subscribe(&sub_agent_chat).await["turns"][0]["state"], "cancelled");
    assert!(!case.dir.join("made").exists());
    client.assert_state_matches_host(&sub_agent_chat).await;
}

async fn awaited_sub_agent_turn_cannot_be_cancelled(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, &helper(&makes("made"))).await;
    let needed = client.wait_for_action(&uris.session, "session/inputNeededSet").await["request"].take();
    let sub_agent_chat = needed["chat"].as_str().unwrap().to_owned();
    client.dispatch_rejected(&sub_agent_chat, turn_cancelled_action(needed["turnId"].as_str().unwrap())).await;
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
}

async fn sub_agent_chats_match_their_envelopes(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let (turn, sub_agent_chat) = working(&mut client, &uris, "!think hm\n!say hello").await;
    client.subscribe(&sub_agent_chat).await;
    client.wait_for_turn_end(&uris.chat, &turn).await;
    for channel in [&uris.session, &uris.chat, &sub_agent_chat] {
        client.assert_state_matches_host(channel).await;
    }
}
