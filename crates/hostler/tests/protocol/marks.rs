//! Drafts, titles, and the marks that people leave on sessions and chats.

use super::kit::*;

area! { Stage::fake();
    a_draft_is_kept_and_shared,
    a_draft_is_cleared_by_leaving_it_out,
    a_draft_holds_what_a_message_holds,
    a_draft_outlives_turns,
    a_huge_draft_is_refused,
    a_title_is_everybody_s,
    a_title_of_the_chat_is_the_chat_s_alone,
    an_empty_title_is_refused,
    an_overlong_title_is_refused,
    a_title_that_is_no_text_is_refused,
    a_session_is_read_and_unread,
    a_session_is_archived_and_taken_back,
    a_chat_is_read_and_unread,
    a_chat_is_archived_and_taken_back,
    marks_do_not_touch_what_is_going_on,
    a_mark_that_is_no_truth_value_is_refused,
    a_mark_that_is_set_already_is_answered,
    unknown_bits_of_a_status_are_not_made_up,
}

fn draft(text: &str) -> Value {
    json!({"type": "chat/draftChanged", "draft": message(text)})
}

async fn a_draft_is_kept_and_shared(case: Case) {
    let (mut client, uris) = case.session().await;
    let mut other = case.beside(&uris).await;
    client.accepted(&uris.chat, draft("half a thou")).await;
    assert_eq!(other.action(&uris.chat, "chat/draftChanged").await["draft"]["text"], "half a thou");
    other.agrees(&uris.chat).await;
    assert_eq!(other.subscribe(&uris.chat).await["draft"]["text"], "half a thou");
}

async fn a_draft_is_cleared_by_leaving_it_out(case: Case) {
    let (mut client, uris) = case.session().await;
    client.accepted(&uris.chat, draft("x")).await;
    client.accepted(&uris.chat, json!({"type": "chat/draftChanged"})).await;
    assert_eq!(client.subscribe(&uris.chat).await.get("draft"), None);
    client.agrees(&uris.chat).await;
}

async fn a_draft_holds_what_a_message_holds(case: Case) {
    let (mut client, uris) = case.session().await;
    let mut wish = draft("with model");
    wish["draft"]["model"] = json!({"id": "some-model", "config": {"effort": "low"}});
    wish["draft"]["_meta"] = json!({"cursor": 4});
    client.accepted(&uris.chat, wish.clone()).await;
    assert_eq!(client.subscribe(&uris.chat).await["draft"], wish["draft"]);
}

async fn a_draft_outlives_turns(case: Case) {
    let (mut client, uris) = case.session().await;
    client.accepted(&uris.chat, draft("for later")).await;
    client.ask(&uris.chat, "now").await;
    assert_eq!(client.subscribe(&uris.chat).await["draft"]["text"], "for later");
}

async fn a_huge_draft_is_refused(case: Case) {
    let (mut client, uris) = case.session().await;
    client.refused(&uris.chat, draft(&"x".repeat(1_048_577))).await;
    assert_eq!(client.subscribe(&uris.chat).await.get("draft"), None);
}

fn title(title: &Value) -> Value {
    json!({"type": "session/titleChanged", "title": title})
}

async fn a_title_is_everybody_s(case: Case) {
    let (mut client, uris) = case.session().await;
    let mut other = case.beside(&uris).await;
    client.accepted(&uris.session, title(&json!("Ours"))).await;
    assert_eq!(other.action(&uris.session, "session/titleChanged").await["title"], "Ours");
    other.agrees(&uris.session).await;
}

async fn a_title_of_the_chat_is_the_chat_s_alone(case: Case) {
    let (mut client, uris) = case.begun().await;
    client.accepted(&uris.chat, title(&json!("By the chat"))).await;
    let state = client.subscribe(&uris.session).await;
    assert_eq!((&state["title"], &state["chats"][0]["title"]), (&json!("hello"), &json!("By the chat")));
    client.agrees(&uris.session).await;
}

