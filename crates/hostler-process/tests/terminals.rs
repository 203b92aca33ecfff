//! Programs in terminals: size, input, signals and termination.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![cfg(target_os = "linux")]

mod common;

use common::*;
use hostler_process::{PtySize, SpawnError, TerminalProcess, TerminationMode, spawn_in_terminal};

const SIZE: PtySize = PtySize { cols: 91, rows: 17 };

async fn in_terminal(script: &str) -> TerminalProcess {
    spawn_in_terminal(shell(script), SIZE).await.unwrap()
}

/// Reads output until `end` is seen, or until no program has the terminal open.
async fn read_until(process: &TerminalProcess, end: &str) -> String {
    let (mut seen, mut buffer) = (Vec::new(), [0; 512]);
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if !end.is_empty() && text.contains(end) {
            return text;
        }
        match process.pty.read(&mut buffer).await.unwrap() {
            0 => return text,
            length => seen.extend_from_slice(&buffer[..length]),
        }
    }
}

async fn type_all(process: &TerminalProcess, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = process.pty.write(bytes).await.unwrap();
        bytes = &bytes[written..];
    }
}

#[tokio::test]
async fn program_controls_a_terminal_of_the_given_size() {
    let process = in_terminal("tty; stty size; test -t 0 && test -t 1 && test -t 2 && : </dev/tty && echo all").await;
    let text = read_until(&process, "").await;
    assert!(text.starts_with("/dev/pts/") && text.contains("17 91") && text.contains("all"), "{text}");
    assert_eq!(process.handle.wait_for_exit().await.code, Some(0));
}

#[tokio::test]
async fn input_is_read_and_control_c_interrupts() {
    let process =
        in_terminal("trap 'echo got it; exit 3' INT; read line; echo \"<$line>\"; while :; do sleep 0.1; done").await;
    type_all(&process, "schöne Zeile\r".as_bytes()).await;
    read_until(&process, "<schöne Zeile>").await;
    type_all(&process, &[3]).await;
    read_until(&process, "got it").await;
    assert_eq!(process.handle.wait_for_exit().await.code, Some(3));
}

#[tokio::test]
async fn resize_notifies_the_program() {
    let process = in_terminal("trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.1; done").await;
    read_until(&process, "ready").await;
    process.pty.resize(PtySize { cols: 40, rows: 9 }).unwrap();
    assert!(read_until(&process, "").await.contains("9 40"));
}

#[tokio::test]
async fn interactive_shell_ends_with_its_whole_tree() {
    let children = "setsid sleep 1000 & echo pid=$!=; nohup sleep 1000 >/dev/null 2>&1 & echo pid=$!=; \
                    (setsid sh -c 'echo pid=$$=; exec sleep 1000' &); sleep 1000 & kill -STOP $!; echo pid=$!=";
    let process = spawn_in_terminal(program("/bin/bash", &["--norc", "--noprofile", "-i"]), SIZE).await.unwrap();
    type_all(&process, format!("{children}\n").as_bytes()).await;
    let mut text = String::new();
    // The command line is echoed, but contains no number.
    let tree = loop {
        let found: Vec<u32> = text.split("pid=").filter_map(|rest| rest.split_once('=')?.0.parse().ok()).collect();
        if found.len() == 4 {
            break found;
        }
        let mut buffer = [0; 512];
        let length = process.pty.read(&mut buffer).await.unwrap();
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));
    };
    process.handle.close(TerminationMode::Now).await;
    assert_all_gone(&tree);
    assert_all_gone(&[process.handle.pid()]);
    assert_eq!(process.handle.wait_for_exit().await.signal, Some(1), "it was hung up, and did not have to be killed");
}

#[tokio::test]
async fn failed_terminal_start_reports_the_reason() {
    let missing = spawn_in_terminal(program("/no/such/shell", &[]), SIZE).await;
    assert!(matches!(missing, Err(SpawnError::NotFound(path)) if path.ends_with("shell")));
    let mut elsewhere = shell("true");
    elsewhere.cwd = "/no/such/directory".into();
    assert!(matches!(spawn_in_terminal(elsewhere, SIZE).await, Err(SpawnError::NoWorkingDirectory { .. })));
}
