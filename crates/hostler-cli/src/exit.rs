use std::process::ExitCode;

use ahp_types::errors::ahp_error_codes;

use crate::client::ClientError;
use crate::console::{Console, TextStyle};
use crate::ports::LaunchError;
use crate::settings::SettingsError;
use crate::state::StateError;

/// How a command ended; the numbers are part of the command line's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked.
    Done,
    /// It failed.
    Failed,
    /// The command line or the settings are wrong.
    Usage,
    /// The agent is not installed.
    AgentMissing,
    /// The upstream refused the credential.
    UpstreamRefused,
    /// The user interrupted it.
    Interrupted,
}

impl Exit {
    /// The number that the shell sees.
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

/// A command's failure: what to tell the person, and the exit code.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl CommandFailure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Tells the person now; what is left is the exit code.
    pub(crate) fn report(&mut self, console: &mut Console) {
        if !self.message.is_empty() {
            console.write_note(&std::mem::take(&mut self.message), TextStyle::Red);
        }
    }

    /// The user asked to stop; there is nothing to explain.
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
            // Somebody has to sign in to the upstream first.
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
        // A reader that went away (`hostler run … | head`) is not worth a sentence.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::Failed, error.to_string())
    }
}
