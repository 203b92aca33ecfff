//! Drafts, titles and flags of sessions and chats.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    draft_is_stored_and_shared,
    absent_draft_clears_it,
    draft_has_all_fields_of_a_message,
    draft_survives_turns,
    huge_draft_is_rejected,
    session_title_is_shared,
    chat_title_is_separate_from_the_session_title,
    empty_title_is_rejected,
    overlong_title_is_rejected,
    non_text_title_is_rejected,
    session_is_marked_read_and_unread,
    session_is_archived_and_unarchived,
    chat_is_marked_read_and_unread,
    chat_is_archived_and_unarchived,
    flags_do_not_change_the_status,
    non_boolean_flag_is_rejected,
    unchanged_flag_is_echoed,
    status_has_no_unknown_bits,
}

fn draft(text: &str) -> Value {
    json!({"type": "chat/draftChanged", "draft": user_message(text)})
}

async fn draft_is_stored_and_shared(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut other = case.connect_to_session(&uris).await;
    client.dispatch_accepted(&uris.chat, draft("half a thou")).await;
    assert_eq!(other.wait_for_action(&uris.chat, "chat/draftChanged").await["draft"]["text"], "half a thou");
    other.assert_state_matches_host(&uris.chat).await;
    assert_eq!(other.subscribe(&uris.chat).await["draft"]["text"], "half a thou");
}

async fn absent_draft_clears_it(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.chat, draft("x")).await;
    client.dispatch_accepted(&uris.chat, json!({"type": "chat/draftChanged"})).await;
    assert_eq!(client.subscribe(&uris.chat).await.get("draft"), None);
    client.assert_state_matches_host(&uris.chat).await;
}

async fn draft_has_all_fields_of_a_message(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut action = draft("with model");
    action["draft"]["model"] = json!({"id": "some-model", "config": {"effort": "low"}});
    action["draft"]["_meta"] = json!({"cursor": 4});
    client.dispatch_accepted(&uris.chat, action.clone()).await;
    assert_eq!(client.subscribe(&uris.chat).await["draft"], action["draft"]);
}

async fn draft_survives_turns(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_accepted(&uris.chat, draft("for later")).await;
    client.send_and_wait(&uris.chat, "now").await;
    assert_eq!(client.subscribe(&uris.chat).await["draft"]["text"], "for later");
}

async fn huge_draft_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    client.dispatch_rejected(&uris.chat, draft(&"x".repeat(1_048_577))).await;
    assert_eq!(client.subscribe(&uris.chat).await.get("draft"), None);
}

fn title(title: &Value) -> Value {
    json!({"type": "session/titleChanged", "title": title})
}

async fn session_title_is_shared(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let mut other = case.connect_to_session(&uris).await;
    client.dispatch_accepted(&uris.session, title(&json!("Ours"))).await;
    assert_eq!(other.wait_for_action(&uris.session, "session/titleChanged").await["title"], "Ours");
    other.assert_state_matches_host(&uris.session).await;
}

async fn chat_title_is_separate_from_the_session_title(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    client.dispatch_accepted(&uris.chat, title(&json!("By the chat"))).await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!((&state["title"], &state["chats"][0]["title"]), (&json!("hello"), &json!("By the chat")));
    client.assert_state_matches_host(&uris.session).await;
}

async fn refused_titles(case: &ProtocolCase, titles: &[Value]) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let before = client.subscribe(&uris.session).await;
    for channel in [&uris.session, &uris.chat] {
        for action in titles {
            client.dispatch_rejected(channel, title(action)).await;
        }
    }
    assert_eq!(client.subscribe(&uris.session).await["title"], before["title"]);
}

async fn empty_title_is_rejected(case: ProtocolCase) {
    refused_titles(&case, &[json!("")]).await;
}

async fn overlong_title_is_rejected(case: ProtocolCase) {
    refused_titles(&case, &[json!("x".repeat(1001)), json!("ü".repeat(501))]).await;
}

async fn non_text_title_is_rejected(case: ProtocolCase) {
    refused_titles(&case, &[json!(7), json!(null), json!(["x"]), json!({"markdown": "x"})]).await;
}

async fn marked(case: &ProtocolCase, on_chat: bool, action: &str, key: &str, bit: u64) {
    let (mut client, uris) = case.connect_with_started_session().await;
    let mut other = case.connect_to_session(&uris).await;
    let channel = if on_chat { &uris.chat } else { &uris.session };
    for set in [true, false, true] {
        client.dispatch_accepted(channel, json!({"type": action, key: set})).await;
        assert_eq!(other.wait_for_action(channel, action).await[key], set);
        let status = client.subscribe(channel).await["status"].as_u64().unwrap();
        assert_eq!(status & bit != 0, set, "{status}");
    }
    for channel in [&uris.session, &uris.chat] {
        client.assert_state_matches_host(channel).await;
        other.assert_state_matches_host(channel).await;
    }
}

async fn session_is_marked_read_and_unread(case: ProtocolCase) {
    marked(&case, false, "session/isReadChanged", "isRead", 32).await;
}

async fn session_is_archived_and_unarchived(case: ProtocolCase) {
    marked(&case, false, "session/isArchivedChanged", "isArchived", 64).await;
}

async fn chat_is_marked_read_and_unread(case: ProtocolCase) {
    marked(&case, true, "chat/isReadChanged", "isRead", 32).await;
}

async fn chat_is_archived_and_unarchived(case: ProtocolCase) {
    marked(&case, true, "chat/isArchivedChanged", "isArchived", 64).await;
}

async fn flags_do_not_change_the_status(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    let turn = client.send_message(&uris.chat, "hang").await;
    client.wait_for_action(&uris.chat, "chat/delta").await;
    for (channel, kind) in [(&uris.session, "session"), (&uris.chat, "chat")] {
        client.dispatch_accepted(channel, json!({"type": format!("{kind}/isReadChanged"), "isRead": true})).await;
        client
            .dispatch_accepted(channel, json!({"type": format!("{kind}/isArchivedChanged"), "isArchived": true}))
            .await;
    }
    assert_eq!(client.subscribe(&uris.chat).await["status"].as_u64().unwrap(), 8 + 32 + 64);
    client.dispatch_accepted(&uris.chat, turn_cancelled_action(&turn)).await;
    assert_eq!(client.subscribe(&uris.chat).await["status"].as_u64().unwrap() & 65, 65, "idle, and still archived");
}

async fn non_boolean_flag_is_rejected(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for value in [json!(1), json!("true"), json!(null)] {
        client.dispatch_rejected(&uris.session, json!({"type": "session/isReadChanged", "isRead": value})).await;
        client.dispatch_rejected(&uris.chat, json!({"type": "chat/isArchivedChanged", "isArchived": value})).await;
    }
    client.dispatch_rejected(&uris.session, json!({"type": "session/isArchivedChanged"})).await;
}

async fn unchanged_flag_is_echoed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for _ in 0..3 {
        client.dispatch_accepted(&uris.session, json!({"type": "session/isArchivedChanged", "isArchived": true})).await;
    }
}

async fn status_has_no_unknown_bits(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    for channel in [&uris.session, &uris.chat] {
        let status = client.subscribe(channel).await["status"].as_u64().unwrap();
        assert_eq!(status & !127, 0, "{status}");
        assert!([1, 2, 8, 24].contains(&(status & 31)), "{status}");
    }
}
