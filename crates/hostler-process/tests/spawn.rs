//! Starting an agent: environment, descriptors, signals, locks and failures.
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
async fn agent_environment_is_exactly_the_given_one() {
    let mut spec = program("/usr/bin/env", &[]);
    spec.env.remove("PATH");
    spec.env.set("B", "two words");
    spec.env.set("A", "ä=b");
    let mut agent = spawn(spec).await.unwrap();
    assert_eq!(all_lines(&mut agent.stdout).await, ["A=ä=b", "B=two words"]);
    agent.handle.wait_until_tree_empty().await;
}

#[tokio::test]
async fn host_raises_its_file_limit_and_agents_get_the_original() {
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
async fn agent_inherits_only_its_standard_streams() {
    let dir = tempfile::tempdir().unwrap();
    // A file that this process's parent left open, and the files of an agent that already runs.
    let inherited = std::fs::File::open("/dev/null").unwrap();
    fcntl(inherited.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
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
async fn supervisor_holds_no_agent_streams_and_exposes_no_secret() {
    let mut spec = shell("echo $PPID; cat");
    spec.env.set("TOKEN", "planted-secret");
    let mut agent = spawn(spec).await.unwrap();
    let supervisor = pids(&mut agent.stdout, 1).await[0];
    for fd in 0..3 {
        // A descriptor that cannot be inspected shows no secret either.
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
async fn inherited_signal_masks_and_dispositions_are_reset() {
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
    // 32 and 33 are reserved by the C library and cannot be changed.
    let of_the_c_library = (1 << 31) | (1 << 32);
    assert_eq!(masks.len(), 2, "{shown}");
    assert!(shown.ends_with("exit code 0\n"), "{shown}");
    assert!(masks.iter().all(|mask| mask & !of_the_c_library == 0), "{shown}");
}

#[tokio::test]
async fn agent_starts_in_its_directory_and_is_found_on_its_own_path() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = program("pwd", &[]);
    spec.cwd = dir.path().to_owned();
    let mut agent = spawn(spec).await.unwrap();
    assert_eq!(all_lines(&mut agent.stdout).await, [dir.path().to_str().unwrap()]);
    agent.handle.wait_until_tree_empty().await;
}

#[tokio::test]
async fn missing_program_is_reported() {
    for name in ["/nowhere/agent", "no-such-agent-on-the-path"] {
        let error = error_of(program(name, &[])).await;
        assert!(matches!(&error, SpawnError::NotFound(program) if program.to_str() == Some(name)), "{error}");
    }
}

#[tokio::test]
async fn non_executable_file_is_reported() {
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
async fn missing_working_directory_is_reported() {
    let mut spec = shell("true");
    spec.cwd = "/nowhere/at/all".into();
    let error = error_of(spec).await;
    assert!(matches!(error, SpawnError::NoWorkingDirectory { .. }));
    assert!(error.to_string().contains("/nowhere/at/all"));
}

#[tokio::test]
async fn argument_with_a_nul_byte_is_an_error() {
    assert!(matches!(error_of(program("/bin/echo", &["a\0b"])).await, SpawnError::Io(_)));
}

#[tokio::test]
async fn invalid_supervisor_is_reported() {
    for (name, args, expected) in [
        ("/nowhere/hostler", vec![], "/nowhere/hostler"),
        ("/bin/sh", vec!["-c", "echo oh dear >&2; exit 3"], "oh dear"),
        ("/bin/sh", vec!["-c", "echo nonsense >&3; exec sleep 1000"], "before it started"),
        ("/bin/sh", vec!["-c", "kill -9 $$"], "signal: 9"),
    ] {
        let mut spec = shell("true");
        spec.supervisor = SupervisorCommand { program: name.into(), args: args.into_iter().map(Into::into).collect() };
        let error = error_of(spec).await;
        assert!(matches!(error, SpawnError::Supervisor(_)));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn failed_start_releases_the_lock() {
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
async fn dropped_start_leaves_no_process() {
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
async fn two_hundred_agents_leave_no_descriptor_and_no_zombie() {
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
    // The last watcher may not have ended yet.
    until(|| open_files() <= before).await;
    assert_eq!(own_children(), [] as [u32; 0]);
}

#[test]
fn debug_of_a_spec_shows_no_arguments_and_no_values() {
    let mut spec = shell("argument-secret");
    spec.env.set("NAME", "value-secret");
    spec.redact.push("redact-secret".into());
    let shown = format!("{spec:?}");
    assert!(shown.contains("NAME") && !shown.contains("-secret"), "{shown}");
}
