//! Ends of terminals: no process of them remains, however they end.

use std::os::unix::fs::OpenOptionsExt as _;

use hostler_testkit::processes;
use nix::sys::signal::Signal;

use super::*;

/// Children that leave the shell in every known way.
const DETACHED_CHILDREN_COMMAND: &str = "setsid sleep 4242 & nohup sleep 4242 >/dev/null 2>&1 & (setsid sh -c 'sleep 4242 & sleep 4242' &) ; \
                        trap '' TERM HUP; sleep 4242 & echo be''gun\n";

async fn with_children(home: &TestHome, host: &HostProcess) -> (TerminalClient, Vec<u32>) {
    let mut me = TerminalClient::new(host, "me").await;
    me.open(TERMINAL_URI, &home.work()).await;
    me.type_in(TERMINAL_URI, DETACHED_CHILDREN_COMMAND).await;
    me.wait_for_text(TERMINAL_URI, "begun").await;
    let sleeping = || processes::descendants(host.pid).iter().filter(|process| process.command == "sleep 4242").count();
    while sleeping() < 5 {
        tokio::task::yield_now().await;
    }
    (me, host.process_tree())
}

#[tokio::test]
async fn dispose_ends_the_whole_process_tree_during_a_flood() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let (mut me, tree) = with_children(&home, &host).await;
    me.type_in(TERMINAL_URI, "yes\n").await;
    me.wait_for_text(TERMINAL_URI, "y\r\ny\r\n").await;
    assert!(tree.len() >= 7, "{tree:?}");
    me.call("disposeTerminal", json!({"channel": TERMINAL_URI})).await.unwrap();
    assert_eq!(host.process_tree(), [] as [u32; 0]);
    host.stop().await;
}

#[tokio::test]
async fn background_processes_end_with_their_shell() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let (mut me, _) = with_children(&home, &host).await;
    me.type_in(TERMINAL_URI, "exit 0\n").await;
    me.wait_until(|me| me.exit_code(TERMINAL_URI).is_some()).await;
    assert_eq!((me.exit_code(TERMINAL_URI), host.process_tree()), (Some(Some(0)), Vec::new()));
    host.stop().await;
}

#[tokio::test]
async fn killed_shell_has_no_exit_code() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let mut me = TerminalClient::new(&host, "me").await;
    me.open(TERMINAL_URI, &home.work()).await;
    me.type_in(TERMINAL_URI, "echo last output; kill -9 $$\n").await;
    me.wait_until(|me| me.exit_code(TERMINAL_URI).is_some()).await;
    assert_eq!(me.exit_code(TERMINAL_URI), Some(None));
    assert!(me.screen(TERMINAL_URI).contains("last output\r\n"), "{:?}", me.screen(TERMINAL_URI));
    host.stop().await;
}

#[tokio::test]
async fn exit_is_reported_even_if_another_process_holds_the_terminal_open() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let mut me = TerminalClient::new(&host, "me").await;
    me.open(TERMINAL_URI, &home.work()).await;
    me.type_in(TERMINAL_URI, "echo \"<$(tty)>\"\n").await;
    me.wait_for_text(TERMINAL_URI, "</dev/").await;
    me.wait_until(|me| me.screen(TERMINAL_URI).contains(">\r\n")).await;
    let screen = me.screen(TERMINAL_URI);
    let name = screen.split_once("</dev/").and_then(|(_, rest)| rest.split_once('>')).unwrap().0;
    let device = std::path::Path::new("/dev").join(name);
    let noctty = nix::fcntl::OFlag::O_NOCTTY.bits();
    let stranger = std::fs::OpenOptions::new().write(true).custom_flags(noctty).open(device).unwrap();
    me.type_in(TERMINAL_URI, "echo last output; exit 3\n").await;
    me.wait_until(|me| me.exit_code(TERMINAL_URI).is_some()).await;
    assert_eq!(me.exit_code(TERMINAL_URI), Some(Some(3)));
    assert!(me.screen(TERMINAL_URI).contains("\nlast output\r\n"));
    drop(stranger);
    host.stop().await;
}

#[tokio::test]
async fn killed_host_leaves_no_shells_and_clients_see_terminals_removed() {
    let home = TestHome::new();
    let mut host = plain(&home).await;
    let (mut me, tree) = with_children(&home, &host).await;
    // Durable change, so that later ones are replayed.
    me.dispatch_and_confirm("ahp-root://", json!({"type": "root/configChanged", "config": {"mine": 1}})).await;
    let seen = me.received.last().unwrap()["serverSeq"].clone();
    host.signal(Signal::SIGKILL);
    host.wait_for_exit().await;
    let left = processes::wait_for_exit(&tree).await;
    assert!(left.is_empty(), "{left:#?}");

    let host = plain(&home).await;
    let mut raw = hostler_testkit::raw_client::RawClient::connect(&host.url()).await;
    let back = json!({"channel": "ahp-root://", "clientId": "me", "lastSeenServerSeq": seen, "subscriptions": ["ahp-root://", TERMINAL_URI]});
    let answer = raw.call("reconnect", back).await.unwrap();
    assert_eq!(answer["type"], "replay", "{answer}");
    assert_eq!(answer["missing"], json!([TERMINAL_URI]));
    let change =
        answer["actions"].as_array().unwrap().iter().find(|item| item["action"]["type"] == "root/terminalsChanged");
    assert_eq!(change.unwrap()["action"]["terminals"], json!([]), "{answer}");
    host.stop().await;
}

#[tokio::test]
async fn reconnecting_client_receives_missed_terminal_output() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let mut me = TerminalClient::new(&host, "me").await;
    let mut other = TerminalClient::new(&host, "other").await;
    me.open(TERMINAL_URI, &home.work()).await;
    other.subscribe(TERMINAL_URI).await;
    me.type_in(TERMINAL_URI, "echo fir''st\n").await;
    me.wait_for_text(TERMINAL_URI, "first").await;
    let seen = me.received.last().unwrap()["serverSeq"].clone();
    let before = me.state(TERMINAL_URI).clone();
    drop(me);
    other.type_in(TERMINAL_URI, "echo sec''ond\n").await;
    other.wait_for_text(TERMINAL_URI, "second").await;
    let mut raw = hostler_testkit::raw_client::RawClient::connect(&host.url()).await;
    let back =
        json!({"channel": "ahp-root://", "clientId": "me", "lastSeenServerSeq": seen, "subscriptions": [TERMINAL_URI]});
    let answer = raw.call("reconnect", back).await.unwrap();
    assert_eq!((answer["type"].as_str(), &answer["missing"]), (Some("replay"), &json!([])), "{answer}");
    let mut state = before;
    for item in answer["actions"].as_array().unwrap() {
        let action = serde_json::from_value(item["action"].clone()).unwrap();
        ahp::reducers::apply_action_to_terminal(&mut state, &action);
    }
    assert_eq!(state.content, other.state(TERMINAL_URI).content);
    host.stop().await;
}
