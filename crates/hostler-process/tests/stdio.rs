//! Standard input, standard output and the stderr tail of an agent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![cfg(target_os = "linux")]

mod common;

use common::{all_lines, line, shell, start};
use hostler_process::{ExitReport, TerminationMode, spawn};
use secrecy::SecretString;

#[tokio::test]
async fn lines_pass_through_stdin_and_stdout() {
    let mut agent = start("cat").await;
    for text in ["hello", "", "zwölf 🐎"] {
        agent.stdin.write_line(text.as_bytes()).await.unwrap();
        assert_eq!(line(&mut agent.stdout).await, text);
    }
    agent.handle.close(TerminationMode::Now).await;
}

#[tokio::test]
async fn line_larger_than_the_pipe_passes_whole() {
    let mut agent = start("cat").await;
    let large: Vec<u8> = (0..5_000_000u32).map(|n| b'a' + (n % 23) as u8).collect();
    let (written, read) = tokio::join!(agent.stdin.write_line(&large[..]), agent.stdout.next_line());
    written.unwrap();
    assert!(read.unwrap().unwrap() == large, "the line has changed on its way");
    agent.handle.close(TerminationMode::Now).await;
}

#[tokio::test]
async fn closing_stdin_ends_the_agent_and_its_output() {
    let mut agent = start("cat; echo bye").await;
    agent.stdin.close();
    assert_eq!(all_lines(&mut agent.stdout).await, ["bye"]);
    assert_eq!(agent.handle.wait_for_exit().await, ExitReport { code: Some(0), signal: None });
    agent.handle.wait_until_tree_empty().await;
}

#[tokio::test]
async fn writing_to_an_exited_agent_is_an_error() {
    let mut agent = start("exit 0").await;
    agent.handle.wait_until_tree_empty().await;
    let error = agent.stdin.write_line(b"hello?").await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn exit_status_is_reported_to_every_caller() {
    let agent = start("exit 7").await;
    let (first, second) = tokio::join!(agent.handle.wait_for_exit(), agent.handle.wait_for_exit());
    assert_eq!((first.code, second.code), (Some(7), Some(7)));
    agent.handle.wait_until_tree_empty().await;
    assert_eq!(agent.handle.clone().wait_for_exit().await.to_string(), "exit code 7");

    for (script, shown) in [("kill -9 $$", "signal 9"), ("kill -40 $$", "signal 40")] {
        let agent = start(script).await;
        assert_eq!(agent.handle.wait_for_exit().await.to_string(), shown);
        agent.handle.wait_until_tree_empty().await;
    }
}

#[tokio::test]
async fn stderr_tail_is_complete_after_exit() {
    for _ in 0..20 {
        let agent = start("printf 'first\\n' >&2; printf 'no such model\\n' >&2; exit 1").await;
        agent.handle.wait_for_exit().await;
        assert_eq!(agent.handle.stderr_tail(), "first\nno such model\n");
        agent.handle.wait_until_tree_empty().await;
    }
}

#[tokio::test]
async fn stderr_tail_is_bounded_and_redacted() {
    let mut spec = shell(
        "i=0; while [ $i -lt 3000 ]; do echo \"$i zwölf $SECRET\"; i=$((i+1)); done >&2\n\
         echo 'Authorization: Bearer abcdefgh12345678 sk-ant-REDACTED' >&2",
    );
    spec.env.set("SECRET", "hunter2-hunter2");
    spec.redact.push(SecretString::from("hunter2-hunter2"));
    let agent = spawn(spec).await.unwrap();
    agent.handle.wait_for_exit().await;
    let tail = agent.handle.stderr_tail();
    assert!(tail.len() <= 8 * 1024);
    assert!(tail.contains("2999 zwölf [redacted]"));
    assert!(tail.ends_with("Authorization: Bearer [redacted] [redacted]\n"));
    assert!(!tail.contains("hunter2"));
    agent.handle.wait_until_tree_empty().await;
}
