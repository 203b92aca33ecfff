//! How an agent is born, and how it is not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![cfg(target_os = "linux")]

mod common;

use std::future::Future;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use common::*;
use hostler_process::{
    AgentProcess, ConversationLock, SpawnError, SpawnSpec, SupervisorCommand, TerminationMode, become_host, spawn,
};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

async fn error_of(spec: SpawnSpec) -> SpawnError {
    let error = spawn(spec).await.expect_err("it started");
    assert_eq!(own_children(), [] as [u32; 0], "a failed start left a process");
    error
}

#[tokio::test]
async fn the_environment_is_exactly_the_one_given() {
    let mut spec = program("/usr/bin/env", &[]);
    spec.env.remove("PATH");
    spec.env.set("B", "two words");
    spec.env.set("A", "ä=b");
    let mut agent = spawn(spec).await.unwrap();
    assert_eq!(all_lines(&mut agent.stdout).await, ["A=ä=b", "B=two words"]);
    agent.handle.wait_until_tree_empty().await;
}

#[tokio::test]
async fn a_host_may_open_as_many_files_as_the_system_allows_and_its_agents_as_many_as_before() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let before = hard / 2;
    setrlimit(Resource::RLIMIT_NOFILE, before, hard).unwrap();
    become_host().unwrap();
    assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    let mut agent = start("ulimit -Sn; ulimit -Hn").await;
    assert_eq!(all_lines(&mut agent.stdout).await, [before.to_string(), hard.to_string()]);
    agent.handle.wait_until_tree_empty().await;
}

#[tokio::test]
async fn the_agent_has_its_three_streams_and_no_other_file() {
    let dir = tempfile::tempdir().unwrap();
    // A file that our own parent left open by mistake, and the files of an agent that runs already.
    let stray = std::fs::File::open("/dev/null").unwrap();
    fcntl(stray.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let other = start("cat").await;

    let mut spec = shell("ls /proc/$$/fd; true");
    spec.lock = Some(ConversationLock::acquire(dir.path(), "c", "me").unwrap().into());
    let mut agent = spawn(spec).await.unwrap();
    let files = all_lines(&mut agent.stdout).await;
    assert_eq!(files, ["0", "1", "2"]);
    agent.handle.wait_until_tree_empty().await;
    other.handle.close(TerminationMode::Now).await;
}

#[tokio::test]
async fn the_supervisor_holds_none_of_the_agents_streams_and_shows_no_secret() {
    let mut spec = shell("echo $PPID; cat");
    spec.env.set("TOKEN", "planted-secret");
    let mut agent = spawn(spec).await.unwrap();
    let supervisor = pids(&mut agent.stdout, 1).await[0];
    for fd in 0..3 {
        // Whoever may not look cannot see a secret either.
        if let Ok(target) = std::fs::read_link(format!("/proc/{supervisor}/fd/{fd}")) {
            assert_eq!(target.to_str(), Some("/dev/null"));
        }
    }
    for place in ["cmdline", "environ"] {
        let shown = std::fs::read(format!("/proc/{supervisor}/{place}")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&shown).contains("planted-secret"), "{place}");
    }
    agent.handle.close(TerminationMode::Now).await;
}

#[tokio::test]
async fn signals_that_our_parents_ignored_or_blocked_reach_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let host = tokio::process::Command::new("/bin/sh")
        .args(["-c", "trap '' HUP INT USR1 CHLD; exec \"$@\"", "sh", TEST_BINARY, "host"])
        .arg(dir.path())
        .arg("grep -E 'Sig(Blk|Ign)' /proc/self/status")
        .output()
        .await
        .unwrap();
    let shown = String::from_utf8(host.stdout).unwrap();
    let masks: Vec<u64> = shown
        .lines()
        .filter(|line| line.starts_with("Sig"))
        .map(|line| u64::from_str_radix(line.split_once('\t').unwrap().1, 16).unwrap())
        .collect();
    // 32 and 33 belong to the C library, which lets nobody change them.
    let of_the_c_library = (1 << 31) | (1 << 32);
    assert_eq!(masks.len(), 2, "{shown}");
    assert!(shown.ends_with("exit code 0\n"), "{shown}");
    assert!(masks.iter().all(|mask| mask & !of_the_c_library == 0), "{shown}");
}

#[tokio::test]
async fn the_agent_starts_in_its_directory_and_is_found_on_its_own_path() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = program("pwd", &[]);
    spec.cwd = dir.path().to_owned();
    let mut agent = spawn(spec).await.unwrap();
    assert_eq!(all_lines(&mut agent.stdout).await, [dir.path().to_str().unwrap()]);
    agent.handle.wait_until_tree_empty().await;
}

