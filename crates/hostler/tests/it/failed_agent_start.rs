//! Failed agent starts: the reason is reported, nothing remains, and the next message tries again.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{HostProcess, TEST_TIMEOUT, TestHome};
use ahp::client::SubscriptionEvent;
use ahp_types::StateAction;
use ahp_types::state::{ResponsePart, TurnState};
use hostler_testkit::processes;
use hostler_testkit::test_client::{SessionUris, TestClient};
use nix::sys::signal::Signal;

/// Long enough for a successful start, also on a busy machine.
const HANDSHAKE_TIMEOUT: &str = "2";

/// Fake agent behind a script, so that a test can change it while the host runs. It prints its behavior on stderr.
struct ScriptedFakeAgent {
    script: PathBuf,
    behavior_file: PathBuf,
}

impl ScriptedFakeAgent {
    fn new(home: &TestHome, behaviour: &str) -> Self {
        let agent = Self { script: home.path("agent"), behavior_file: home.path("behaviour") };
        agent.set_behavior(behaviour);
        let program = hostler_testkit::fake_agent::ensure_built().unwrap();
        let lines = [
            "#!/bin/sh",
            &format!("export FAKE_AGENT=\"$(cat '{}')\"", agent.behavior_file.display()),
            "echo \"I am [$FAKE_AGENT]\" >&2",
            &format!("exec '{}' \"$@\"", program.display()),
        ];
        std::fs::write(&agent.script, lines.join("\n")).unwrap();
        set_mode(&agent.script, 0o755);
        agent
    }

