//! Completions for a message that is being typed.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    files_are_completed_after_an_at_sign,
    files_are_completed_after_a_hash,
    completion_ignores_case,
    completion_replaces_only_the_word_before_the_cursor,
    completion_offsets_are_utf_16,
    at_sign_inside_a_word_completes_nothing,
    git_ignored_files_are_not_completed,
    files_with_the_same_name_are_distinguished,
    completed_names_with_spaces_are_quoted,
    at_most_fifty_completions_are_returned,
    new_file_is_completed_at_once,
    commands_are_completed_only_at_the_start,
    completion_item_contains_its_attachment,
    plain_text_has_no_completions,
    invalid_completion_offset_is_rejected,
    completion_on_an_unknown_channel_is_32001,
    unknown_completion_kind_returns_nothing,
    completion_without_parameters_is_invalid,
    own_chat_is_not_completed,
}

async fn offered(client: &mut RecordingClient, chat: &str, text: &str) -> Vec<Value> {
    let offset = text.encode_utf16().count();
    let params = json!({"channel": chat, "kind": "userMessage", "text": text, "offset": offset});
    client.call_ok("completions", params).await["items"].as_array().unwrap().clone()
}

async fn texts(client: &mut RecordingClient, chat: &str, text: &str) -> Vec<String> {
    let items = offered(client, chat, text).await;
    items.iter().map(|item| item["insertText"].as_str().unwrap().to_owned()).collect()
}

async fn with_files(case: &ProtocolCase, files: &[&str]) -> (RecordingClient, String) {
    for file in files {
        let path = case.dir.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let (client, uris) = case.connect_with_session().await;
    (client, uris.chat)
}

async fn files_are_completed_after_an_at_sign(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["src/main.rs", "other.md"]).await;
    assert_eq!(texts(&mut client, &chat, "@main").await, ["@src/main.rs"]);
    assert_eq!(texts(&mut client, &chat, "see @oth").await, ["@other.md"]);
}

async fn files_are_completed_after_a_hash(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["src/main.rs"]).await;
    assert_eq!(texts(&mut client, &chat, "#main").await, ["#src/main.rs"]);
}

async fn completion_ignores_case(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["README.md"]).await;
    for query in ["@readme", "@README", "@ReadMe"] {
        assert_eq!(texts(&mut client, &chat, query).await, ["@README.md"], "{query}");
    }
}

async fn completion_replaces_only_the_word_before_the_cursor(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    let params = json!({"channel": chat, "kind": "userMessage", "text": "a @main and more", "offset": 7});
    let items = client.call_ok("completions", params).await;
    let item = &items["items"][0];
    assert_eq!((&item["rangeStart"], &item["rangeEnd"]), (&json!(2), &json!(7)), "{items:#}");
}

async fn completion_offsets_are_utf_16(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    let items = offered(&mut client, &chat, "🐎ü @main").await;
    assert_eq!((&items[0]["rangeStart"], &items[0]["rangeEnd"]), (&json!(4), &json!(9)));
}

async fn at_sign_inside_a_word_completes_nothing(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    assert_eq!(texts(&mut client, &chat, "me@main").await, [""; 0]);
}

async fn git_ignored_files_are_not_completed(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["out/main.o", "main.c"]).await;
    case.write_file(".gitignore", "out/\n");
    assert_eq!(texts(&mut client, &chat, "@main").await, ["@main.c"]);
}

async fn files_with_the_same_name_are_distinguished(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["a/mod.rs", "b/mod.rs"]).await;
    let items = offered(&mut client, &chat, "@mod").await;
    let labels: Vec<_> = items.iter().map(|item| item["attachment"]["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["a/mod.rs", "b/mod.rs"]);
}

async fn completed_names_with_spaces_are_quoted(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["two words.md"]).await;
    assert_eq!(texts(&mut client, &chat, "@two").await, ["@\"two words.md\""]);
}

async fn at_most_fifty_completions_are_returned(case: ProtocolCase) {
    let names: Vec<_> = (0..80).map(|number| format!("f{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let (mut client, chat) = with_files(&case, &names).await;
    assert_eq!(texts(&mut client, &chat, "@").await.len(), 50);
}

async fn new_file_is_completed_at_once(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["one.rs"]).await;
    assert_eq!(texts(&mut client, &chat, "@two").await, [""; 0]);
    case.write_file("two.rs", "");
    assert_eq!(texts(&mut client, &chat, "@two").await, ["@two.rs"]);
}

async fn commands_are_completed_only_at_the_start(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &[]).await;
    assert_eq!(texts(&mut client, &chat, "/ren").await, ["/rename"]);
    assert_eq!(texts(&mut client, &chat, "then /ren").await, [""; 0]);
}

async fn completion_item_contains_its_attachment(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    let item = &offered(&mut client, &chat, "@main").await[0];
    assert_eq!(item["attachment"]["type"], "resource");
    assert_eq!(
        (&item["attachment"]["uri"], &item["attachment"]["label"]),
        (&json!(case.uri("main.rs")), &json!("main.rs"))
    );
    // A completion is accepted as part of a message.
    let mut action = turn_started_action("look at @main.rs");
    action["message"]["attachments"] = json!([item["attachment"]]);
    client.dispatch_accepted(&chat, action.clone()).await;
    client.wait_for_turn_end(&chat, action["turnId"].as_str().unwrap()).await;
}

async fn plain_text_has_no_completions(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    for text in ["", "main", "main.rs", "@main ", "a/b", "!ls"] {
        assert_eq!(texts(&mut client, &chat, text).await, [""; 0], "{text:?}");
    }
}

async fn invalid_completion_offset_is_rejected(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &[]).await;
    for (text, offset) in
        [("ab", json!(3)), ("ab", json!(-1)), ("🐎", json!(1)), ("ab", json!("1")), ("ab", json!(0.5))]
    {
        let params = json!({"channel": chat, "kind": "userMessage", "text": text, "offset": offset});
        assert_eq!(client.call_error_code("completions", params).await, -32602, "{text} {offset}");
    }
}

async fn completion_on_an_unknown_channel_is_32001(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for channel in [&*CaseUris::random().chat, "claude:/unknown", "nonsense"] {
        let params = json!({"channel": channel, "kind": "userMessage", "text": "@", "offset": 1});
        assert_eq!(client.call_error_code("completions", params).await, -32001, "{channel}");
    }
}

async fn unknown_completion_kind_returns_nothing(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    let params = json!({"channel": chat, "kind": "fromTheFuture", "text": "@m", "offset": 2});
    assert_eq!(client.call_ok("completions", params).await, json!({"items": []}));
}

async fn completion_without_parameters_is_invalid(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &[]).await;
    for params in [
        json!({"channel": chat}),
        json!({"channel": chat, "kind": "userMessage", "text": "@"}),
        json!({"channel": chat, "kind": "userMessage", "offset": 0}),
        json!({"channel": chat, "text": "@", "offset": 1}),
    ] {
        assert_eq!(client.call_error_code("completions", params.clone()).await, -32602, "{params}");
    }
}

async fn own_chat_is_not_completed(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    assert_eq!(texts(&mut client, &uris.chat, "#chat:").await, [""; 0]);
}
