//! Terminals: real shells in the real host, over the real socket.

mod command_terminals;
mod output_floods;
mod shell_integration;
mod terminal_client;
mod terminal_shutdown;

use crate::common::{HostProcess, TestHome};
use serde_json::json;
use terminal_client::TerminalClient;

const TERMINAL_URI: &str = "ahp-terminal:/one";

/// Shell that reads no startup files and reports no commands.
const PLAIN_SHELL: (&str, &str) = ("HOSTLER_TERMINAL_SHELL", "/bin/sh");

async fn plain(home: &TestHome) -> HostProcess {
    home.serve_fake(&[PLAIN_SHELL]).await
}

#[tokio::test]
async fn terminal_life_cycle_create_use_list_exit_dispose() {
    for version in ["0.9.0", "1.0.0"] {
        let home = TestHome::new();
        let host = plain(&home).await;
        let mut me = TerminalClient::with_version(&host, "me", version).await;
        assert_eq!(me.root.terminals, Some(Vec::new()));
        me.open(TERMINAL_URI, &home.work()).await;
        assert_eq!(me.listed_terminals(), [TERMINAL_URI]);
        let state = me.state(TERMINAL_URI);
        assert_eq!(
            (state.title.as_str(), state.cols, state.rows, state.is_pty),
            ("sh", Some(80), Some(24), Some(true))
        );
        assert_eq!(state.cwd.as_deref(), Some(format!("file://{}", home.work().display()).as_str()));

        me.type_in(TERMINAL_URI, "echo $((6*7)); pwd; stty size\n").await;
        me.wait_for_text(TERMINAL_URI, &format!("42\r\n{}\r\n24 80\r\n", home.work().display())).await;
        let params = json!({"channel": TERMINAL_URI, "claim": me.claim()});
        assert_eq!(me.code("createTerminal", params).await, -32010);

        me.type_in(TERMINAL_URI, "exit 3\n").await;
        me.wait_until(|me| me.exit_code(TERMINAL_URI).is_some()).await;
        assert_eq!(me.exit_code(TERMINAL_URI), Some(Some(3)));
        // It stays, with its contents, for later clients.
        let mut late = TerminalClient::with_version(&host, "late", version).await;
        assert_eq!(
            serde_json::to_value(&late.root.terminals).unwrap()[0]["lifecycle"],
            json!({"status": "exited", "exitCode": 3})
        );
        late.subscribe(TERMINAL_URI).await;
        assert_eq!(late.screen(TERMINAL_URI), me.screen(TERMINAL_URI));
        let refused = me.dispatch_and_confirm(TERMINAL_URI, json!({"type": "terminal/input", "data": "x"})).await;
        assert!(refused.unwrap().contains("has ended"));
        assert_eq!(host.process_tree(), [] as [u32; 0]);

        me.call("disposeTerminal", json!({"channel": TERMINAL_URI})).await.unwrap();
        me.wait_until(|me| me.listed_terminals().is_empty()).await;
        assert_eq!(me.code("disposeTerminal", json!({"channel": TERMINAL_URI})).await, -32008);
        assert_eq!(me.code("subscribe", json!({"channel": TERMINAL_URI})).await, -32001);
        // The URI is free again.
        me.call("createTerminal", json!({"channel": TERMINAL_URI, "claim": me.claim()})).await.unwrap();
        host.stop().await;
    }
}

