//! Test binary, not shipped: a supervisor, and a host that tests can kill.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use hostler_process::{AgentProcess, ConversationLock, Environment, SpawnSpec, SupervisorCommand};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match &args[..] {
        [mode] if mode == "supervise" => hostler_process::supervise_main(),
        [mode, runtime_dir, script] if mode == "host" => host(runtime_dir.into(), script.clone()),
        _ => ExitCode::from(2),
    }
}

/// Runs a shell as an agent, under the lock of the conversation "c", and prints its output, until killed.
#[tokio::main(flavor = "current_thread")]
async fn host(runtime_dir: PathBuf, script: OsString) -> ExitCode {
    match run_shell(runtime_dir, script).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn run_shell(runtime_dir: PathBuf, script: OsString) -> Result<(), Box<dyn std::error::Error>> {
    hostler_process::become_host()?;
    let lock = ConversationLock::acquire(&runtime_dir, "c", "the other host")?;
    let AgentProcess { stdin: _stdin, mut stdout, handle } = hostler_process::spawn(SpawnSpec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script],
        env: Environment::from_vars(std::env::vars_os()),
        cwd: "/".into(),
        supervisor: SupervisorCommand { program: std::env::current_exe()?, args: vec!["supervise".into()] },
        lock: Some(lock.into()),
        redact: Vec::new(),
    })
    .await?;
    while let Some(line) = stdout.next_line().await? {
        let mut out = std::io::stdout();
        out.write_all(&line)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    writeln!(std::io::stdout(), "{}", handle.wait_for_exit().await)?;
    Ok(())
}
