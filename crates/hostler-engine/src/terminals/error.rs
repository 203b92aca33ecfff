//! Errors of operations and actions on terminals.

use super::claim::ClaimError;
use super::shell::ShellStartError;
use crate::resources::ResourceError;
use crate::{EngineError, uri};

/// Why an operation on a terminal failed.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// Terminals are off.
    #[error("terminals are turned off on this host; to allow them, set `no-terminals = false`")]
    Disabled,
    /// The URI is not a terminal URI.
    #[error("{0:?} is not a terminal URI; use {scheme}/<uuid>", scheme = uri::TERMINAL_SCHEME)]
    InvalidUri(String),
    /// The URI is in use.
    #[error("terminal {0} already exists; choose another URI")]
    AlreadyExists(String),
    /// The terminal does not exist.
    #[error("terminal {0} does not exist")]
    NotFound(String),
    /// The limit is reached.
    #[error("the limit of {0} terminals is reached; dispose of one first")]
    TooMany(usize),
    /// The claim, size or name is invalid.
    #[error(transparent)]
    Action(#[from] TerminalActionError),
    /// The working directory is not accessible.
    #[error(transparent)]
    Directory(#[from] ResourceError),
    /// The shell did not start.
    #[error("failed to start the shell: {0}")]
    ShellStartFailed(#[from] ShellStartError),
    /// Another engine error.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl TerminalError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Disabled => "terminalsDisabled",
            Self::InvalidUri(_) => "invalidTerminalUri",
            Self::AlreadyExists(_) => "terminalExists",
            Self::NotFound(_) => "terminalNotFound",
            Self::TooMany(_) => "tooManyTerminals",
            Self::Action(error) => error.code(),
            Self::Directory(error) => error.code(),
            Self::ShellStartFailed(error) => error.code(),
            Self::Engine(error) => error.code(),
        }
    }
}

impl From<ClaimError> for TerminalError {
    fn from(error: ClaimError) -> Self {
        Self::Action(error.into())
    }
}

/// Why a client's action on a terminal is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TerminalActionError {
    /// The terminal displays the output of a tool call.
    #[error("this terminal displays the output of a command and is read-only; to stop the command, cancel its turn")]
    ReadOnly,
    /// The shell has ended.
    #[error("the shell has ended and accepts no input")]
    ShellEnded,
    /// The input is too long.
    #[error("the input has more than {max_bytes} bytes; send it in parts")]
    InputTooLarge {
        /// Maximum size in bytes.
        max_bytes: usize,
    },
    /// The shell does not read its input.
    #[error(
        "the shell does not read its input, and {pending_bytes} bytes are pending; interrupt the running program, or try again"
    )]
    InputNotRead {
        /// Number of pending bytes.
        pending_bytes: usize,
    },
    /// The size is invalid.
    #[error("a terminal must have 1 to {max} columns and rows")]
    InvalidSize {
        /// Maximum number of columns or rows.
        max: i64,
    },
    /// The title is empty or too long.
    #[error("the title of a terminal must have 1 to {max_bytes} bytes")]
    InvalidTitle {
        /// Maximum length in bytes.
        max_bytes: usize,
    },
    /// The claim is invalid.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

impl TerminalActionError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ReadOnly => "terminalReadOnly",
            Self::ShellEnded => "shellEnded",
            Self::InputTooLarge { .. } => "inputTooLarge",
            Self::InputNotRead { .. } => "inputNotRead",
            Self::InvalidSize { .. } => "invalidTerminalSize",
            Self::InvalidTitle { .. } => "invalidTitle",
            Self::Claim(error) => error.code(),
        }
    }
}
