//! Terminals: real shells in the real host, over the real socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "terminals/calls.rs"]
mod calls;
#[path = "terminals/client.rs"]
mod client;
mod common;
#[path = "terminals/ends.rs"]
mod ends;
#[path = "terminals/floods.rs"]
mod floods;
#[path = "terminals/shells.rs"]
mod shells;

use client::Client;
use common::{Home, Host};
use serde_json::json;

const T: &str = "ahp-terminal:/one";

/// A shell that reads no file of anybody's and tells of no commands.
const PLAIN: (&str, &str) = ("HOSTLER_TERMINAL_SHELL", "/bin/sh");

async fn plain(home: &Home) -> Host {
    home.serve_fake(&[PLAIN]).await
}

#[tokio::test]
async fn a_terminal_is_made_used_listed_ended_and_disposed_of() {
    for version in ["0.9.0", "1.0.0"] {
        let home = Home::new();
        let host = plain(&home).await;
        let mut me = Client::speaking(&host, "me", version).await;
        assert_eq!(me.root.terminals, Some(Vec::new()));
        me.open(T, &home.work()).await;
        assert_eq!(me.listed(), [T]);
        let state = me.state(T);
        assert_eq!(
            (state.title.as_str(), state.cols, state.rows, state.is_pty),
            ("sh", Some(80), Some(24), Some(true))
        );
        assert_eq!(state.cwd.as_deref(), Some(format!("file://{}", home.work().display()).as_str()));

        me.type_in(T, "echo $((6*7)); pwd; stty size\n").await;
        me.shows(T, &format!("42\r\n{}\r\n24 80\r\n", home.work().display())).await;
        let wish = json!({"channel": T, "claim": me.claim()});
        assert_eq!(me.code("createTerminal", wish).await, -32010);

        me.type_in(T, "exit 3\n").await;
        me.until(|me| me.exited(T).is_some()).await;
        assert_eq!(me.exited(T), Some(Some(3)));
        // It stays, with its contents, for whoever comes.
        let mut late = Client::speaking(&host, "late", version).await;
        assert_eq!(
            serde_json::to_value(&late.root.terminals).unwrap()[0]["lifecycle"],
            json!({"status": "exited", "exitCode": 3})
        );
        late.subscribe(T).await;
        assert_eq!(late.screen(T), me.screen(T));
        let refused = me.ask(T, json!({"type": "terminal/input", "data": "x"})).await;
        assert!(refused.unwrap().contains("has ended"));
        assert_eq!(host.tree(), [] as [u32; 0]);

        me.call("disposeTerminal", json!({"channel": T})).await.unwrap();
        me.until(|me| me.listed().is_empty()).await;
        assert_eq!(me.code("disposeTerminal", json!({"channel": T})).await, -32008);
        assert_eq!(me.code("subscribe", json!({"channel": T})).await, -32001);
        // The name is free again.
        me.call("createTerminal", json!({"channel": T, "claim": me.claim()})).await.unwrap();
        host.stop().await;
    }
}

