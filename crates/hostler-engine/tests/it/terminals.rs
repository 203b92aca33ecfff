//! Terminals with scripted shells.

mod scripted_shell;

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Options, Rig, SESSION};
use ahp_types::state::{TerminalClaim, TerminalClientClaim, TerminalSessionClaim};
use hostler_engine::{CreateTerminal, Delivery, Engine, EngineError, Subscriber, default_chat_uri};
use hostler_testkit::clock::ManualClock;
use scripted_shell::{ScriptedShell, ScriptedShells};

const T: &str = "ahp-terminal:/one";

fn mine() -> TerminalClaim {
    TerminalClaim::Client(TerminalClientClaim { client_id: "me".into() })
}

fn of_session() -> TerminalClaim {
    let (session, chat) = (SESSION.into(), default_chat_uri(SESSION));
    TerminalClaim::Session(TerminalSessionClaim { session, chat, turn_id: None, tool_call_id: None })
}

fn terminal(claim: TerminalClaim) -> CreateTerminal {
    CreateTerminal { uri: T.into(), claim, name: None, directory: None, cols: None, rows: None }
}

async fn is_gone(engine: &Engine) -> bool {
    let (subscriber, _deliveries) = Subscriber::new(10);
    matches!(engine.subscribe(T, &subscriber, 1).await, Err(EngineError::ChannelNotFound(_)))
}

#[tokio::test]
async fn terminal_is_disposed_of_although_a_process_never_ends() {
    let (clock, mut shells) = (ManualClock::new(), ScriptedShells::new());
    let options = Options { clock: Arc::new(clock.clone()), shells: Some(shells.shells.clone()), ..Options::default() };
    let rig = Rig::start_with(options).await;
    rig.engine.create_terminal("me", terminal(mine())).await.unwrap();
    let mut stubborn: ScriptedShell = shells.next().await;
    let engine = rig.engine.clone();
    let disposing = tokio::spawn(async move { engine.dispose_terminal(T).await });
    stubborn.wait_until_terminated().await;
    // Its URI is free, and no client has to wait for it.
    assert!(is_gone(&rig.engine).await && !disposing.is_finished());
    rig.engine.create_terminal("me", terminal(mine())).await.unwrap();
    shells.next().await.end();
    while !disposing.is_finished() {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    disposing.await.unwrap().unwrap();
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn marks_without_effect_do_not_stop_reading() {
    let mut shells = ScriptedShells::new();
    let rig = Rig::start_with(Options { shells: Some(shells.shells.clone()), ..Options::default() }).await;
    rig.engine.create_terminal("me", terminal(mine())).await.unwrap();
    let shell = shells.next().await;
    let (subscriber, mut deliveries) = Subscriber::new(100);
    rig.engine.subscribe(T, &subscriber, 1).await.unwrap();
    // Ends of a command that never started, as many as fit into one read. Output after a pause is published at once, so
    // these arrive while the following output is collected.
    let mark = format!("\x1b]633;D;{};0\x07", shell.nonce.expose()).into_bytes();
    let most: Vec<u8> = mark.iter().copied().cycle().take(64 * 1024).collect();
    shell.print(&[&mark[..], b"first"].concat());
    shell.print(&most);
    shell.print(b"\x07last");
    loop {
        let delivery =
            tokio::time::timeout(Duration::from_secs(30), deliveries.recv()).await.expect("the output continues");
        if let Some(Delivery::Envelope(item)) = delivery
            && item.action_json.contains("last")
        {
            break;
        }
    }
    shell.end();
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn terminal_ends_if_its_session_is_deleted_during_the_start() {
    let mut shells = ScriptedShells::with_delayed_start();
    let rig = Rig::start_with(Options { shells: Some(shells.shells.clone()), ..Options::default() }).await;
    rig.create(SESSION);
    let (engine, request) = (rig.engine.clone(), terminal(of_session()));
    let creating = tokio::spawn(async move { engine.create_terminal("me", request).await });
    let shell = shells.next().await;
    rig.engine.dispose_session(SESSION).await.unwrap();
    shell.end();
    shell.starts.add_permits(1);
    let refused = creating.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains(SESSION), "{refused}");
    assert!(is_gone(&rig.engine).await);
    rig.engine.shutdown().await;
}
