//! Disk that is full or read-only: the host reports it, rejects messages, and recovers by itself.

use ahp_types::actions::{ActionEnvelope, StateAction};
use std::process::Stdio;

use crate::common::{TEST_TIMEOUT, TestHome};
use hostler_testkit::test_client::TestClient;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const TOKEN: &str = "disk-test";

/// Host whose state directory is a small file system in a separate mount namespace.
struct SmallDisk {
    shell: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    url: String,
}

/// Shell that runs one command per line, and echoes it when it is done.
///
/// A file system with files open for writing cannot be remounted read-only by a user; only the kernel does that,
/// after an error. Every write to an open file fails then, and so it does when a process may not write to files at
/// all.
const NAMESPACE_SHELL_SCRIPT: &str = r#"
trap '' XFSZ
mount -t tmpfs -o size=6m,mode=0700 tmpfs "$STATE" || exit 97
"$HOSTLER" serve --listen 127.0.0.1:0 --state-dir "$STATE" --claude "$AGENT" --upstream scripted --token "$TOKEN" &
host=$!
while read -r order; do
    case "$order" in
        fill) cat /dev/zero > "$STATE/filler" 2>/dev/null ;;
        free) rm "$STATE/filler" ;;
        lock) prlimit --pid "$host" --fsize=0:unlimited ;;
        unlock) prlimit --pid "$host" --fsize=unlimited:unlimited ;;
        quit) kill -TERM "$host"; wait "$host"; echo "quit $?"; exit 0 ;;
    esac
    echo "$order"
done
# The test has ended.
kill -KILL "$host"
"#;

impl SmallDisk {
    async fn start(home: &TestHome) -> Self {
        let state = home.path("disk");
        std::fs::create_dir(&state).unwrap();
        let template = home.hostler_command(&[]);
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", NAMESPACE_SHELL_SCRIPT]);
        for (name, value) in template.as_std().get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .env("STATE", &state)
            .env("HOSTLER", env!("CARGO_BIN_EXE_hostler"))
            .env("AGENT", hostler_testkit::fake_agent::ensure_built().unwrap())
            .env("TOKEN", TOKEN)
            .current_dir(home.work())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut shell = command.spawn().expect("`unshare` is needed, from util-linux");
        let mut answers = BufReader::new(shell.stdout.take().unwrap()).lines();
        let ready = tokio::time::timeout(TEST_TIMEOUT, answers.next_line()).await.unwrap().unwrap();
        let ready = ready.expect("a host in a mount namespace; are user namespaces switched off?");
        let port = ready.strip_prefix("READY:").expect("READY").to_owned();
        let orders = shell.stdin.take().unwrap();
        Self { shell, commands: orders, answers, url: format!("ws://127.0.0.1:{port}/?tkn={TOKEN}") }
    }

    async fn run_command(&mut self, command: &str) -> String {
        self.commands.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        tokio::time::timeout(TEST_TIMEOUT, self.answers.next_line()).await.unwrap().unwrap().unwrap()
    }
}

