//! No agent, orphaned child or lock outlives its session or host, however the end comes.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use crate::common::cuttable_connection::CuttableConnection;
use crate::common::{HostProcess, TestHome};
use ahp_types::StateAction;
use ahp_types::state::{ResponsePart, Turn, TurnState};
use hostler_testkit::processes;
use hostler_testkit::test_client::{SessionUris, TestClient, collect_text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt as _;

/// What the agent is doing when the end comes.
#[derive(Debug, Clone, Copy)]
enum AgentWork {
    /// The fake agent, with a prompt.
    Fake(&'static str),
    /// Build of the real agent.
    Real(&'static str),
}

/// Alone; with a child that called setsid; and both ignoring everything but SIGKILL.
const FAKE_AGENT_WORK: [AgentWork; 3] =
    [AgentWork::Fake("hang"), AgentWork::Fake("fork hang"), AgentWork::Fake("fork stubborn hang")];

const REAL_AGENT_WORK: [AgentWork; 2] = [AgentWork::Real("native"), AgentWork::Real("js")];

impl AgentWork {
    async fn serve(self, home: &TestHome) -> HostProcess {
        match self {
            Self::Fake(_) => home.serve_fake(&[("FAKE_AGENT_PIDS", children_file(home).to_str().unwrap())]).await,
            Self::Real(build) => home.serve(build).await,
        }
    }

    fn prompt(self) -> &'static str {
        match self {
            Self::Fake(prompt) => prompt,
            Self::Real(_) => "!say begun\n!hang",
        }
    }

    /// Text that has streamed before the end.
    fn streamed_text(self) -> &'static str {
        match self {
            Self::Fake(_) => "hanging",
            Self::Real(_) => "begun",
        }
    }

    fn leaves_child(self) -> bool {
        self.prompt().contains("fork")
    }

    fn is_stubborn(self) -> bool {
        self.prompt().contains("stubborn")
    }
}

/// File in which the fake agent lists its orphaned children.
fn children_file(home: &TestHome) -> PathBuf {
    home.path("children")
}

/// Running turn: some text has streamed, and no more follows.
struct InterruptedTurn {
    work: AgentWork,
    home: TestHome,
    host: HostProcess,
    peer: TestClient,
    uris: SessionUris,
    turn: String,
    tree: Vec<u32>,
}

impl InterruptedTurn {
    async fn begin(work: AgentWork) -> Self {
        let home = TestHome::new();
        let host = work.serve(&home).await;
        Self::on(home, host, work).await
    }

    async fn on(home: TestHome, host: HostProcess, work: AgentWork) -> Self {
        let mut peer = host.connect().await;
        let uris = peer.create_session(&home.work()).await;
        let turn = peer.send_message(&uris.chat, work.prompt()).await;
        peer.wait_for(&uris.chat, |envelope| matches!(envelope.action, StateAction::ChatDelta(_))).await;
        let tree = host.process_tree();
        assert!(tree.len() >= 2, "{work:?}: a supervisor and an agent");
        if work.leaves_child() {
            let children = std::fs::read_to_string(children_file(&home)).unwrap();
            let child = children.trim().parse().unwrap();
            assert!(tree.contains(&child), "{work:?}: the supervisor has adopted the child");
        }
        assert_eq!(home.locks().len(), 1, "{work:?}");
        Self { work, home, host, peer, uris, turn, tree }
    }

    /// Asserts this five seconds later.
    async fn assert_nothing_left(&self) {
        let left = processes::wait_for_exit(&self.tree).await;
        assert!(left.is_empty(), "{:?}: {left:#?}", self.work);
        assert_eq!(self.home.locks(), Vec::<PathBuf>::new(), "{:?}", self.work);
    }

    /// Returns the agent itself; an orphaned child has the same parent.
    fn agent(&self) -> u32 {
        let agents = self.host.agents();
        let mut agents = agents.iter().filter(|process| process.command.contains("--output-format"));
        let agent = agents.next().expect("an agent").pid;
        assert!(agents.next().is_none(), "one agent");
        agent
    }

    fn supervisor(&self) -> Pid {
        let supervisors = processes::supervisor_processes(self.host.pid);
        assert_eq!(supervisors.len(), 1, "{supervisors:#?}");
        Pid::from_raw(i32::try_from(supervisors[0].pid).unwrap())
    }

    async fn wait_until_turn_is_cancelled(&mut self) {
        let envelopes = self.peer.wait_for_turn_end(&self.uris.chat).await;
        let StateAction::ChatTurnCancelled(end) = &envelopes.last().unwrap().action else {
            panic!("{:?}: {:?}", self.work, envelopes.last())
        };
        assert_eq!(end.turn_id, self.turn, "{:?}", self.work);
    }
}

/// Asserts that the chat works: its agent answers, and knows the conversation.
async fn assert_chat_continues(peer: &mut TestClient, chat: &str, work: AgentWork) {
    peer.send_message(chat, "and now?").await;
    let envelopes = peer.wait_for_turn_end(chat).await;
    assert!(collect_text(&envelopes).contains("and now?"), "{work:?}: {:#?}", envelopes.last());
}

/// Returns the text of a turn, and the type of its error.
fn content(turn: &Turn) -> (String, Option<String>) {
    let (mut text, mut error) = (String::new(), None);
    for part in &turn.response_parts {
        match part {
            ResponsePart::Markdown(part) => text.push_str(&part.content),
            ResponsePart::Error(part) => error = Some(part.error.error_type.clone()),
            _ => {}
        }
    }
    (text, error)
}

// ── One session ends, the host continues ────────────────────────────────────────────────────────────────────────────────

#[tokio::test(flavor = "multi_thread")]
async fn disposed_session_leaves_no_processes_and_the_host_continues() {
    for work in FAKE_AGENT_WORK {
        let mut scene = InterruptedTurn::begin(work).await;
        scene.peer.dispose_session(&scene.uris.session).await;
        scene.assert_nothing_left().await;
        assert_eq!(scene.peer.list_sessions().await, Vec::<String>::new(), "{work:?}");
        let other = scene.peer.create_session(&scene.home.work()).await;
        assert_chat_continues(&mut scene.peer, &other.chat, work).await;
        scene.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_agent_continues_only_if_it_reacts() {
    for work in FAKE_AGENT_WORK {
        let mut scene = InterruptedTurn::begin(work).await;
        let agent = scene.agent();
        scene.peer.cancel_turn(&scene.uris.chat, &scene.turn).await;
        scene.wait_until_turn_is_cancelled().await;
        if work.is_stubborn() {
            scene.assert_nothing_left().await;
        }
        assert_chat_continues(&mut scene.peer, &scene.uris.chat, work).await;
        // Background processes of the agent continue while the agent lives.
        assert_eq!(scene.agent() == agent, !work.is_stubborn(), "{work:?}");
        let chat = scene.peer.chat_state(&scene.uris.chat).await;
        assert_eq!(chat.turns[0].state, TurnState::Cancelled, "{work:?}");
        assert_eq!(content(&chat.turns[0]), (work.streamed_text().to_owned(), None), "{work:?}");
        scene.peer.dispose_session(&scene.uris.session).await;
        scene.assert_nothing_left().await;
        scene.host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_after_cancelling_an_unresponsive_agent_waits_for_a_new_agent() {
    let mut scene = InterruptedTurn::begin(AgentWork::Fake("fork stubborn hang")).await;
    scene.peer.cancel_turn(&scene.uris.chat, &scene.turn).await;
    scene.wait_until_turn_is_cancelled().await;
    assert_chat_continues(&mut scene.peer, &scene.uris.chat, scene.work).await;
    let left = processes::wait_for_exit(&scene.tree).await;
    assert!(left.is_empty(), "{left:#?}");
    scene.host.stop().await;
}

async fn supervisor_killed(work: AgentWork) {
    let mut scene = InterruptedTurn::begin(work).await;
    kill(scene.supervisor(), Signal::SIGKILL).unwrap();
    let envelopes = scene.peer.wait_for_turn_end(&scene.uris.chat).await;
    let StateAction::ChatError(end) = &envelopes.last().unwrap().action else { panic!("{:?}", envelopes.last()) };
    assert_eq!(end.part.error.error_type, "agentExited", "{work:?}");
    scene.assert_nothing_left().await;
    assert_chat_continues(&mut scene.peer, &scene.uris.chat, work).await;
    let chat = scene.peer.chat_state(&scene.uris.chat).await;
    assert_eq!(content(&chat.turns[0]), (work.streamed_text().to_owned(), Some("agentExited".to_owned())), "{work:?}");
    scene.host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_supervisor_leaves_no_processes_and_the_next_message_starts_another() {
    for work in FAKE_AGENT_WORK {
        supervisor_killed(work).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_supervisor_ends_the_real_agent() {
    for work in REAL_AGENT_WORK {
        supervisor_killed(work).await;
    }
}

// ── The host is killed ────────────────────────────────────────────────────────────────────────────────────────────────

async fn host_killed(work: AgentWork) {
    let mut scene = InterruptedTurn::begin(work).await;
    // Output that streamed before another message was accepted is as durable as that message.
    let other = scene.peer.create_session(&scene.home.work()).await;
    scene.peer.send_and_wait(&other.chat, "hi").await;
    scene.tree = scene.host.process_tree();
    scene.host.signal(Signal::SIGKILL);
    assert_eq!(scene.host.wait_for_exit().await.signal(), Some(Signal::SIGKILL as i32));
    scene.assert_nothing_left().await;

    let host = work.serve(&scene.home).await;
    let mut peer = host.connect().await;
    let mut sessions = peer.list_sessions().await;
    sessions.sort();
    let mut expected = vec![scene.uris.session.clone(), other.session];
    expected.sort();
    assert_eq!(sessions, expected, "{work:?}");
    let chat = peer.chat_state(&scene.uris.chat).await;
    assert_eq!(chat.turns.len(), 1, "{work:?}");
    assert_eq!(chat.turns[0].state, TurnState::Error, "{work:?}");
    assert_eq!(content(&chat.turns[0]), (work.streamed_text().to_owned(), Some("interrupted".to_owned())), "{work:?}");
    assert!(host.agents().is_empty(), "{work:?}: no message is sent again automatically");
    assert_chat_continues(&mut peer, &scene.uris.chat, work).await;
    if let AgentWork::Fake(_) = work {
        let command = host.only_agent().command;
        assert!(command.contains("--resume="), "{work:?}: {command}");
    }
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_host_leaves_no_processes_and_loses_no_acknowledged_changes() {
    for work in FAKE_AGENT_WORK {
        host_killed(work).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_host_ends_the_real_agent() {
    for work in REAL_AGENT_WORK {
        host_killed(work).await;
    }
}

/// The new host does not wait for the old agents at its start, but the conversation does.
#[tokio::test(flavor = "multi_thread")]
async fn message_after_a_restart_waits_for_the_old_agent_to_end() {
    let scene = InterruptedTurn::begin(AgentWork::Fake("fork stubborn hang")).await;
    let mut old = scene.host;
    old.signal(Signal::SIGKILL);
    old.wait_for_exit().await;
    let host = scene.work.serve(&scene.home).await;
    let mut peer = host.connect().await;
    peer.chat_state(&scene.uris.chat).await;
    assert_chat_continues(&mut peer, &scene.uris.chat, scene.work).await;
    let left = processes::wait_for_exit(&scene.tree).await;
    assert!(left.is_empty(), "{left:#?}");
    host.stop().await;
}

// ── The host is asked to stop ─────────────────────────────────────────────────────────────────────────────────────────

async fn host_terminated(work: AgentWork) {
    let mut scene = InterruptedTurn::begin(work).await;
    scene.host.signal(Signal::SIGTERM);
    assert_graceful_stop(&mut scene).await;

    let host = work.serve(&scene.home).await;
    let mut peer = host.connect().await;
    let chat = peer.chat_state(&scene.uris.chat).await;
    assert_eq!(chat.turns[0].state, TurnState::Cancelled, "{work:?}");
    assert_eq!(content(&chat.turns[0]), (work.streamed_text().to_owned(), None), "{work:?}");
    assert_chat_continues(&mut peer, &scene.uris.chat, work).await;
    host.stop().await;
}

/// The connected client receives the end of the turn, and the host exits successfully.
async fn assert_graceful_stop(scene: &mut InterruptedTurn) {
    scene.wait_until_turn_is_cancelled().await;
    let status = scene.host.wait_for_exit().await;
    assert_eq!(status.code(), Some(0), "{:?}: {}", scene.work, scene.host.stderr_text());
    scene.assert_nothing_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_turns_as_cancelled_and_leaves_no_processes() {
    for work in FAKE_AGENT_WORK {
        host_terminated(work).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_the_real_agent() {
    for work in REAL_AGENT_WORK {
        host_terminated(work).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn second_sigterm_does_not_wait_for_the_agents() {
    let mut scene = InterruptedTurn::begin(AgentWork::Fake("fork hang")).await;
    // A stopped supervisor makes the shutdown take its maximum time.
    let frozen = StoppedProcess::freeze(scene.supervisor());
    scene.host.signal(Signal::SIGTERM);
    scene.wait_until_turn_is_cancelled().await;
    scene.host.signal(Signal::SIGTERM);
    assert_eq!(scene.host.wait_for_exit().await.code(), Some(130), "interrupted, not finished");
    drop(frozen);
    scene.assert_nothing_left().await;
}

/// Process that is stopped as long as this value lives.
struct StoppedProcess(Pid);

impl StoppedProcess {
    fn freeze(pid: Pid) -> Self {
        kill(pid, Signal::SIGSTOP).unwrap();
        Self(pid)
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stdin_end_stops_the_host_with_the_flag() {
    let work = AgentWork::Fake("fork hang");
    let home = TestHome::new();
    let agent = hostler_testkit::fake_agent::ensure_built().unwrap();
    let args = ["--claude", agent.to_str().unwrap(), "--upstream", "scripted", "--exit-on-stdin-eof"];
    let children = children_file(&home);
    let mut command = home.serve_command(&args, &[("FAKE_AGENT_PIDS", children.to_str().unwrap())]);
    command.stdin(Stdio::piped());
    let mut host = HostProcess::start(command, &home.path("state").join("hostler")).await;
    let mut stdin = host.child.stdin.take().unwrap();
    stdin.write_all(b"text on stdin does not stop the host\n").await.unwrap();
    let mut scene = InterruptedTurn::on(home, host, work).await;
    drop(stdin);
    assert_graceful_stop(&mut scene).await;
}

// ── A client goes away ────────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test(flavor = "multi_thread")]
async fn turn_continues_without_clients_and_a_later_client_sees_its_end() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let cable = CuttableConnection::to(&host).await;
    let mut first = TestClient::connect(&cable.url).await;
    let uris = first.create_session(&home.work()).await;
    let gate = home.path("gate");
    first.send_message(&uris.chat, &format!("wait {}", gate.display())).await;
    first.wait_for(&uris.chat, |envelope| matches!(envelope.action, StateAction::ChatDelta(_))).await;
    cable.cut().await;

    let mut second = host.connect().await;
    assert!(second.chat_state(&uris.chat).await.active_turn.is_some(), "the turn continues");
    std::fs::write(&gate, "").unwrap();
    let envelopes = second.wait_for_turn_end(&uris.chat).await;
    assert!(matches!(envelopes.last().unwrap().action, StateAction::ChatTurnComplete(_)), "{:?}", envelopes.last());
    let chat = second.chat_state(&uris.chat).await;
    assert_eq!(content(&chat.turns[0]), ("waiting, done".to_owned(), None));
    host.stop().await;
}