#[tokio::test]
async fn invalid_terminal_requests_are_rejected_and_leave_nothing() {
    let home = TestHome::new();
    let host = home.serve_fake(&[PLAIN_SHELL, ("HOSTLER_MAX_TERMINALS", "1")]).await;
    let mut me = TerminalClient::new(&host, "me").await;
    let claim = me.claim();
    let outside = format!("file://{}", home.path("claude").display());
    for (params, code) in [
        (json!({"channel": TERMINAL_URI}), -32602),
        (json!({"channel": "claude:/x", "claim": claim}), -32602),
        (json!({"channel": "ahp-terminal:", "claim": claim}), -32602),
        (json!({"channel": TERMINAL_URI, "claim": {"kind": "client", "clientId": "you"}}), -32602),
        (
            json!({"channel": TERMINAL_URI, "claim": {"kind": "session", "session": "claude:/no", "chat": "ahp-chat:/no"}}),
            -32602,
        ),
        (json!({"channel": TERMINAL_URI, "claim": {"kind": "unknown"}}), -32602),
        (json!({"channel": TERMINAL_URI, "claim": claim, "cols": 0}), -32602),
        (json!({"channel": TERMINAL_URI, "claim": claim, "rows": 70_000}), -32602),
        (json!({"channel": TERMINAL_URI, "claim": claim, "name": "x".repeat(1001)}), -32602),
        (json!({"channel": TERMINAL_URI, "claim": claim, "cwd": outside}), -32009),
        (json!({"channel": TERMINAL_URI, "claim": claim, "cwd": "nonsense"}), -32602),
    ] {
        let error = me.call("createTerminal", params.clone()).await.unwrap_err();
        assert_eq!(error["code"], code, "{params} {error}");
    }
    assert_eq!((me.listed_terminals(), host.process_tree()), (Vec::new(), Vec::new()));
    // VS Code's URI for it, and fractional sizes, as some clients send them.
    let vs_code = "agenthost-terminal:/one";
    me.call("createTerminal", json!({"channel": vs_code, "claim": claim, "cols": 99.6, "name": "mine"})).await.unwrap();
    me.subscribe(vs_code).await;
    assert_eq!((me.state(vs_code).cols, me.state(vs_code).title.as_str()), (Some(100), "mine"));
    assert_eq!(me.code("createTerminal", json!({"channel": TERMINAL_URI, "claim": claim})).await, -32603);
    host.stop().await;

    let host = home.serve_fake(&[("HOSTLER_NO_TERMINALS", "true")]).await;
    let mut me = TerminalClient::new(&host, "me").await;
    assert_eq!(me.root.terminals, None);
    let error = me.call("createTerminal", json!({"channel": TERMINAL_URI, "claim": claim})).await.unwrap_err();
    assert!(error["code"] == -32009 && error["message"].as_str().unwrap().contains("turned off"), "{error}");
    host.stop().await;

    let host = home.serve_fake(&[("HOSTLER_TERMINAL_SHELL", "/no/such/shell")]).await;
    let mut me = TerminalClient::new(&host, "me").await;
    let error = me.call("createTerminal", json!({"channel": TERMINAL_URI, "claim": claim})).await.unwrap_err();
    assert!(error["code"] == -32603 && error["message"].as_str().unwrap().contains("/no/such/shell"), "{error}");
    assert_eq!((me.listed_terminals(), host.process_tree()), (Vec::new(), Vec::new()));
    host.stop().await;
}

