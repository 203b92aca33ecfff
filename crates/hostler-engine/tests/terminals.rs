//! Terminals with scripted shells.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;
#[path = "terminals/scripted_shell.rs"]
mod scripted_shell;

use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::{TerminalClaim, TerminalClientClaim, TerminalSessionClaim};
use common::{Options, Rig, SESSION};
use hostler_engine::{CreateTerminal, Delivery, Engine, EngineError, Subscriber, default_chat_uri};
use hostler_testkit::clock::ManualClock;
use scripted_shell::{Puppet, Puppets};

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
    let (clock, mut puppets) = (ManualClock::new(), Puppets::new());
    let options =
        Options { clock: Arc::new(clock.clone()), shells: Some(puppets.shells.clone()), ..Options::default() };
    let rig = Rig::start_with(options).await;
    rig.engine.create_terminal("me", terminal(mine())).await.unwrap();
    let mut stubborn: Puppet = puppets.next().await;
    let engine = rig.engine.clone();
    let disposing = tokio::spawn(async move { engine.dispose_terminal(T).await });
    stubborn.ending().await;
    // Its URI is free, and no client has to wait for it.
    assert!(is_gone(&rig.engine).await && !disposing.is_finished());
    rig.engine.create_terminal("me", terminal(mine())).await.unwrap();
    puppets.next().await.end();
    while !disposing.is_finished() {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    disposing.await.unwrap().unwrap();
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn marks_without_effect_do_not_stop_reading() {
    let mut puppets = Puppets::new();
    let rig = Rig::start_with(Options { shells: Some(puppets.shells.clone()), ..Options::default() }).await;
    rig.engine.create_terminal("me", terminal(mine())).await.unwrap();
    let puppet = puppets.next().await;
    let (subscriber, mut deliveries) = Subscriber::new(100);
    rig.engine.subscribe(T, &subscriber, 1).await.unwrap();
    // Ends of a command that never started, as many as fit into one read. Output after a pause is published at once, so
    // these arrive while the following output is collected.
    let mark = format!("\x1b]633;D;{};0\x07", puppet.nonce.expose()).into_bytes();
    let most: Vec<u8> = mark.iter().copied().cycle().take(64 * 1024).collect();
    puppet.say(&[&mark[..], b"first"].concat());
    puppet.say(&most);
    puppet.say(b"\x07last");
    loop {
        let heard = tokio::time::timeout(Duration::from_secs(30), deliveries.recv()).await.expect("it goes on");
        if let Some(Delivery::Envelope(item)) = heard
            && item.action_json.contains("last")
        {
            break;
        }
    }
    puppet.end();
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn terminal_ends_if_its_session_is_deleted_during_the_start() {
    let mut puppets = Puppets::that_wait();
    let rig = Rig::start_with(Options { shells: Some(puppets.shells.clone()), ..Options::default() }).await;
    rig.create(SESSION);
    let (engine, wish) = (rig.engine.clone(), terminal(of_session()));
    let creating = tokio::spawn(async move { engine.create_terminal("me", wish).await });
    let puppet = puppets.next().await;
    rig.engine.dispose_session(SESSION).await.unwrap();
    puppet.end();
    puppet.starts.add_permits(1);
    let refused = creating.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains(SESSION), "{refused}");
    assert!(is_gone(&rig.engine).await);
    rig.engine.shutdown().await;
}
