//! Exit codes and failures of commands.

use std::borrow::Cow;
use std::process::ExitCode;

use ahp_types::errors::ahp_error_codes;
use serde::Serialize;

use crate::client::ClientError;
use crate::console::{Console, TextStyle};
use crate::ports::LaunchError;
use crate::settings::SettingsError;
use crate::state::StateError;

/// Exit status of a command; the numbers are a stable part of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done,
    /// Failure.
    Failed,
    /// The command line or the settings are wrong.
    Usage,
    /// The agent is not installed.
    AgentMissing,
    /// The upstream rejected the credential.
    UpstreamRefused,
    /// The user interrupted the command.
    Interrupted,
}

impl Exit {
    /// Returns the number for the shell.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::AgentMissing => 3,
            Self::UpstreamRefused => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Failure of a command: the exit status, a stable code for programs and a message for people.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub(crate) exit: Exit,
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
    is_reported: bool,
}

/// Line of JSON on stdout that describes a failure.
#[derive(Serialize)]
struct ErrorJsonLine<'a> {
    error: ErrorJson<'a>,
}

#[derive(Serialize)]
struct ErrorJson<'a> {
    code: &'a str,
    message: &'a str,
}

impl CommandFailure {
    pub(crate) fn new(exit: Exit, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { exit, code: code.into(), message: message.into(), is_reported: false }
    }

    /// Prints the message on stderr, once.
    pub(crate) fn report(&mut self, console: &mut Console) {
        if !self.message.is_empty() && !std::mem::replace(&mut self.is_reported, true) {
            console.write_note(&self.message, TextStyle::Red);
        }
    }

    /// Prints the failure as one line of JSON on stdout. Interrupts and closed pipes print none.
    pub(crate) fn report_json(&self, console: &mut Console) {
        if matches!(self.exit, Exit::Done | Exit::Interrupted) {
            return;
        }
        let error = ErrorJson { code: &self.code, message: &self.message };
        if let Ok(line) = serde_json::to_string(&ErrorJsonLine { error }) {
            // If stdout is closed, the exit status is the only report.
            let _unread = console.write_out(&format!("{line}\n"));
        }
    }

    /// Failure without a message, because the user asked to stop.
    pub(crate) fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "interrupted", "")
    }
}

impl From<SettingsError> for CommandFailure {
    fn from(error: SettingsError) -> Self {
        Self::new(Exit::Usage, error.code(), error.to_string())
    }
}

impl From<StateError> for CommandFailure {
    fn from(error: StateError) -> Self {
        Self::new(Exit::Failed, error.code(), error.to_string())
    }
}

impl From<ClientError> for CommandFailure {
    fn from(error: ClientError) -> Self {
        let exit = match error {
            // A sign-in to the upstream is required.
            ClientError::ErrorResponse { rpc_code: ahp_error_codes::AUTH_REQUIRED, .. } => Exit::UpstreamRefused,
            _ => Exit::Failed,
        };
        Self::new(exit, error.code().to_owned(), error.to_string())
    }
}

impl From<LaunchError> for CommandFailure {
    fn from(error: LaunchError) -> Self {
        let exit = match error {
            LaunchError::AgentMissing(_) => Exit::AgentMissing,
            _ => Exit::Failed,
        };
        Self::new(exit, error.code(), error.to_string())
    }
}

impl From<std::io::Error> for CommandFailure {
    fn from(error: std::io::Error) -> Self {
        // A closed pipe (`hostler run … | head`) needs no message.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "closedPipe", "");
        }
        Self::new(Exit::Failed, "ioError", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;
    use crate::environment::HostEnvironment;

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl SharedBuffer {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Reports a failure for people, twice, and for programs; returns stdout and stderr.
    fn report(mut failure: CommandFailure) -> (String, String) {
        let (out, err) = (SharedBuffer::default(), SharedBuffer::default());
        let environment = HostEnvironment::from_vars([], PathBuf::from("/here"), PathBuf::from("/scratch"));
        let mut console = Console::with_writers(out.clone(), err.clone(), &environment);
        failure.report(&mut console);
        failure.report(&mut console);
        failure.report_json(&mut console);
        (out.text(), err.text())
    }

    #[test]
    fn failure_is_reported_once_for_people_and_on_one_line_for_programs() {
        let (out, err) = report(CommandFailure::new(Exit::Failed, "sessionNotFound", "Two\nlines."));
        assert_eq!(err, "Two\nlines.\n");
        assert_eq!(out.lines().count(), 1, "{out}");
        let line: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(line, json!({ "error": { "code": "sessionNotFound", "message": "Two\nlines." } }));
    }

    #[test]
    fn interrupts_and_closed_pipes_print_no_json() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        for failure in [CommandFailure::interrupted(), CommandFailure::from(closed)] {
            assert_eq!(report(failure), (String::new(), String::new()));
        }
        let cancelled = CommandFailure::new(Exit::Interrupted, "turnCancelled", "Canceled.");
        assert_eq!(report(cancelled), (String::new(), "Canceled.\n".to_owned()));
    }

    #[test]
    fn wrapped_errors_pass_on_their_codes() {
        let failure = |error: ClientError| CommandFailure::from(error).code.into_owned();
        let response = |code: Option<&str>| ClientError::ErrorResponse {
            rpc_code: -32_001,
            code: code.map(str::to_owned),
            message: "No.".to_owned(),
        };
        assert_eq!(failure(response(Some("sessionNotFound"))), "sessionNotFound");
        assert_eq!(failure(response(None)), "protocolError");
        let rejected = |code: Option<&str>| ClientError::ActionRejected {
            code: code.map(str::to_owned),
            reason: "No.".to_owned(),
        };
        assert_eq!(failure(rejected(Some("turnActive"))), "turnActive");
        assert_eq!(failure(rejected(None)), "actionRejected");
        let missing = CommandFailure::from(LaunchError::AgentMissing("No.".to_owned()));
        assert_eq!((missing.exit, &*missing.code), (Exit::AgentMissing, "agentMissing"));
    }
}
