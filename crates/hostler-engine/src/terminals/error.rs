//! Errors of operations on terminals.

use crate::resources::ResourceError;
use crate::{EngineError, uri};

/// Why an operation on a terminal failed.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// Terminals are off.
    #[error("terminals are switched off on this host; its owner can allow them by `no-terminals = false`")]
    Disabled,
    /// The URI is not a terminal URI.
    #[error("{0:?} cannot name a terminal; use {scheme}/<uuid>", scheme = uri::TERMINAL_SCHEME)]
    InvalidUri(String),
    /// The URI is in use.
    #[error("the terminal {0} exists already; choose another URI")]
    AlreadyExists(String),
    /// The terminal does not exist.
    #[error("there is no terminal {0}")]
    NotFound(String),
    /// The limit is reached.
    #[error("there are {0} terminals, as many as there may be; dispose of one first")]
    TooMany(usize),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The working directory is not accessible.
    #[error(transparent)]
    Directory(#[from] ResourceError),
    /// The shell did not start.
    #[error("the shell could not be started: {0}")]
    ShellStartFailed(String),
    /// Another engine error.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
