//! Completions for a message that is being typed.

use super::harness::*;

area! { HostFixture::with_fake_agent();
    files_are_offered_after_an_at,
    files_are_offered_after_a_hash,
    the_case_of_letters_does_not_matter,
    only_the_word_that_ends_at_the_cursor_is_replaced,
    offsets_are_counted_in_utf_16,
    an_at_inside_of_a_word_is_none,
    what_git_ignores_is_not_offered,
    files_of_one_name_are_told_apart,
    names_with_blanks_are_quoted,
    at_most_fifty_are_offered,
    a_new_file_is_offered_at_once,
    commands_are_offered_at_the_beginning_only,
    an_item_carries_what_is_to_be_attached,
    nothing_is_offered_for_ordinary_words,
    a_place_that_is_none_is_invalid,
    an_unknown_channel_is_32001,
    an_unknown_kind_of_completion_offers_nothing,
    missing_parameters_are_invalid,
    the_chat_that_is_written_is_not_offered,
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

async fn files_are_offered_after_an_at(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["src/main.rs", "other.md"]).await;
    assert_eq!(texts(&mut client, &chat, "@main").await, ["@src/main.rs"]);
    assert_eq!(texts(&mut client, &chat, "see @oth").await, ["@other.md"]);
}

async fn files_are_offered_after_a_hash(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["src/main.rs"]).await;
    assert_eq!(texts(&mut client, &chat, "#main").await, ["#src/main.rs"]);
}

async fn the_case_of_letters_does_not_matter(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["README.md"]).await;
    for query in ["@readme", "@README", "@ReadMe"] {
        assert_eq!(texts(&mut client, &chat, query).await, ["@README.md"], "{query}");
    }
}

async fn only_the_word_that_ends_at_the_cursor_is_replaced(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    let params = json!({"channel": chat, "kind": "userMessage", "text": "a @main and more", "offset": 7});
    let items = client.call_ok("completions", params).await;
    let item = &items["items"][0];
    assert_eq!((&item["rangeStart"], &item["rangeEnd"]), (&json!(2), &json!(7)), "{items:#}");
}

async fn offsets_are_counted_in_utf_16(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    let items = offered(&mut client, &chat, "🐎ü @main").await;
    assert_eq!((&items[0]["rangeStart"], &items[0]["rangeEnd"]), (&json!(4), &json!(9)));
}

async fn an_at_inside_of_a_word_is_none(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    assert_eq!(texts(&mut client, &chat, "me@main").await, [""; 0]);
}

async fn what_git_ignores_is_not_offered(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["out/main.o", "main.c"]).await;
    case.write_file(".gitignore", "out/\n");
    assert_eq!(texts(&mut client, &chat, "@main").await, ["@main.c"]);
}

async fn files_of_one_name_are_told_apart(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["a/mod.rs", "b/mod.rs"]).await;
    let items = offered(&mut client, &chat, "@mod").await;
    let labels: Vec<_> = items.iter().map(|item| item["attachment"]["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["a/mod.rs", "b/mod.rs"]);
}

async fn names_with_blanks_are_quoted(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["two words.md"]).await;
    assert_eq!(texts(&mut client, &chat, "@two").await, ["@\"two words.md\""]);
}

async fn at_most_fifty_are_offered(case: ProtocolCase) {
    let names: Vec<_> = (0..80).map(|number| format!("f{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let (mut client, chat) = with_files(&case, &names).await;
    assert_eq!(texts(&mut client, &chat, "@").await.len(), 50);
}

async fn a_new_file_is_offered_at_once(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["one.rs"]).await;
    assert_eq!(texts(&mut client, &chat, "@two").await, [""; 0]);
    case.write_file("two.rs", "");
    assert_eq!(texts(&mut client, &chat, "@two").await, ["@two.rs"]);
}

async fn commands_are_offered_at_the_beginning_only(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &[]).await;
    assert_eq!(texts(&mut client, &chat, "/ren").await, ["/rename"]);
    assert_eq!(texts(&mut client, &chat, "then /ren").await, [""; 0]);
}

async fn an_item_carries_what_is_to_be_attached(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    let item = &offered(&mut client, &chat, "@main").await[0];
    assert_eq!(item["attachment"]["type"], "resource");
    assert_eq!(
        (&item["attachment"]["uri"], &item["attachment"]["label"]),
        (&json!(case.uri("main.rs")), &json!("main.rs"))
    );
    // A completion is accepted as part of a message.
    let mut wish = turn_started_action("look at @main.rs");
    wish["message"]["attachments"] = json!([item["attachment"]]);
    client.dispatch_accepted(&chat, wish.clone()).await;
    client.wait_for_turn_end(&chat, wish["turnId"].as_str().unwrap()).await;
}

async fn nothing_is_offered_for_ordinary_words(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    for text in ["", "main", "main.rs", "@main ", "a/b", "!ls"] {
        assert_eq!(texts(&mut client, &chat, text).await, [""; 0], "{text:?}");
    }
}

async fn a_place_that_is_none_is_invalid(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &[]).await;
    for (text, offset) in
        [("ab", json!(3)), ("ab", json!(-1)), ("🐎", json!(1)), ("ab", json!("1")), ("ab", json!(0.5))]
    {
        let params = json!({"channel": chat, "kind": "userMessage", "text": text, "offset": offset});
        assert_eq!(client.call_error_code("completions", params).await, -32602, "{text} {offset}");
    }
}

async fn an_unknown_channel_is_32001(case: ProtocolCase) {
    let mut client = case.connect_client().await;
    for channel in [&*CaseUris::random().chat, "claude:/unknown", "nonsense"] {
        let params = json!({"channel": channel, "kind": "userMessage", "text": "@", "offset": 1});
        assert_eq!(client.call_error_code("completions", params).await, -32001, "{channel}");
    }
}

async fn an_unknown_kind_of_completion_offers_nothing(case: ProtocolCase) {
    let (mut client, chat) = with_files(&case, &["main.rs"]).await;
    let params = json!({"channel": chat, "kind": "fromTheFuture", "text": "@m", "offset": 2});
    assert_eq!(client.call_ok("completions", params).await, json!({"items": []}));
}

async fn missing_parameters_are_invalid(case: ProtocolCase) {
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

async fn the_chat_that_is_written_is_not_offered(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_started_session().await;
    assert_eq!(texts(&mut client, &uris.chat, "#chat:").await, [""; 0]);
}
