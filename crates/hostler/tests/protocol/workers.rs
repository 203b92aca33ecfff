//! Sub-agents of the real agent: chats that are read and not written to.

use super::kit::*;

area! { Stage::real("native", &[]);
    a_worker_is_a_chat_that_its_call_names,
    a_worker_s_chat_is_told_before_it_speaks,
    a_worker_s_chat_takes_no_messages,
    a_subscription_waits_for_a_worker_that_begins,
    a_worker_asks_in_its_own_chat,
    a_cancel_of_the_turn_cancels_its_worker,
    a_worker_s_turn_cannot_be_cancelled_while_it_is_waited_for,
    all_chats_agree_with_what_was_told,
}

/// The model's line that lets a sub-agent follow a script.
fn helper(script: &str) -> String {
    let input = json!({"description": "a helper", "prompt": script, "subagent_type": "general-purpose",
        "run_in_background": false});
    format!("!tool Agent {input}\n!say done")
}

/// A script that asks for a permission.
fn makes(directory: &str) -> String {
    let input = json!({"command": format!("mkdir {directory}"), "description": "for the test"});
    format!("!tool Bash {input}\n!say {directory} is made")
}

/// Lets a sub-agent begin; answers its chat.
async fn working(client: &mut Client, uris: &Uris, script: &str) -> (String, String) {
    let turn = client.say(&uris.chat, &helper(script)).await;
    let added = client.action(&uris.session, "session/chatAdded").await["summary"].take();
    (turn, added["resource"].as_str().unwrap().to_owned())
}

async fn a_worker_is_a_chat_that_its_call_names(case: Case) {
    let (mut client, uris) = case.session().await;
    let (turn, worker) = working(&mut client, &uris, "!say from below").await;
    assert_eq!(client.end(&uris.chat, &turn).await["type"], "chat/turnComplete");
    let state = client.subscribe(&worker).await;
    assert_eq!((&state["interactivity"], &state["origin"]["chat"]), (&json!("read-only"), &json!(uris.chat)));
    assert!(words(&state["turns"][0]).contains("from below"), "{state:#}");
    let parent = client.subscribe(&uris.chat).await;
    let parts = parent["turns"][0]["responseParts"].as_array().unwrap();
    let call = &parts.iter().find(|part| part["toolCall"]["toolName"] == "Agent").unwrap()["toolCall"];
    assert_eq!((&call["content"][0]["type"], &call["content"][0]["resource"]), (&json!("subagent"), &json!(worker)));
    assert_eq!(state["origin"]["toolCallId"], call["toolCallId"]);
}

async fn a_worker_s_chat_is_told_before_it_speaks(case: Case) {
    let (mut client, uris) = case.session().await;
    let (turn, worker) = working(&mut client, &uris, "!say hello").await;
    assert!(worker.starts_with("ahp-chat://subagent/"), "{worker}");
    client.subscribe(&worker).await;
    client.end(&uris.chat, &turn).await;
    client.agrees(&worker).await;
    let chats = client.subscribe(&uris.session).await["chats"].clone();
    let line = chats.as_array().unwrap().iter().find(|line| line["resource"] == worker).unwrap();
    assert_eq!(line["interactivity"], "read-only");
}

async fn a_worker_s_chat_takes_no_messages(case: Case) {
    let (mut client, uris) = case.session().await;
    let (turn_id, worker) = working(&mut client, &uris, "!say hello").await;
    client.end(&uris.chat, &turn_id).await;
    let before = client.subscribe(&worker).await;
    for wish in [turn("hello"), pending("queued", "q", "x"), pending("steering", "s", "x")] {
        client.refused(&worker, wish).await;
    }
    assert_eq!(client.subscribe(&worker).await["turns"], before["turns"]);
}

async fn a_subscription_waits_for_a_worker_that_begins(case: Case) {
    let (mut client, uris) = case.session().await;
    let turn = client.say(&uris.chat, &helper("!say hello")).await;
    let start = client.action(&uris.chat, "chat/toolCallStart").await;
    let worker =
        format!("{}/{}", uris.chat.replace("//default/", "//subagent/"), start["toolCallId"].as_str().unwrap());
    let state = client.subscribe(&worker).await;
    assert_eq!(state["resource"], worker);
    client.end(&uris.chat, &turn).await;
}

async fn a_worker_asks_in_its_own_chat(case: Case) {
    let (mut client, uris) = case.session().await;
    let turn = client.say(&uris.chat, &helper(&makes("made"))).await;
    let needed = client.action(&uris.session, "session/inputNeededSet").await["request"].take();
    let worker = needed["chat"].as_str().unwrap().to_owned();
    assert_ne!(worker, uris.chat);
    let yes = json!({"type": "chat/toolCallConfirmed", "turnId": needed["turnId"],
        "toolCallId": needed["toolCall"]["toolCallId"], "approved": true, "confirmed": "user-action"});
    // Without hearing that chat.
    client.dispatch(&worker, yes).await;
    assert_eq!(client.end(&uris.chat, &turn).await["type"], "chat/turnComplete");
    assert!(case.dir.join("made").is_dir());
}

async fn a_cancel_of_the_turn_cancels_its_worker(case: Case) {
    let (mut client, uris) = case.session().await;
    let turn = client.say(&uris.chat, &helper(&makes("made"))).await;
    let needed = client.action(&uris.session, "session/inputNeededSet").await["request"].take();
    let worker = needed["chat"].as_str().unwrap().to_owned();
    client.subscribe(&worker).await;
    client.accepted(&uris.chat, cancel(&turn)).await;
    while client.subscribe(&worker).await.get("activeTurn").is_some() {
        client.until(|message| message["params"]["channel"] == worker).await;
    }
    assert_eq!(client.subscribe(&worker).await["turns"][0]["state"], "cancelled");
    assert!(!case.dir.join("made").exists());
    client.agrees(&worker).await;
}

async fn a_worker_s_turn_cannot_be_cancelled_while_it_is_waited_for(case: Case) {
    let (mut client, uris) = case.session().await;
    let turn = client.say(&uris.chat, &helper(&makes("made"))).await;
    let needed = client.action(&uris.session, "session/inputNeededSet").await["request"].take();
    let worker = needed["chat"].as_str().unwrap().to_owned();
    client.refused(&worker, cancel(needed["turnId"].as_str().unwrap())).await;
    client.accepted(&uris.chat, cancel(&turn)).await;
}

async fn all_chats_agree_with_what_was_told(case: Case) {
    let (mut client, uris) = case.session().await;
    let (turn, worker) = working(&mut client, &uris, "!think hm\n!say hello").await;
    client.subscribe(&worker).await;
    client.end(&uris.chat, &turn).await;
    for channel in [&uris.session, &uris.chat, &worker] {
        client.agrees(channel).await;
    }
}
