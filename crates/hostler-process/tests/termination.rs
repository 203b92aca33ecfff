//! Ending an agent's process tree: by close, drop, exit, signals, and the death of supervisor or host.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![cfg(target_os = "linux")]

mod common;

use common::*;
use hostler_process::{
    AgentProcess, ConversationLock, LockError, ProcessTreeLock, TerminationMode, become_host, spawn,
};
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};

/// An agent with descendants that called setsid, and all their pids.
async fn tree(script: &str, children: usize) -> (AgentProcess, Vec<u32>) {
    let mut agent = start(&format!("{script}cat")).await;
    let mut tree = pids(&mut agent.stdout, children).await;
    tree.push(agent.handle.pid());
    (agent, tree)
}

#[tokio::test]
async fn close_now_ends_the_whole_tree() {
    let (agent, tree) = tree(SETSID_CHILDREN, 2).await;
    agent.handle.close(TerminationMode::Now).await;
    assert_all_gone(&tree);
    assert_eq!(agent.handle.wait_for_exit().await.signal, Some(15));
    assert_eq!(own_children(), [] as [u32; 0]);
}

#[tokio::test]
async fn tree_that_ignores_sigterm_is_killed() {
    let mut agent = start(&format!("{STUBBORN_CHILDREN}while :; do sleep 1000; done")).await;
    let mut tree = pids(&mut agent.stdout, 2).await;
    tree.push(agent.handle.pid());
    agent.handle.close(TerminationMode::Now).await;
    assert_all_gone(&tree);
    assert_eq!(agent.handle.wait_for_exit().await.signal, Some(9));
}