/// Breaks the disk during a turn, expects another message to be rejected, repairs the disk, and expects recovery.
async fn assert_recovers_from(breaks: &str, mends: &str, sentence: &str) {
    let home = TestHome::new();
    let mut disk = SmallDisk::start(&home).await;
    let mut peer = TestClient::connect(&disk.url).await;
    let uris = peer.create_session(&home.work()).await;
    assert_eq!(peer.send_and_wait(&uris.chat, "before").await, "echo: before");

    // A turn that is running when the disk breaks continues to stream; its end is delayed.
    peer.send_message(&uris.chat, "deltas 2000").await;
    let started = |e: &ActionEnvelope| matches!(e.action, StateAction::ChatTurnStarted(_));
    let received = peer.wait_for(&uris.chat, started).await;
    assert_eq!(received.last().unwrap().rejection_reason, None);
    disk.run_command(breaks).await;
    let mut reason = None;
    let other = peer.create_session(&home.work()).await;
    while reason.is_none() {
        peer.send_message(&other.chat, "x").await;
        let received = peer.wait_for(&other.chat, started).await;
        reason = received.last().unwrap().rejection_reason.clone();
        if reason.is_none() {
            // Some space was left: that turn must end before the next attempt.
            disk.run_command(mends).await;
            peer.wait_for_turn_end(&other.chat).await;
            disk.run_command(breaks).await;
        }
    }
    assert!(reason.as_ref().unwrap().contains(sentence), "{reason:?}");

    disk.run_command(mends).await;
    let chat = loop {
        let chat = peer.chat_state(&uris.chat).await;
        if chat.active_turn.is_none() {
            break chat;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(chat.turns.len(), 2, "the end of the turn was retained until it could be written");
    assert_eq!(peer.send_and_wait(&other.chat, "well again").await, "echo: well again");
    assert_eq!(disk.run_command("quit").await, "quit 0");
    disk.shell.wait().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_rejects_messages_with_a_reason_and_recovers() {
    assert_recovers_from("fill", "free", "the disk is full").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_disk_rejects_messages_with_a_reason_and_recovers() {
    assert_recovers_from("lock", "unlock", "the state directory cannot be written").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_state_directory_is_refused_at_start_with_a_reason() {
    let home = TestHome::new();
    let state = home.path("disk");
    std::fs::create_dir(&state).unwrap();
    let script = r#"mount -t tmpfs -o size=1m,mode=0700,ro tmpfs "$STATE" && exec "$HOSTLER" serve --listen 127.0.0.1:0 --state-dir "$STATE" --claude "$AGENT" --upstream scripted"#;
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script]);
    for (name, value) in home.hostler_command(&[]).as_std().get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.env("STATE", &state).env("HOSTLER", env!("CARGO_BIN_EXE_hostler"));
    command.env("AGENT", hostler_testkit::fake_agent::ensure_built().unwrap()).stdin(Stdio::null());
    let output = tokio::time::timeout(TEST_TIMEOUT, command.output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(output.stdout, b"", "no READY line");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.to_lowercase().contains("read-only"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_session_delete_leaves_the_session_complete() {
    let home = TestHome::new();
    let mut disk = SmallDisk::start(&home).await;
    let mut peer = TestClient::connect(&disk.url).await;
    let uris = peer.create_session(&home.work()).await;
    peer.send_and_wait(&uris.chat, "hi").await;
    disk.run_command("fill").await;
    let dispose = || {
        let params = serde_json::json!({"channel": uris.session});
        peer.client.request::<_, serde_json::Value>("disposeSession", params)
    };
    let refused = dispose().await.unwrap_err().to_string();
    assert!(refused.contains("the disk is full"), "{refused}");
    assert_eq!(peer.list_sessions().await, std::slice::from_ref(&uris.session));
    assert_eq!(peer.chat_state(&uris.chat).await.turns.len(), 1, "it can still be read");
    disk.run_command("free").await;
    dispose().await.unwrap();
    assert_eq!(peer.list_sessions().await, Vec::<String>::new());
    assert_eq!(disk.run_command("quit").await, "quit 0");
    disk.shell.wait().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn message_is_rejected_if_its_attachments_do_not_fit_on_the_disk() {
    let home = TestHome::new();
    let mut disk = SmallDisk::start(&home).await;
    let mut peer = TestClient::connect(&disk.url).await;
    let uris = peer.create_session(&home.work()).await;
    peer.send_and_wait(&uris.chat, "before").await;
    let contents = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "text\n".repeat(20_000));
    let attached = serde_json::json!([{ "type": "embeddedResource", "label": "notes.txt", "data": contents,
        "contentType": "text/plain" }]);
    let message = serde_json::json!({ "text": "look", "origin": { "kind": "user" }, "attachments": attached });
    let action = serde_json::json!({ "type": "chat/turnStarted", "turnId": "t2",
        "startedAt": "2026-11-15T08:00:00.000Z", "message": message });
    let action: StateAction = serde_json::from_value(action).unwrap();
    disk.run_command("fill").await;
    peer.dispatch(&uris.chat, action.clone()).await;
    let started = |e: &ActionEnvelope| matches!(&e.action, StateAction::ChatTurnStarted(_));
    let refused = peer.wait_for(&uris.chat, started).await.pop().unwrap().rejection_reason.expect("no room");
    assert!(refused.contains("the disk is full"), "{refused}");
    assert_eq!(peer.chat_state(&uris.chat).await.turns.len(), 1, "nothing of the message is stored");
    disk.run_command("free").await;
    peer.dispatch(&uris.chat, action).await;
    let accepted = peer.wait_for_turn_end(&uris.chat).await;
    assert!(matches!(accepted.last().unwrap().action, StateAction::ChatTurnComplete(_)), "{accepted:#?}");
    assert_eq!(disk.run_command("quit").await, "quit 0");
    disk.shell.wait().await.unwrap();
}
