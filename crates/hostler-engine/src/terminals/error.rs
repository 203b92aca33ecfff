use crate::resources::ResourceError;
use crate::{EngineError, uri};

/// Why something could not be done with a terminal.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// They are switched off.
    #[error("terminals are switched off on this host; its owner can allow them by `no-terminals = false`")]
    Disabled,
    /// The URI names no terminal.
    #[error("{0:?} cannot name a terminal; use {scheme}/<uuid>", scheme = uri::TERMINAL_SCHEME)]
    InvalidUri(String),
    /// The URI is taken.
    #[error("the terminal {0} exists already; choose another URI")]
    AlreadyExists(String),
    /// Nobody knows it.
    #[error("there is no terminal {0}")]
    NotFound(String),
    /// There are as many as there may be.
    #[error("there are {0} terminals, as many as there may be; dispose of one first")]
    TooMany(usize),
    /// Something in the request is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The working directory cannot be had.
    #[error(transparent)]
    Directory(#[from] ResourceError),
    /// The shell did not start.
    #[error("the shell could not be started: {0}")]
    ShellStartFailed(String),
    /// Something else.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