#[tokio::test]
async fn wishes_that_make_no_sense_are_refused_and_leave_nothing() {
    let home = Home::new();
    let host = home.serve_fake(&[PLAIN, ("HOSTLER_MAX_TERMINALS", "1")]).await;
    let mut me = Client::new(&host, "me").await;
    let claim = me.claim();
    let outside = format!("file://{}", home.path("claude").display());
    for (wish, code) in [
        (json!({"channel": T}), -32602),
        (json!({"channel": "claude:/x", "claim": claim}), -32602),
        (json!({"channel": "ahp-terminal:", "claim": claim}), -32602),
        (json!({"channel": T, "claim": {"kind": "client", "clientId": "you"}}), -32602),
        (json!({"channel": T, "claim": {"kind": "session", "session": "claude:/no", "chat": "ahp-chat:/no"}}), -32602),
        (json!({"channel": T, "claim": {"kind": "nobody"}}), -32602),
        (json!({"channel": T, "claim": claim, "cols": 0}), -32602),
        (json!({"channel": T, "claim": claim, "rows": 70_000}), -32602),
        (json!({"channel": T, "claim": claim, "name": "x".repeat(1001)}), -32602),
        (json!({"channel": T, "claim": claim, "cwd": outside}), -32009),
        (json!({"channel": T, "claim": claim, "cwd": "nonsense"}), -32602),
    ] {
        let error = me.call("createTerminal", wish.clone()).await.unwrap_err();
        assert_eq!(error["code"], code, "{wish} {error}");
    }
    assert_eq!((me.listed(), host.tree()), (Vec::new(), Vec::new()));
    // VS Code's name for it, and sizes that are fractions, as some clients send them.
    let vs_code = "agenthost-terminal:/one";
    me.call("createTerminal", json!({"channel": vs_code, "claim": claim, "cols": 99.6, "name": "mine"})).await.unwrap();
    me.subscribe(vs_code).await;
    assert_eq!((me.state(vs_code).cols, me.state(vs_code).title.as_str()), (Some(100), "mine"));
    assert_eq!(me.code("createTerminal", json!({"channel": T, "claim": claim})).await, -32603);
    host.stop().await;

    let host = home.serve_fake(&[("HOSTLER_NO_TERMINALS", "true")]).await;
    let mut me = Client::new(&host, "me").await;
    assert_eq!(me.root.terminals, None);
    let error = me.call("createTerminal", json!({"channel": T, "claim": claim})).await.unwrap_err();
    assert!(error["code"] == -32009 && error["message"].as_str().unwrap().contains("switched off"), "{error}");
    host.stop().await;

    let host = home.serve_fake(&[("HOSTLER_TERMINAL_SHELL", "/no/such/shell")]).await;
    let mut me = Client::new(&host, "me").await;
    let error = me.call("createTerminal", json!({"channel": T, "claim": claim})).await.unwrap_err();
    assert!(error["code"] == -32603 && error["message"].as_str().unwrap().contains("/no/such/shell"), "{error}");
    assert_eq!((me.listed(), host.tree()), (Vec::new(), Vec::new()));
    host.stop().await;
}

