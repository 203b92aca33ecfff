//! Output of turns' commands as terminals.

use serde_json::Value;

use super::*;

const COMMANDS_ENABLED: (&str, &str) = ("HOSTLER_NO_SHELL_COMMANDS", "false");

/// Command that waits for a file between two outputs.
const WAITING_COMMAND: &str = "!echo first; while [ ! -e go ]; do sleep 0.05; done; echo last; exit 3";

/// Returns a session in the home's directory, with a subscription to its chat.
async fn session(me: &mut TerminalClient, home: &TestHome) -> (String, String) {
    let session = format!("claude:/{}", uuid::Uuid::new_v4());
    let directory = format!("file://{}", home.work().display());
    me.call("createSession", json!({"channel": session, "workingDirectories": [directory]})).await.unwrap();
    let state = me.call("subscribe", json!({"channel": session})).await.unwrap();
    let chat = state["snapshot"]["state"]["defaultChat"].as_str().unwrap().to_owned();
    me.call("subscribe", json!({"channel": chat})).await.unwrap();
    (session, chat)
}

async fn start_turn(me: &mut TerminalClient, chat: &str, turn: &str, text: &str) {
    let message = json!({"text": text, "origin": {"kind": "user"}});
    let started = json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-01-01T00:00:00.000Z",
        "message": message});
    assert_eq!(me.dispatch_and_confirm(chat, started).await, None);
}

/// Returns the last action of this type about a turn.
fn last<'a>(me: &'a TerminalClient, turn: &str, kind: &str) -> Option<&'a Value> {
    let actions = me.received.iter().rev().map(|envelope| &envelope["action"]);
    actions.into_iter().find(|action| action["type"] == kind && action["turnId"] == turn)
}

fn linked(content: &Value) -> Option<&Value> {
    content.as_array()?.iter().find(|part| part["type"] == "terminal")
}

/// Returns the terminal of the running call.
async fn terminal(me: &mut TerminalClient, turn: &str) -> String {
    let shown = |me: &TerminalClient| {
        let changed = last(me, turn, "chat/toolCallContentChanged")?;
        Some(linked(&changed["content"])?["resource"].as_str()?.to_owned())
    };
    me.wait_until(|me| shown(me).is_some()).await;
    shown(me).unwrap()
}

/// Returns the call's result when it is over.
async fn result(me: &mut TerminalClient, turn: &str) -> Value {
    me.wait_until(|me| last(me, turn, "chat/turnComplete").is_some()).await;
    last(me, turn, "chat/toolCallComplete").unwrap()["result"]["content"].clone()
}

async fn ran(me: &mut TerminalClient, chat: &str, turn: &str, text: &str) -> Value {
    start_turn(me, chat, turn, text).await;
    result(me, turn).await
}

#[tokio::test]
async fn command_output_is_a_terminal_visible_to_all_clients() {
    for version in ["0.9.0", "1.0.0"] {
        let home = TestHome::new();
        let host = home.serve_fake(&[COMMANDS_ENABLED]).await;
        let (mut me, mut you) = (
            TerminalClient::with_version(&host, "me", version).await,
            TerminalClient::with_version(&host, "you", version).await,
        );
        let (session, chat) = session(&mut me, &home).await;
        start_turn(&mut me, &chat, "t1", WAITING_COMMAND).await;
        let shell = terminal(&mut me, "t1").await;
        for client in [&mut me, &mut you] {
            client.subscribe(&shell).await;
            client.wait_for_text(&shell, "first\n").await;
            client.wait_until(|client| client.listed_terminals() == [shell.as_str()]).await;
            assert_eq!(client.exit_code(&shell), None);
        }
        let state = serde_json::to_value(you.state(&shell)).unwrap();
        let claim =
            json!({"kind": "session", "session": session, "chat": chat, "turnId": "t1", "toolCallId": "local-t1"});
        assert_eq!((&state["isPty"], &state["claim"]), (&json!(false), &claim));
        assert_eq!(state["title"], WAITING_COMMAND.trim_start_matches('!'));
        assert_eq!(state["cwd"], format!("file://{}", home.work().display()));

        let actions = [
            json!({"type": "terminal/input", "data": "x\n"}),
            json!({"type": "terminal/resized", "cols": 50, "rows": 10}),
            json!({"type": "terminal/cleared"}),
            json!({"type": "terminal/titleChanged", "title": "mine"}),
            json!({"type": "terminal/claimed", "claim": you.claim()}),
        ];
        for action in actions.clone() {
            let refused = you.dispatch_and_confirm(&shell, action).await.expect("a reason");
            assert!(refused.contains("is read-only"), "{refused}");
        }
        assert_eq!(serde_json::to_value(you.state(&shell)).unwrap(), state);

        std::fs::write(home.work().join("go"), "").unwrap();
        for client in [&mut me, &mut you] {
            client
                .wait_until(|client| client.exit_code(&shell).is_some() && client.listed_terminals().is_empty())
                .await;
            assert_eq!((client.screen(&shell).as_str(), client.exit_code(&shell)), ("first\nlast\n", Some(Some(3))));
        }
        let shown = result(&mut me, "t1").await;
        let link = json!({"type": "terminal", "resource": shell, "title": WAITING_COMMAND.trim_start_matches('!'),
            "isPty": false, "result": {"exitCode": 3}});
        assert_eq!(shown, json!([{"type": "text", "text": "first\nlast\n"}, link]));

        let mut late = TerminalClient::with_version(&host, "late", version).await;
        assert_eq!(late.listed_terminals(), [] as [&str; 0]);
        late.subscribe(&shell).await;
        assert_eq!(late.state(&shell), me.state(&shell));
        assert!(late.dispatch_and_confirm(&shell, actions[0].clone()).await.is_some());

        late.call("disposeSession", json!({"channel": session})).await.unwrap();
        assert_eq!(late.code("subscribe", json!({"channel": shell})).await, -32001);
        host.stop().await;
    }
}