    /// Sets the behavior from the next start on; empty is normal.
    fn set_behavior(&self, behaviour: &str) {
        std::fs::write(&self.behavior_file, behaviour).unwrap();
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Session without an agent.
struct UnstartedSession {
    home: TestHome,
    agent: ScriptedFakeAgent,
    host: HostProcess,
    peer: TestClient,
    uris: SessionUris,
}

/// Reported failure of a start.
#[derive(Debug)]
struct FailedStart {
    kind: String,
    sentence: String,
    stderr: String,
}

impl UnstartedSession {
    async fn begin(behaviour: &str) -> Self {
        let home = TestHome::new();
        let agent = ScriptedFakeAgent::new(&home, behaviour);
        let host = serve(&home, &agent).await;
        let peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        Self { home, agent, host, peer, uris }
    }

    /// Sends a message whose turn fails because the agent could not be started.
    async fn send_and_expect_failure(&mut self) -> FailedStart {
        let turn = self.peer.send_message(&self.uris.chat, "hi").await;
        let envelopes = self.peer.wait_for_turn_end(&self.uris.chat).await;
        let StateAction::ChatError(end) = &envelopes.last().unwrap().action else { panic!("{:?}", envelopes.last()) };
        assert_eq!(end.turn_id, turn);
        let error = &end.part.error;
        assert!(error.message.contains(' ') && error.message.ends_with('.'), "no sentence: {}", error.message);
        let meta = serde_json::to_value(&error.meta).unwrap();
        let stderr = meta["hostler"]["stderr"].as_str().unwrap_or_default().to_owned();
        self.assert_nothing_left(&format!("{error:?}")).await;
        FailedStart { kind: error.error_type.clone(), sentence: error.message.clone(), stderr }
    }

    /// Asserts at once that no process, no lock and no public session remains.
    async fn assert_nothing_left(&self, context: &str) {
        assert_eq!(self.host.process_tree(), Vec::<u32>::new(), "{context}");
        assert_eq!(self.home.locks(), Vec::<PathBuf>::new(), "{context}");
        assert_eq!(self.peer.list_sessions().await, Vec::<String>::new(), "{context}");
        assert_eq!(self.announcements(), 0, "{context}");
    }

    /// The next message starts a working agent, and the session is announced.
    async fn send_and_expect_answer(mut self) {
        let text = self.peer.send_and_wait(&self.uris.chat, "again").await;
        assert_eq!(text, "echo: again");
        assert_eq!(self.peer.list_sessions().await, [self.uris.session.clone()]);
        assert_eq!(self.announcements(), 1);
        self.host.stop().await;
        assert_eq!(self.home.locks(), Vec::<PathBuf>::new());
    }

    fn announcements(&self) -> usize {
        let added = self.peer.received.iter().filter(|event| matches!(event.event, SubscriptionEvent::SessionAdded(_)));
        added.count()
    }

    /// Sends a message and waits for the agent's process, which never becomes ready.
    async fn send_and_wait_for_process(&mut self) -> String {
        let turn = self.peer.send_message(&self.uris.chat, "hi").await;
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.host.agents().is_empty() {
            assert!(Instant::now() < deadline, "no agent was started");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        turn
    }
}

async fn serve(home: &TestHome, agent: &ScriptedFakeAgent) -> HostProcess {
    let args = ["--claude", agent.script.to_str().unwrap(), "--upstream", "scripted"];
    home.serve_with(&args, &[("HOSTLER_HANDSHAKE_TIMEOUT", HANDSHAKE_TIMEOUT)]).await
}

// ── The agent runs, but not well ──────────────────────────────────────────────────────────────────────────────────────

/// Fails twice, because a failure must not affect the next attempt, and succeeds when the agent works.
async fn check(behaviour: &str, kind: &str, sentence: &str, stderr: &str) {
    let mut scene = UnstartedSession::begin(behaviour).await;
    for _ in 0..2 {
        let refusal = scene.send_and_expect_failure().await;
        assert_eq!(refusal.kind, kind, "{refusal:?}");
        assert!(refusal.sentence.contains(sentence), "{refusal:?}");
        assert!(refusal.stderr.contains(&format!("I am [{behaviour}]")), "{refusal:?}");
        assert!(refusal.stderr.contains(stderr), "{refusal:?}");
    }
    scene.agent.set_behavior("");
    scene.send_and_expect_answer().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_before_the_handshake_is_reported_with_stderr() {
    let sentence = "Claude Code exited before it was ready (exit code 3).";
    check("exit-early:3:the flux is too low", "agentExited", sentence, "the flux is too low").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn root_refusal_is_reported_with_a_fix() {
    let sentence = "Claude Code does not skip permissions for root. Run Hostler as another user";
    check("root-refusal", "agentExited", sentence, "cannot be used with root/sudo privileges").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outdated_agent_is_reported_with_both_versions() {
    check("wrong-version", "agentVersion", "is Claude Code 1.0.3, but 2.", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_handshake_is_reported_with_the_agents_error() {
    check("refuse-handshake", "agentRefused", "the fake agent rejects the handshake", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_agent_is_ended_after_the_handshake_timeout() {
    check("hang-handshake", "agentTimeout", "was not ready within 2 seconds", "").await;
}

// ── A start is given up ───────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_start_does_not_block_the_next_one() {
    let mut scene = UnstartedSession::begin("hang-handshake").await;
    let turn = scene.send_and_wait_for_process().await;
    let tree = scene.host.process_tree();
    scene.peer.cancel_turn(&scene.uris.chat, &turn).await;
    let envelopes = scene.peer.wait_for_turn_end(&scene.uris.chat).await;
    assert!(matches!(envelopes.last().unwrap().action, StateAction::ChatTurnCancelled(_)), "{:?}", envelopes.last());
    assert_eq!(scene.peer.list_sessions().await, Vec::<String>::new());
    // At once: the first process is still ending.
    scene.agent.set_behavior("");
    let text = scene.peer.send_and_wait(&scene.uris.chat, "at once").await;
    assert_eq!(text, "echo: at once");
    let left = processes::wait_for_exit(&tree).await;
    assert!(left.is_empty(), "{left:#?}");
    scene.send_and_expect_answer().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_disposed_during_its_start_is_cleaned_up() {
    let mut scene = UnstartedSession::begin("hang-handshake").await;
    scene.send_and_wait_for_process().await;
    let tree = scene.host.process_tree();
    scene.peer.dispose_session(&scene.uris.session).await;
    let left = processes::wait_for_exit(&tree).await;
    assert!(left.is_empty(), "{left:#?}");
    scene.assert_nothing_left("disposed").await;
    scene.agent.set_behavior("");
    scene.uris = scene.peer.create_session(&scene.home.work()).await;
    scene.send_and_expect_answer().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_stopped_during_an_agent_start_cleans_up() {
    let mut scene = UnstartedSession::begin("hang-handshake").await;
    scene.send_and_wait_for_process().await;
    let tree = scene.host.process_tree();
    scene.host.signal(Signal::SIGTERM);
    let envelopes = scene.peer.wait_for_turn_end(&scene.uris.chat).await;
    assert!(matches!(envelopes.last().unwrap().action, StateAction::ChatTurnCancelled(_)), "{:?}", envelopes.last());
    assert_eq!(scene.host.wait_for_exit().await.code(), Some(0), "{}", scene.host.stderr_text());
    let left = processes::wait_for_exit(&tree).await;
    assert!(left.is_empty(), "{left:#?}");
    assert_eq!(scene.home.locks(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn message_survives_a_host_killed_during_the_agent_start() {
    let mut scene = UnstartedSession::begin("hang-handshake").await;
    scene.send_and_wait_for_process().await;
    let tree = scene.host.process_tree();
    scene.host.signal(Signal::SIGKILL);
    scene.host.wait_for_exit().await;
    let left = processes::wait_for_exit(&tree).await;
    assert!(left.is_empty(), "{left:#?}");
    assert_eq!(scene.home.locks(), Vec::<PathBuf>::new());

    scene.agent.set_behavior("");
    let host = serve(&scene.home, &scene.agent).await;
    let mut peer = host.connect().await;
    // The interrupted turn is ended and its session listed before a client can read the chat.
    let chat = peer.chat_state(&scene.uris.chat).await;
    assert_eq!(peer.list_sessions().await, [scene.uris.session.clone()]);
    assert_eq!((chat.turns.len(), &chat.turns[0].state), (1, &TurnState::Error));
    assert_eq!(chat.turns[0].message.text, "hi");
    let Some(ResponsePart::Error(part)) = chat.turns[0].response_parts.last() else { panic!("{:?}", chat.turns[0]) };
    assert_eq!(part.error.error_type, "interrupted");
    assert_eq!(peer.send_and_wait(&scene.uris.chat, "again").await, "echo: again");
    host.stop().await;
}

// ── The agent cannot run at all ───────────────────────────────────────────────────────────────────────────────────────

#[tokio::test(flavor = "multi_thread")]
async fn broken_executable_is_reported_until_repaired() {
    let mut scene = UnstartedSession::begin("").await;
    let script = scene.agent.script.clone();
    let healthy = std::fs::read(&script).unwrap();

    let elsewhere = scene.home.path("elsewhere");
    std::fs::rename(&script, &elsewhere).unwrap();
    let gone = scene.send_and_expect_failure().await;
    std::fs::rename(&elsewhere, &script).unwrap();

    set_mode(&script, 0o644);
    let forbidden = scene.send_and_expect_failure().await;
    set_mode(&script, 0o755);

    std::fs::write(&script, "no program at all").unwrap();
    let foreign = scene.send_and_expect_failure().await;
    std::fs::write(&script, healthy).unwrap();

    for (refusal, reason) in [(gone, "not found"), (forbidden, "is not executable"), (foreign, "is not executable")] {
        assert_eq!((&*refusal.kind, &*refusal.stderr), ("agentMissing", ""), "{refusal:?}");
        assert!(refusal.sentence.contains(script.to_str().unwrap()), "{refusal:?}");
        assert!(refusal.sentence.contains(reason), "{refusal:?}");
        assert!(refusal.sentence.contains("`hostler agents install claude`"), "{refusal:?}");
    }
    scene.send_and_expect_answer().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_executable_prevents_the_host_start() {
    let home = TestHome::new();
    let missing = home.path("nowhere");
    let plain = home.path("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    set_mode(&plain, 0o644);
    let script = home.path("missing.js");
    for (path, reason) in [
        (&missing, "Claude Code not found at"),
        (&script, "Claude Code not found at"),
        (&plain, "is not executable"),
        (&home.work(), "is not executable"),
    ] {
        let path = path.to_str().unwrap();
        let mut command = home.serve_command(&["--claude", path, "--upstream", "scripted"], &[]);
        let output = tokio::time::timeout(TEST_TIMEOUT, command.output()).await.expect("the host gives up").unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{path}: {stderr}");
        assert!(stderr.contains(path) && stderr.contains(reason), "{path}: {stderr}");
        assert_eq!(output.stdout, b"", "{path}: the host does not report that it is ready");
    }
}

// ── The agent has no place to run ─────────────────────────────────────────────────────────────────────────────────────

#[tokio::test(flavor = "multi_thread")]
async fn deleted_working_directory_is_reported() {
    let mut scene = UnstartedSession::begin("").await;
    let project = scene.home.path("project");
    std::fs::create_dir(&project).unwrap();
    scene.uris = scene.peer.create_session(&project).await;
    std::fs::remove_dir(&project).unwrap();
    for _ in 0..2 {
        let refusal = scene.send_and_expect_failure().await;
        assert_eq!(refusal.kind, "workingDirectoryMissing", "{refusal:?}");
        assert!(refusal.sentence.contains(project.to_str().unwrap()), "{refusal:?}");
    }
    std::fs::create_dir(&project).unwrap();
    scene.send_and_expect_answer().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_in_use_by_another_host_is_not_opened() {
    let mut scene = UnstartedSession::begin("").await;
    scene.peer.send_and_wait(&scene.uris.chat, "mine").await;
    let agent = scene.host.only_agent().pid;

    let state = scene.home.path("other");
    let script = scene.agent.script.to_str().unwrap();
    let args = ["--claude", script, "--upstream", "scripted", "--state-dir", state.to_str().unwrap()];
    let other = HostProcess::start(scene.home.serve_command(&args, &[]), &state).await;
    let mut peer = other.connect().await;
    // The other host finds it by the agent's transcript.
    let uris = &scene.uris;
    peer.subscribe_snapshot(&uris.session).await;
    peer.subscribe_snapshot(&uris.chat).await;
    peer.send_message(&uris.chat, "mine too").await;
    let envelopes = peer.wait_for_turn_end(&uris.chat).await;
    let StateAction::ChatError(end) = &envelopes.last().unwrap().action else { panic!("{:?}", envelopes.last()) };
    assert_eq!(end.part.error.error_type, "conversationBusy");
    let state_dir = scene.home.path("state").join("hostler");
    let holder = format!("already open in the host with process {} ({})", scene.host.pid, state_dir.display());
    assert!(end.part.error.message.contains(&holder), "{}", end.part.error.message);
    assert_eq!(other.process_tree(), Vec::<u32>::new());
    assert_eq!(peer.list_sessions().await, [uris.session.as_str()]);

    // The first host was not disturbed. When it releases the conversation, the other one may use it.
    assert_eq!(scene.peer.send_and_wait(&scene.uris.chat, "still mine").await, "echo: still mine");
    assert_eq!(scene.host.only_agent().pid, agent);
    scene.host.stop().await;
    assert_eq!(peer.send_and_wait(&uris.chat, "mine now").await, "echo: mine now");
    assert!(other.only_agent().command.contains("--resume="), "{}", other.only_agent().command);
    other.stop().await;
    assert_eq!(scene.home.locks(), Vec::<PathBuf>::new());
}