async fn refused_titles(case: &Case, titles: &[Value]) {
    let (mut client, uris) = case.begun().await;
    let before = client.subscribe(&uris.session).await;
    for channel in [&uris.session, &uris.chat] {
        for wish in titles {
            client.refused(channel, title(wish)).await;
        }
    }
    assert_eq!(client.subscribe(&uris.session).await["title"], before["title"]);
}

async fn an_empty_title_is_refused(case: Case) {
    refused_titles(&case, &[json!("")]).await;
}

async fn an_overlong_title_is_refused(case: Case) {
    refused_titles(&case, &[json!("x".repeat(1001)), json!("ü".repeat(501))]).await;
}

async fn a_title_that_is_no_text_is_refused(case: Case) {
    refused_titles(&case, &[json!(7), json!(null), json!(["x"]), json!({"markdown": "x"})]).await;
}

async fn marked(case: &Case, on_chat: bool, action: &str, key: &str, bit: u64) {
    let (mut client, uris) = case.begun().await;
    let mut other = case.beside(&uris).await;
    let channel = if on_chat { &uris.chat } else { &uris.session };
    for set in [true, false, true] {
        client.accepted(channel, json!({"type": action, key: set})).await;
        assert_eq!(other.action(channel, action).await[key], set);
        let status = client.subscribe(channel).await["status"].as_u64().unwrap();
        assert_eq!(status & bit != 0, set, "{status}");
    }
    for channel in [&uris.session, &uris.chat] {
        client.agrees(channel).await;
        other.agrees(channel).await;
    }
}

async fn a_session_is_read_and_unread(case: Case) {
    marked(&case, false, "session/isReadChanged", "isRead", 32).await;
}

async fn a_session_is_archived_and_taken_back(case: Case) {
    marked(&case, false, "session/isArchivedChanged", "isArchived", 64).await;
}

async fn a_chat_is_read_and_unread(case: Case) {
    marked(&case, true, "chat/isReadChanged", "isRead", 32).await;
}

async fn a_chat_is_archived_and_taken_back(case: Case) {
    marked(&case, true, "chat/isArchivedChanged", "isArchived", 64).await;
}

async fn marks_do_not_touch_what_is_going_on(case: Case) {
    let (mut client, uris) = case.session().await;
    let turn = client.say(&uris.chat, "hang").await;
    client.action(&uris.chat, "chat/delta").await;
    for (channel, kind) in [(&uris.session, "session"), (&uris.chat, "chat")] {
        client.accepted(channel, json!({"type": format!("{kind}/isReadChanged"), "isRead": true})).await;
        client.accepted(channel, json!({"type": format!("{kind}/isArchivedChanged"), "isArchived": true})).await;
    }
    assert_eq!(client.subscribe(&uris.chat).await["status"].as_u64().unwrap(), 8 + 32 + 64);
    client.accepted(&uris.chat, cancel(&turn)).await;
    assert_eq!(client.subscribe(&uris.chat).await["status"].as_u64().unwrap() & 65, 65, "idle, and still archived");
}

async fn a_mark_that_is_no_truth_value_is_refused(case: Case) {
    let (mut client, uris) = case.begun().await;
    for value in [json!(1), json!("true"), json!(null)] {
        client.refused(&uris.session, json!({"type": "session/isReadChanged", "isRead": value})).await;
        client.refused(&uris.chat, json!({"type": "chat/isArchivedChanged", "isArchived": value})).await;
    }
    client.refused(&uris.session, json!({"type": "session/isArchivedChanged"})).await;
}

async fn a_mark_that_is_set_already_is_answered(case: Case) {
    let (mut client, uris) = case.begun().await;
    for _ in 0..3 {
        client.accepted(&uris.session, json!({"type": "session/isArchivedChanged", "isArchived": true})).await;
    }
}

async fn unknown_bits_of_a_status_are_not_made_up(case: Case) {
    let (mut client, uris) = case.begun().await;
    for channel in [&uris.session, &uris.chat] {
        let status = client.subscribe(channel).await["status"].as_u64().unwrap();
        assert_eq!(status & !127, 0, "{status}");
        assert!([1, 2, 8, 24].contains(&(status & 31)), "{status}");
    }
}
