//! Completions while a message is typed.

use crate::common::{Rig, SESSION, dispatch_json};
use hostler_driver::SlashCommand;
use hostler_engine::{EngineError, annotations_uri, default_chat_uri};
use serde_json::{Value, json};

async fn offered(rig: &Rig, text: &str) -> Value {
    let end = i64::try_from(text.encode_utf16().count()).unwrap();
    let items = rig.engine.completions(&default_chat_uri(SESSION), text, end).await.unwrap();
    serde_json::to_value(items).unwrap()
}

fn texts(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["insertText"].as_str().unwrap()).collect()
}

fn write(rig: &Rig, path: &str) {
    let path = rig.work.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "").unwrap();
}

#[tokio::test]
async fn files_complete_the_word_at_the_cursor() {
    let rig = Rig::start().await;
    rig.create(SESSION);
    for path in ["src/Main.rs", "src/deep/mod.rs", "lib/mod.rs", "two words.md", ".gitignore", "out/main.o"] {
        write(&rig, path);
    }
    std::fs::write(rig.work.join(".gitignore"), "out/\n").unwrap();
    let items = offered(&rig, "🐎 see @main").await;
    assert_eq!(texts(&items), ["@src/Main.rs"], "case-insensitive, and without ignored files");
    let item = &items[0];
    assert_eq!((&item["rangeStart"], &item["rangeEnd"]), (&json!(7), &json!(12)));
    assert_eq!(item["attachment"]["type"], "resource");
    assert_eq!(item["attachment"]["label"], "Main.rs");
    let uri = url::Url::from_file_path(rig.work.join("src/Main.rs")).unwrap().to_string();
    assert_eq!(item["attachment"]["uri"], uri);

    let items = offered(&rig, "#mod").await;
    assert_eq!(texts(&items), ["#lib/mod.rs", "#src/deep/mod.rs"]);
    let labels: Vec<_> = items.as_array().unwrap().iter().map(|item| item["attachment"]["label"].clone()).collect();
    assert_eq!(labels, ["lib/mod.rs", "src/deep/mod.rs"], "the paths distinguish them");
    assert_eq!(texts(&offered(&rig, "@two").await), ["@\"two words.md\""]);
    assert_eq!(texts(&offered(&rig, "@deep/mo").await), ["@src/deep/mod.rs"]);
    for nothing in ["me@main", "main", "", "@main ", "see /rename"] {
        assert_eq!(texts(&offered(&rig, nothing).await), [""; 0], "{nothing:?}");
    }
    write(&rig, "src/mainframe.rs");
    assert_eq!(texts(&offered(&rig, "@main").await), ["@src/Main.rs", "@src/mainframe.rs"], "a new file is seen");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn at_most_fifty_files_are_returned() {
    let rig = Rig::start().await;
    rig.create(SESSION);
    for number in 0..80 {
        write(&rig, &format!("f{number}"));
    }
    assert_eq!(texts(&offered(&rig, "@").await).len(), 50);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn commands_include_local_and_reported_ones_and_outlive_the_agent() {
    let mut rig = Rig::start().await;
    rig.create(SESSION);
    assert_eq!(texts(&offered(&rig, "/").await), ["/rename"]);
    let mut listener = rig.listen(SESSION).await;
    rig.send_message(SESSION, "t1", "hi").await;
    let compact = SlashCommand { name: "compact".into(), description: "Shorten".into(), argument_hint: String::new() };
    let mut agent = rig.starts.next_start().await.succeed_with_commands(vec![compact]);
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let items = offered(&rig, "/com").await;
    assert_eq!(texts(&items), ["/compact"]);
    assert_eq!(items[0]["attachment"]["_meta"]["description"], "Shorten");
    assert_eq!(texts(&offered(&rig, "then /com").await), [""; 0], "only at the beginning");
    let rig = rig.restart().await;
    assert_eq!(texts(&offered(&rig, "/com").await), ["/compact"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn other_non_empty_chats_are_offered() {
    let mut rig = Rig::start().await;
    let mut listener = rig.run_first_turn().await;
    let title = json!({"type": "session/titleChanged", "title": "Two\nlines"});
    rig.engine.dispatch(dispatch_json(SESSION, 0, title, None)).await;
    listener.until("session/titleChanged").await;
    assert_eq!(texts(&offered(&rig, "#chat:").await), [""; 0]);
    // As seen from another chat; the session's own channel stands for its default chat.
    let items = rig.engine.completions(SESSION, "#chat:TWO", 9).await.unwrap();
    let items = serde_json::to_value(items).unwrap();
    assert_eq!(texts(&items), ["#chat:Two lines"]);
    assert_eq!(items[0]["attachment"]["resource"], default_chat_uri(SESSION));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_positions_are_refused() {
    let rig = Rig::start().await;
    rig.create(SESSION);
    let chat = default_chat_uri(SESSION);
    for (text, offset) in [("ab", 3), ("ab", -1), ("🐎", 1)] {
        let refused = rig.engine.completions(&chat, text, offset).await;
        assert!(matches!(refused, Err(EngineError::InvalidParams(_))), "{text:?} {offset}");
    }
    for channel in ["claude:/unknown", "nonsense", &annotations_uri(SESSION)] {
        let refused = rig.engine.completions(channel, "@", 1).await;
        assert!(matches!(refused, Err(EngineError::ChannelNotFound(_))), "{channel}");
    }
    rig.engine.shutdown().await;
}
