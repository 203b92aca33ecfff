//! Exit codes and failures of commands.

use std::process::ExitCode;

use ahp_types::errors::ahp_error_codes;

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

/// Failure of a command: the message and the exit code.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl CommandFailure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Prints the message now; the exit code remains.
    pub(crate) fn report(&mut self, console: &mut Console) {
        if !self.message.is_empty() {
            console.write_note(&std::mem::take(&mut self.message), TextStyle::Red);
        }
    }

    /// Failure without a message, because the user asked to stop.
    pub(crate) fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "")
    }
}

impl From<SettingsError> for CommandFailure {
    fn from(error: SettingsError) -> Self {
        Self::new(Exit::Usage, error.to_string())
    }
}

impl From<StateError> for CommandFailure {
    fn from(error: StateError) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}

impl From<ClientError> for CommandFailure {
    fn from(error: ClientError) -> Self {
        let exit = match error {
            // A sign-in to the upstream is required.
            ClientError::ErrorResponse { code: ahp_error_codes::AUTH_REQUIRED, .. } => Exit::UpstreamRefused,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<LaunchError> for CommandFailure {
    fn from(error: LaunchError) -> Self {
        let exit = match error {
            LaunchError::AgentMissing(_) => Exit::AgentMissing,
            LaunchError::Other(_) => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<std::io::Error> for CommandFailure {
    fn from(error: std::io::Error) -> Self {
        // A closed pipe (`hostler run … | head`) needs no message.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::Failed, error.to_string())
    }
}
