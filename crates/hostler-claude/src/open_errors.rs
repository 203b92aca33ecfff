//! The messages of failed starts.

use std::path::Path;
use std::time::Duration;

use hostler_driver::{OpenError, OpenErrorKind, StderrTail};
use hostler_process::{LockError, SpawnError};

use crate::{ClaudeVersion, Executable};

/// How an agent exited that was not opened completely.
#[derive(Debug, Default)]
pub(crate) struct AgentExit {
    /// `exit code 1`.
    pub(crate) status: String,
    pub(crate) stderr: StderrTail,
    /// The error in a result that it printed instead of an answer.
    pub(crate) result_error: Option<String>,
}

fn error(kind: OpenErrorKind, message: impl Into<String>, stderr: StderrTail) -> OpenError {
    OpenError { kind, message: message.into(), stderr }
}

pub(crate) fn no_working_directory(path: &Path) -> OpenError {
    let message = format!(
        "The working directory {} does not exist. Create it again, or start a session in another directory.",
        path.display()
    );
    error(OpenErrorKind::NoWorkingDirectory, message, StderrTail::default())
}

pub(crate) fn lock_failed(cause: &LockError) -> OpenError {
    let kind = match cause {
        LockError::Held { .. } => OpenErrorKind::ConversationBusy,
        _ => OpenErrorKind::Other,
    };
    error(kind, format!("Claude Code was not started: {cause}."), StderrTail::default())
}

pub(crate) fn spawn_failed(cause: &SpawnError, executable: &Executable, working_directory: &Path) -> OpenError {
    let advice = "Install it with `hostler agents install claude`, or select another executable with --claude";
    match cause {
        SpawnError::NotFound(_) | SpawnError::NotExecutable(_) => {
            let what = match executable {
                Executable::Native(_) => "Failed to start Claude Code".to_owned(),
                Executable::Js { .. } => "Failed to start Node.js, which Claude Code's script requires".to_owned(),
            };
            error(OpenErrorKind::ExecutableMissing, format!("{what}: {cause}. {advice}."), StderrTail::default())
        }
        SpawnError::NoWorkingDirectory { .. } => no_working_directory(working_directory),
        _ => error(OpenErrorKind::Other, format!("Failed to start Claude Code: {cause}."), StderrTail::default()),
    }
}

pub(crate) fn script_missing(path: &Path) -> OpenError {
    let message = format!(
        "Claude Code's script {} does not exist. Install it with `hostler agents install claude --build js`.",
        path.display()
    );
    error(OpenErrorKind::ExecutableMissing, message, StderrTail::default())
}

pub(crate) fn wrong_version(
    executable: &Executable,
    found: Option<ClaudeVersion>,
    needed: ClaudeVersion,
    remains: AgentExit,
) -> OpenError {
    let path = executable.path().display();
    let found = match found {
        Some(version) => format!("{path} is Claude Code {version}"),
        None => format!("{path} does not report its Claude Code version"),
    };
    let message = format!("{found}, but {needed} or newer is required. Run `hostler agents install claude`.");
    error(OpenErrorKind::WrongVersion, message, remains.stderr)
}

pub(crate) fn handshake_timeout(limit: Duration, remains: AgentExit) -> OpenError {
    let message = format!(
        "Claude Code was not ready within {} seconds and was terminated. Try again, or run `hostler doctor`.",
        limit.as_secs_f32()
    );
    error(OpenErrorKind::HandshakeTimeout, message, remains.stderr)
}

pub(crate) fn handshake_refused(reason: &str, remains: AgentExit) -> OpenError {
    let message = format!("Claude Code rejected the handshake: {}.", reason.trim().trim_end_matches('.'));
    error(OpenErrorKind::HandshakeRefused, message, remains.stderr)
}

/// The agent exited before it answered: the reason is in stderr or in a result.
pub(crate) fn exited_early(remains: AgentExit) -> OpenError {
    let said = |text: &str| {
        remains.stderr.as_str().contains(text)
            || remains.result_error.as_ref().is_some_and(|error| error.contains(text))
    };
    let (kind, message) = if said("cannot be used with root/sudo privileges") {
        (
            OpenErrorKind::ExitedEarly,
            "Claude Code does not skip permissions for root. Run Hostler as another user, choose another permission \
             mode, or set IS_SANDBOX=1 if this machine is a sandbox."
                .to_owned(),
        )
    } else if said("is already in use") {
        (
            OpenErrorKind::ConversationBusy,
            "This conversation is already in use by another Claude Code process. Close it there, or start a new session."
                .to_owned(),
        )
    } else if said("No conversation found") {
        (
            OpenErrorKind::ConversationMissing,
            "Claude Code cannot continue this conversation because its transcript is missing. Restore the file (below \
             `projects` in Claude Code's directory) and send the message again, or start a new session. The messages \
             here remain readable."
                .to_owned(),
        )
    } else {
        let because = remains.result_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let message = format!("Claude Code exited before it was ready ({}){because}.", remains.status);
        (OpenErrorKind::ExitedEarly, message)
    };
    error(kind, message, remains.stderr)
}

pub(crate) fn other(message: String) -> OpenError {
    error(OpenErrorKind::Other, message, StderrTail::default())
}