#[tokio::test]
async fn tree_that_forks_during_the_kill_is_killed() {
    let script = "trap '' TERM\nfork() { setsid sh -c 'trap \"\" TERM; while :; do sleep 0.01 & sleep 0.01; done' & }\n\
                  fork; fork; fork; echo $$; while :; do sleep 0.01; done";
    let mut agent = start(script).await;
    pids(&mut agent.stdout, 1).await;
    agent.handle.close(TerminationMode::Now).await;
    // A surviving process would hold the agent's output open.
    assert_eq!(agent.stdout.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn graceful_close_lets_the_agent_finish_and_ends_its_descendants() {
    let (agent, tree) = tree(SETSID_CHILDREN, 2).await;
    let AgentProcess { stdin, handle, .. } = agent;
    stdin.close();
    handle.close(TerminationMode::Graceful).await;
    assert_eq!(handle.wait_for_exit().await.code, Some(0));
    assert_all_gone(&tree);
}

#[tokio::test]
async fn graceful_close_ends_an_agent_that_does_not_finish() {
    let mut agent = start("echo ready; exec sleep 1000").await;
    line(&mut agent.stdout).await;
    agent.stdin.close();
    agent.handle.close(TerminationMode::Graceful).await;
    assert_eq!(agent.handle.wait_for_exit().await.signal, Some(15));
    assert_all_gone(&[agent.handle.pid()]);
}

#[tokio::test]
async fn close_may_be_called_concurrently_and_repeatedly() {
    let (agent, tree) = tree(SETSID_CHILDREN, 2).await;
    let handle = &agent.handle;
    let other = handle.clone();
    tokio::join!(
        handle.close(TerminationMode::Graceful),
        other.close(TerminationMode::Now),
        handle.close(TerminationMode::Now),
    );
    handle.close(TerminationMode::Graceful).await;
    assert_all_gone(&tree);
}

#[tokio::test]
async fn dropping_the_last_handle_ends_the_tree() {
    let (agent, tree) = tree(SETSID_CHILDREN, 2).await;
    let AgentProcess { handle, mut stdout, stdin: _stdin } = agent;
    let clone = handle.clone();
    drop(handle);
    assert!(tree.iter().all(|pid| exists(*pid)), "one handle was left");
    drop(clone);
    assert_eq!(stdout.next_line().await.unwrap(), None);
    until(|| own_children().is_empty()).await;
    assert_all_gone(&tree);
}

#[tokio::test]
async fn agent_exit_ends_its_tree() {
    let mut agent = start(&format!("{SETSID_CHILDREN}read line; exit 4")).await;
    let tree = pids(&mut agent.stdout, 2).await;
    agent.stdin.write_line(b"go").await.unwrap();
    assert_eq!(agent.handle.wait_for_exit().await.code, Some(4));
    agent.handle.wait_until_tree_empty().await;
    assert_all_gone(&tree);
}

#[tokio::test]
async fn supervisor_ends_the_tree_on_sigterm() {
    let (agent, tree) = tree(SETSID_CHILDREN, 2).await;
    send(parent_of(agent.handle.pid()).unwrap(), Signal::SIGTERM);
    agent.handle.wait_until_tree_empty().await;
    assert_all_gone(&tree);
}

#[tokio::test]
async fn killed_supervisor_has_only_its_own_tree_ended_by_the_host() {
    become_host().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut spec = shell(&format!("{STUBBORN_CHILDREN}while :; do sleep 1000; done"));
    spec.lock = Some(ConversationLock::acquire(dir.path(), "c", "me").unwrap().into());
    let mut agent = spawn(spec).await.unwrap();
    let mut doomed = pids(&mut agent.stdout, 2).await;
    doomed.push(agent.handle.pid());
    let (bystander, others) = tree(SETSID_CHILDREN, 2).await;
    let mut own_command = tokio::process::Command::new("/bin/cat").stdin(std::process::Stdio::piped()).spawn().unwrap();

    send(parent_of(agent.handle.pid()).unwrap(), Signal::SIGKILL);
    agent.handle.wait_until_tree_empty().await;
    assert_all_gone(&doomed);
    assert_eq!(agent.handle.wait_for_exit().await.signal, Some(9));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the lock file is left");
    ConversationLock::acquire(dir.path(), "c", "me").unwrap();

    assert!(others.iter().all(|pid| exists(*pid)), "another agent's tree was touched");
    drop(own_command.stdin.take());
    assert!(own_command.wait().await.unwrap().success(), "the host's own command was touched");
    bystander.handle.close(TerminationMode::Now).await;
    assert_eq!(own_children(), [] as [u32; 0]);
}

#[tokio::test]
async fn orphans_of_host_commands_are_reaped_on_exit() {
    become_host().unwrap();
    let agent = start("cat").await;
    let mut own_command = tokio::process::Command::new("/bin/sh")
        .args(["-c", "(setsid sh -c 'echo $$; read line' <&3 &) 3<&0"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(own_command.stdout.take().unwrap()).lines();
    let orphan: u32 = out.next_line().await.unwrap().unwrap().parse().unwrap();
    let stdin = own_command.stdin.take();
    assert!(own_command.wait().await.unwrap().success());
    until(|| parent_of(orphan) == Some(std::process::id())).await;
    drop(stdin);
    until(|| !exists(orphan)).await;
    agent.handle.close(TerminationMode::Now).await;
}

#[tokio::test]
async fn killed_host_leaves_no_process_and_the_lock_is_held_until_then() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = tokio::process::Command::new(TEST_BINARY)
        .arg("host")
        .arg(dir.path())
        .arg(format!("{STUBBORN_CHILDREN}echo $$; while :; do sleep 1000; done"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    let mut tree = Vec::new();
    for _ in 0..3 {
        tree.push(lines.next_line().await.unwrap().unwrap().parse().unwrap());
    }
    host.start_kill().unwrap();
    host.wait().await.unwrap();

    match ConversationLock::acquire(dir.path(), "c", "me") {
        Err(LockError::Held { holder }) => assert_eq!(holder, "the other host"),
        other => panic!("the agent's stubborn tree was still dying: {other:?}"),
    }
    until(|| ConversationLock::acquire(dir.path(), "c", "me").is_ok()).await;
    assert_all_gone(&tree);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the lock file is left");
}

#[tokio::test]
async fn lock_is_held_until_the_tree_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = shell(&format!("{SETSID_CHILDREN}cat"));
    spec.lock = Some(ConversationLock::acquire(dir.path(), "c", "host 1").unwrap().into());
    let mut agent = spawn(spec).await.unwrap();
    pids(&mut agent.stdout, 2).await;
    match ConversationLock::acquire(dir.path(), "c", "host 2") {
        Err(LockError::Held { holder }) => assert_eq!(holder, "host 1"),
        other => panic!("{other:?}"),
    }
    agent.handle.close(TerminationMode::Now).await;
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the lock file is left");
    ConversationLock::acquire(dir.path(), "c", "host 2").unwrap();
}

#[test]
fn runtime_shutdown_ends_agents_and_the_lock_is_held_until_the_tree_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = shell(&format!("{STUBBORN_CHILDREN}while :; do sleep 1000; done"));
    spec.lock = Some(ConversationLock::acquire(dir.path(), "c", "me").unwrap().into());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (agent, tree) = runtime.block_on(async {
        let mut agent = spawn(spec).await.unwrap();
        let tree = pids(&mut agent.stdout, 2).await;
        (agent, tree)
    });
    drop(runtime);
    assert!(matches!(ConversationLock::acquire(dir.path(), "c", "me"), Err(LockError::Held { .. })));

    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        until(|| ConversationLock::acquire(dir.path(), "c", "me").is_ok()).await;
        assert_all_gone(&tree);
        assert_eq!(agent.handle.wait_for_exit().await.to_string(), "unknown exit status");
        agent.handle.wait_until_tree_empty().await;
    });
}

#[test]
fn shared_lock_file_is_held_until_the_tree_is_empty_and_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let open = || std::fs::File::options().create(true).append(true).open(&path).unwrap();
    let held = open();
    held.try_lock().unwrap();
    let mut spec = shell(&format!("{STUBBORN_CHILDREN}while :; do sleep 1000; done"));
    spec.lock = Some(ProcessTreeLock::File(held.try_clone().unwrap()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let tree = runtime.block_on(async { pids(&mut spawn(spec).await.unwrap().stdout, 2).await });
    drop(runtime);
    drop(held);
    assert!(open().try_lock().is_err(), "the stubborn tree was still dying");

    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(until(|| open().try_lock().is_ok()));
    assert_all_gone(&tree);
    assert!(path.exists());
}

#[test]
fn supervise_without_a_host_explains_itself() {
    let ran = std::process::Command::new(TEST_BINARY).arg("supervise").output().unwrap();
    assert!(!ran.status.success());
    assert!(String::from_utf8_lossy(&ran.stderr).contains("hostler serve"));
}