#[tokio::test]
async fn output_flood_is_slowed_by_its_terminal_and_cancel_ends_both() {
    let home = TestHome::new();
    let host = home.serve_fake(&[COMMANDS_ENABLED]).await;
    let mut me = TerminalClient::new(&host, "me").await;
    let (_, chat) = session(&mut me, &home).await;
    start_turn(&mut me, &chat, "t1", "!yes").await;
    let shell = terminal(&mut me, "t1").await;
    me.subscribe(&shell).await;
    me.wait_for_text(&shell, "y\ny\n").await;
    let cancel = json!({"type": "chat/turnCancelled", "turnId": "t1", "duration": 1});
    assert_eq!(me.dispatch_and_confirm(&chat, cancel).await, None);
    me.wait_until(|me| me.exit_code(&shell).is_some()).await;
    assert_eq!((me.exit_code(&shell), host.process_tree()), (Some(None), Vec::new()));
    host.stop().await;
}

#[tokio::test]
async fn disposing_a_command_terminal_does_not_end_the_command() {
    let home = TestHome::new();
    let host = home.serve_fake(&[COMMANDS_ENABLED]).await;
    let mut me = TerminalClient::new(&host, "me").await;
    let (_, chat) = session(&mut me, &home).await;
    start_turn(&mut me, &chat, "t1", WAITING_COMMAND).await;
    let shell = terminal(&mut me, "t1").await;
    me.call("disposeTerminal", json!({"channel": shell})).await.unwrap();
    assert_eq!(me.code("subscribe", json!({"channel": shell})).await, -32001);
    std::fs::write(home.work().join("go"), "").unwrap();
    assert_eq!(result(&mut me, "t1").await[0]["text"], "first\nlast\n");
    host.stop().await;
}

#[tokio::test]
async fn only_recent_command_terminals_remain_and_their_text_survives_a_restart() {
    let home = TestHome::new();
    let host = home.serve_fake(&[COMMANDS_ENABLED, ("HOSTLER_MAX_TERMINALS", "1")]).await;
    let mut me = TerminalClient::new(&host, "me").await;
    let (_, chat) = session(&mut me, &home).await;
    let mut links = Vec::new();
    for number in 0..33 {
        let shown = ran(&mut me, &chat, &format!("t{number}"), &format!("!echo {number}")).await;
        links.push(linked(&shown).unwrap()["resource"].as_str().unwrap().to_owned());
    }
    assert_eq!(me.code("subscribe", json!({"channel": links[0]})).await, -32001);
    for (number, link) in links.iter().enumerate().skip(1) {
        me.subscribe(link).await;
        me.wait_for_text(link, &format!("{number}\n")).await;
    }
    // They do not count against the limit of people's terminals.
    me.call("createTerminal", json!({"channel": TERMINAL_URI, "claim": me.claim()})).await.unwrap();
    host.stop().await;

    let host = home.serve_fake(&[COMMANDS_ENABLED, ("HOSTLER_NO_TERMINALS", "true")]).await;
    let mut me = TerminalClient::new(&host, "another").await;
    let state = me.call("subscribe", json!({"channel": chat})).await.unwrap()["snapshot"]["state"].take();
    let content = &state["turns"].as_array().unwrap().last().unwrap()["responseParts"][0]["toolCall"]["content"];
    assert_eq!((&content[0]["text"], &content[1]["resource"]), (&json!("32\n"), &json!(links[32])));
    assert_eq!(me.code("subscribe", json!({"channel": links[32]})).await, -32001);
    // Without terminals, the result is plain text.
    let shown = ran(&mut me, &chat, "without", "!echo plain").await;
    assert_eq!(shown, json!([{"type": "text", "text": "plain\n"}]));
    host.stop().await;
}