#[tokio::test]
async fn a_missing_program_is_not_found() {
    for name in ["/nowhere/agent", "no-such-agent-on-the-path"] {
        let error = error_of(program(name, &[])).await;
        assert!(matches!(&error, SpawnError::NotFound(program) if program.to_str() == Some(name)), "{error}");
    }
}

#[tokio::test]
async fn a_file_that_may_not_be_executed_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let foreign = dir.path().join("for-another-machine");
    std::fs::write(&foreign, "\x7fELF and nothing else").unwrap();
    std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(0o755)).unwrap();
    for path in [file.as_path(), dir.path(), &foreign] {
        let error = error_of(program(path, &[])).await;
        assert!(matches!(error, SpawnError::NotExecutable(_)), "{error}");
    }
}

#[tokio::test]
async fn a_missing_working_directory_is_named() {
    let mut spec = shell("true");
    spec.cwd = "/nowhere/at/all".into();
    let error = error_of(spec).await;
    assert!(matches!(error, SpawnError::NoWorkingDirectory { .. }));
    assert!(error.to_string().contains("/nowhere/at/all"));
}

#[tokio::test]
async fn an_argument_with_a_nul_byte_is_an_error() {
    assert!(matches!(error_of(program("/bin/echo", &["a\0b"])).await, SpawnError::Io(_)));
}

#[tokio::test]
async fn a_supervisor_that_is_none_is_reported() {
    for (name, args, words) in [
        ("/nowhere/hostler", vec![], "/nowhere/hostler"),
        ("/bin/sh", vec!["-c", "echo oh dear >&2; exit 3"], "oh dear"),
        ("/bin/sh", vec!["-c", "echo nonsense >&3; exec sleep 1000"], "before it had started"),
        ("/bin/sh", vec!["-c", "kill -9 $$"], "signal: 9"),
    ] {
        let mut spec = shell("true");
        spec.supervisor = SupervisorCommand { program: name.into(), args: args.into_iter().map(Into::into).collect() };
        let error = error_of(spec).await;
        assert!(matches!(error, SpawnError::Supervisor(_)));
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_failed_start_frees_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    for broken in ["agent", "supervisor"] {
        let mut spec = program("/nowhere/agent", &[]);
        if broken == "supervisor" {
            spec.supervisor.program = "/nowhere/hostler".into();
        }
        spec.lock = Some(ConversationLock::acquire(dir.path(), "c", "me").unwrap().into());
        error_of(spec).await;
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{broken}");
        ConversationLock::acquire(dir.path(), "c", "me").unwrap();
    }
}

#[tokio::test]
async fn a_start_that_is_dropped_at_any_moment_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for polls in 0..12 {
        let mut spec = shell("setsid sleep 1000 & exec sleep 1000");
        spec.lock = Some(ConversationLock::acquire(dir.path(), "c", "me").unwrap().into());
        let mut attempt = Box::pin(spawn(spec));
        let mut left = polls;
        let started = std::future::poll_fn(|context| {
            let poll = attempt.as_mut().poll(context);
            left -= 1;
            if poll.is_pending() && left >= 0 {
                poll.map(Some)
            } else {
                std::task::Poll::Ready(None::<Result<AgentProcess, SpawnError>>)
            }
        });
        drop(started.await);
        drop(attempt);
        until(|| own_children().is_empty()).await;
        until(|| ConversationLock::acquire(dir.path(), "c", "me").is_ok()).await;
    }
}

#[tokio::test]
async fn two_hundred_agents_leave_no_file_and_no_zombie_behind() {
    async fn one() {
        let mut agent = start("setsid sleep 1000 & echo $!").await;
        let child = pids(&mut agent.stdout, 1).await;
        agent.handle.wait_until_tree_empty().await;
        assert_all_gone(&child);
    }
    one().await;
    let before = open_files();
    for _ in 0..25 {
        tokio::join!(one(), one(), one(), one(), one(), one(), one(), one());
    }
    // The last watcher may be about to end.
    until(|| open_files() <= before).await;
    assert_eq!(own_children(), [] as [u32; 0]);
}

#[test]
fn a_spec_shows_neither_arguments_nor_values() {
    let mut spec = shell("argument-secret");
    spec.env.set("NAME", "value-secret");
    spec.redact.push("redact-secret".into());
    let shown = format!("{spec:?}");
    assert!(shown.contains("NAME") && !shown.contains("-secret"), "{shown}");
}