#[tokio::test]
async fn two_clients_share_a_terminal_and_the_claim_moves() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let (mut me, mut you) = (TerminalClient::new(&host, "me").await, TerminalClient::new(&host, "you").await);
    me.open(TERMINAL_URI, &home.work()).await;
    you.subscribe(TERMINAL_URI).await;
    you.type_in(TERMINAL_URI, "echo from-$((1+1))\n").await;
    me.wait_for_text(TERMINAL_URI, "from-2").await;
    you.wait_for_text(TERMINAL_URI, "from-2").await;
    // The typed text is not sent back to either client.
    assert_eq!(you.dispatch_and_confirm(TERMINAL_URI, json!({"type": "terminal/input", "data": "secret"})).await, None);
    me.wait_until(|me| {
        me.received.iter().filter(|envelope| envelope["action"]["type"] == "terminal/input").count() == 2
    })
    .await;
    for client in [&me, &you] {
        let typed = client.received.iter().filter(|envelope| envelope["action"]["type"] == "terminal/input");
        assert!(typed.clone().all(|envelope| envelope["action"]["data"] == ""), "{:?}", client.received);
    }

    let claimed = |claim: serde_json::Value| json!({"type": "terminal/claimed", "claim": claim});
    let (mine, yours) = (me.claim(), you.claim());
    assert!(
        you.dispatch_and_confirm(TERMINAL_URI, claimed(yours.clone())).await.unwrap().contains("another client holds")
    );
    let session = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";
    me.call("createSession", json!({"channel": session})).await.unwrap();
    let chat =
        me.call("subscribe", json!({"channel": session})).await.unwrap()["snapshot"]["state"]["defaultChat"].clone();
    let held = json!({"kind": "session", "session": session, "chat": chat});
    assert!(
        me.dispatch_and_confirm(
            TERMINAL_URI,
            claimed(json!({"kind": "session", "session": session, "chat": "ahp-chat:/no"}))
        )
        .await
        .is_some()
    );
    assert_eq!(me.dispatch_and_confirm(TERMINAL_URI, claimed(held.clone())).await, None);
    you.wait_until(|you| serde_json::to_value(&you.root.terminals).unwrap()[0]["claim"] == held).await;
    assert_eq!(you.dispatch_and_confirm(TERMINAL_URI, claimed(yours.clone())).await, None);
    assert!(me.dispatch_and_confirm(TERMINAL_URI, claimed(mine)).await.is_some());
    assert_eq!(serde_json::to_value(&me.state(TERMINAL_URI).claim).unwrap(), yours);

    // Clearing changes neither the size nor the claim.
    assert_eq!(
        you.dispatch_and_confirm(TERMINAL_URI, json!({"type": "terminal/resized", "cols": 50, "rows": 10})).await,
        None
    );
    assert_eq!(you.dispatch_and_confirm(TERMINAL_URI, json!({"type": "terminal/cleared"})).await, None);
    let state = you.state(TERMINAL_URI);
    assert!(state.content.is_empty() && state.cols == Some(50) && serde_json::to_value(&state.claim).unwrap() == yours);
    assert_eq!(
        you.dispatch_and_confirm(TERMINAL_URI, json!({"type": "terminal/titleChanged", "title": "ours"})).await,
        None
    );
    assert!(
        you.dispatch_and_confirm(TERMINAL_URI, json!({"type": "terminal/titleChanged", "title": ""})).await.is_some()
    );
    me.wait_until(|me| me.root.terminals.iter().flatten().any(|info| info.title == "ours")).await;
    for (bad, reason) in [
        (json!({"type": "terminal/data", "data": "x"}), "only hosts"),
        (json!({"type": "terminal/exited"}), "only hosts"),
        (json!({"type": "terminal/resized", "cols": -1, "rows": 5}), "1 to 2000"),
        (json!({"type": "terminal/resized"}), "malformed"),
        (json!({"type": "chat/draftChanged"}), "does not belong"),
    ] {
        let reply = you.dispatch_and_confirm(TERMINAL_URI, bad.clone()).await.expect("a reason");
        assert!(reply.contains(reason), "{bad}: {reply}");
    }
    // A session's terminal is removed with it.
    assert_eq!(you.dispatch_and_confirm(TERMINAL_URI, claimed(held)).await, None);
    me.call("disposeSession", json!({"channel": session})).await.unwrap();
    me.wait_until(|me| me.listed_terminals().is_empty()).await;
    assert_eq!(host.process_tree(), [] as [u32; 0]);
    host.stop().await;
}

#[tokio::test]
async fn session_terminal_starts_in_the_sessions_directory() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let mut me = TerminalClient::new(&host, "me").await;
    let (session, directory) = ("claude:/mine", format!("file://{}", home.work().display()));
    me.call("createSession", json!({"channel": session, "workingDirectories": [directory]})).await.unwrap();
    let chat =
        me.call("subscribe", json!({"channel": session})).await.unwrap()["snapshot"]["state"]["defaultChat"].clone();
    let claim = json!({"kind": "session", "session": session, "chat": chat, "toolCallId": "c1"});
    me.call("createTerminal", json!({"channel": TERMINAL_URI, "claim": claim})).await.unwrap();
    me.subscribe(TERMINAL_URI).await;
    assert_eq!(me.state(TERMINAL_URI).cwd.as_deref(), Some(directory.as_str()));
    assert_eq!(serde_json::to_value(&me.state(TERMINAL_URI).claim).unwrap(), claim);
    host.stop().await;
}

#[tokio::test]
async fn shell_has_the_users_environment_without_host_secrets() {
    let home = TestHome::new();
    let env = [
        PLAIN_SHELL,
        ("HOSTLER_UPSTREAM_KEY", "planted-key"),
        ("ANTHROPIC_API_KEY", "planted-too"),
        ("ORDINARY", "value"),
    ];
    let host = home.serve_fake(&env).await;
    let mut me = TerminalClient::new(&host, "me").await;
    me.open(TERMINAL_URI, &home.work()).await;
    me.type_in(TERMINAL_URI, "env; echo e''nd\n").await;
    me.wait_for_text(TERMINAL_URI, "\nend\r\n").await;
    let screen = me.screen(TERMINAL_URI);
    assert!(screen.contains("ORDINARY=value") && screen.contains("TERM=xterm-256color"), "{screen}");
    assert!(!screen.contains("planted") && !screen.contains("HOSTLER_"), "{screen}");
    host.stop().await;
}