#[tokio::test]
async fn two_clients_use_one_terminal_and_the_claim_moves() {
    let home = Home::new();
    let host = plain(&home).await;
    let (mut me, mut you) = (Client::new(&host, "me").await, Client::new(&host, "you").await);
    me.open(T, &home.work()).await;
    you.subscribe(T).await;
    you.type_in(T, "echo from-$((1+1))\n").await;
    me.shows(T, "from-2").await;
    you.shows(T, "from-2").await;
    // What one of them typed is told to neither.
    assert_eq!(you.ask(T, json!({"type": "terminal/input", "data": "secret"})).await, None);
    me.until(|me| me.heard.iter().filter(|envelope| envelope["action"]["type"] == "terminal/input").count() == 2).await;
    for client in [&me, &you] {
        let typed = client.heard.iter().filter(|envelope| envelope["action"]["type"] == "terminal/input");
        assert!(typed.clone().all(|envelope| envelope["action"]["data"] == ""), "{:?}", client.heard);
    }

    let claimed = |claim: serde_json::Value| json!({"type": "terminal/claimed", "claim": claim});
    let (mine, yours) = (me.claim(), you.claim());
    assert!(you.ask(T, claimed(yours.clone())).await.unwrap().contains("another client holds"));
    let session = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";
    me.call("createSession", json!({"channel": session})).await.unwrap();
    let chat =
        me.call("subscribe", json!({"channel": session})).await.unwrap()["snapshot"]["state"]["defaultChat"].clone();
    let held = json!({"kind": "session", "session": session, "chat": chat});
    assert!(me.ask(T, claimed(json!({"kind": "session", "session": session, "chat": "ahp-chat:/no"}))).await.is_some());
    assert_eq!(me.ask(T, claimed(held.clone())).await, None);
    you.until(|you| serde_json::to_value(&you.root.terminals).unwrap()[0]["claim"] == held).await;
    assert_eq!(you.ask(T, claimed(yours.clone())).await, None);
    assert!(me.ask(T, claimed(mine)).await.is_some());
    assert_eq!(serde_json::to_value(&me.state(T).claim).unwrap(), yours);

    // Clearing keeps the size and the claim.
    assert_eq!(you.ask(T, json!({"type": "terminal/resized", "cols": 50, "rows": 10})).await, None);
    assert_eq!(you.ask(T, json!({"type": "terminal/cleared"})).await, None);
    let state = you.state(T);
    assert!(state.content.is_empty() && state.cols == Some(50) && serde_json::to_value(&state.claim).unwrap() == yours);
    assert_eq!(you.ask(T, json!({"type": "terminal/titleChanged", "title": "ours"})).await, None);
    assert!(you.ask(T, json!({"type": "terminal/titleChanged", "title": ""})).await.is_some());
    me.until(|me| me.root.terminals.iter().flatten().any(|info| info.title == "ours")).await;
    for (bad, reason) in [
        (json!({"type": "terminal/data", "data": "x"}), "only hosts"),
        (json!({"type": "terminal/exited"}), "only hosts"),
        (json!({"type": "terminal/resized", "cols": -1, "rows": 5}), "1 to 2000"),
        (json!({"type": "terminal/resized"}), "malformed"),
        (json!({"type": "chat/draftChanged"}), "does not belong"),
    ] {
        let said = you.ask(T, bad.clone()).await.expect("a reason");
        assert!(said.contains(reason), "{bad}: {said}");
    }
    // Its session takes a terminal along.
    assert_eq!(you.ask(T, claimed(held)).await, None);
    me.call("disposeSession", json!({"channel": session})).await.unwrap();
    me.until(|me| me.listed().is_empty()).await;
    assert_eq!(host.tree(), [] as [u32; 0]);
    host.stop().await;
}

#[tokio::test]
async fn a_terminal_of_a_session_begins_where_the_session_works() {
    let home = Home::new();
    let host = plain(&home).await;
    let mut me = Client::new(&host, "me").await;
    let (session, directory) = ("claude:/mine", format!("file://{}", home.work().display()));
    me.call("createSession", json!({"channel": session, "workingDirectories": [directory]})).await.unwrap();
    let chat =
        me.call("subscribe", json!({"channel": session})).await.unwrap()["snapshot"]["state"]["defaultChat"].clone();
    let claim = json!({"kind": "session", "session": session, "chat": chat, "toolCallId": "c1"});
    me.call("createTerminal", json!({"channel": T, "claim": claim})).await.unwrap();
    me.subscribe(T).await;
    assert_eq!(me.state(T).cwd.as_deref(), Some(directory.as_str()));
    assert_eq!(serde_json::to_value(&me.state(T).claim).unwrap(), claim);
    host.stop().await;
}

#[tokio::test]
async fn a_shell_has_the_users_environment_without_the_hosts_secrets() {
    let home = Home::new();
    let env =
        [PLAIN, ("HOSTLER_UPSTREAM_KEY", "planted-key"), ("ANTHROPIC_API_KEY", "planted-too"), ("ORDINARY", "value")];
    let host = home.serve_fake(&env).await;
    let mut me = Client::new(&host, "me").await;
    me.open(T, &home.work()).await;
    me.type_in(T, "env; echo e''nd\n").await;
    me.shows(T, "\nend\r\n").await;
    let screen = me.screen(T);
    assert!(screen.contains("ORDINARY=value") && screen.contains("TERM=xterm-256color"), "{screen}");
    assert!(!screen.contains("planted") && !screen.contains("HOSTLER_"), "{screen}");
    host.stop().await;
}
