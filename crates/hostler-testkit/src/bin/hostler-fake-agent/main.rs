//! Deterministic agent that speaks Claude Code's wire protocol, for faults that the real one does not produce on
//! demand.
//!
//! `FAKE_AGENT` chooses how it starts: nothing (normal), `exit-early:CODE:STDERR`, `hang-handshake`,
//! `refuse-handshake`, `wrong-version`, `no-version` (reports it to `--version` only), `root-refusal`.
//!
//! In a conversation, the words of the prompt are its script: [`script::ScriptStep`]. A prompt without such a word
//! is echoed.
//!
//! `FAKE_AGENT_LOG` names a file to which it appends its pid, arguments and environment as one JSON line;
//! `FAKE_AGENT_PIDS` names the file to which `fork` writes the pid of the child that outlives it.
//!
//! Called with `supervise` it is a supervisor instead.

#![forbid(unsafe_code)]

mod agent_loop;
mod background;
mod host_input;
mod output;
mod requests;
mod script;
mod tool_calls;
mod transcript_file;

use std::env;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::agent_loop::FakeAgentLoop;
use crate::host_input::HostInput;

/// Version that it reports.
const AGENT_VERSION: &str = "2.1.325";

fn main() -> ExitCode {
    if env::args_os().nth(1).is_some_and(|first| first == "supervise") {
        return hostler_process::supervise_main();
    }
    match run() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    log_start()?;
    if env::args().any(|argument| argument == "--version") {
        output::print_line(&format!("{AGENT_VERSION} (Claude Code)"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let behaviour = env::var("FAKE_AGENT").unwrap_or_default();
    let mut words = behaviour.splitn(3, ':');
    let mut version = Some(AGENT_VERSION);
    match words.next().unwrap_or_default() {
        "exit-early" => {
            let code = words.next().and_then(|code| code.parse().ok()).unwrap_or(1);
            let _ = writeln!(std::io::stderr(), "{}", words.next().unwrap_or_default());
            return Ok(ExitCode::from(code));
        }
        "root-refusal" => {
            let refusal =
                "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons";
            let _ = writeln!(std::io::stderr(), "{refusal}");
            return Ok(ExitCode::FAILURE);
        }
        "hang-handshake" => return HostInput::start().drain(),
        "refuse-handshake" => {
            let mut input = HostInput::start();
            if let Some(request) = input.wait_for_handshake()? {
                output::print_error_response(&request, "the fake agent rejects the handshake")?;
            }
            return input.drain();
        }
        "wrong-version" => version = Some("1.0.3"),
        "no-version" => version = None,
        _ => {}
    }
    let Some(store) = transcript_file::TranscriptFile::open()? else { return Ok(ExitCode::FAILURE) };
    FakeAgentLoop::new(HostInput::start(), store, version).run()
}

fn log_start() -> Result<()> {
    let Some(path) = env::var_os("FAKE_AGENT_LOG") else { return Ok(()) };
    let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
    let record = json!({
        "pid": std::process::id(),
        "argv": env::args_os().map(text).collect::<Vec<_>>(),
        "env": env::vars_os().map(|(name, value)| (text(name), text(value))).collect::<std::collections::BTreeMap<_, _>>(),
    });
    let mut log = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    log.write_all(format!("{record}\n").as_bytes())?;
    Ok(())
}
