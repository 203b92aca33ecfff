//! The port for shells in terminals. Its implementation ensures that no process of a shell outlives it.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use hostler_terminal::ShellNonce;

use crate::terminals::command_runner::CommandExit;

/// Size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Number of columns.
    pub cols: u16,
    /// Number of rows.
    pub rows: u16,
}

/// Describes a shell to start in a terminal of its own.
#[derive(Debug, Clone)]
pub struct ShellSpec {
    /// Working directory.
    pub directory: PathBuf,
    /// Size of its terminal.
    pub size: TerminalSize,
    /// Nonce in its marks.
    pub nonce: ShellNonce,
}

/// Why a shell did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShellStartError {
    /// The shell does not exist.
    #[error("{} was not found; set another shell with `terminal-shell`", .0.display())]
    NotFound(PathBuf),
    /// Another error.
    #[error("{0}")]
    Failed(String),
}

impl ShellStartError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "shellNotFound",
            Self::Failed(_) => "shellStartFailed",
        }
    }
}

/// Starts shells.
pub trait ShellLauncher: Send + Sync + 'static {
    /// Default title of a terminal.
    fn default_title(&self) -> String;

    /// Starts a shell. After an error no process remains.
    fn open(&self, spec: ShellSpec) -> BoxFuture<'static, Result<Arc<dyn TerminalShell>, ShellStartError>>;
}

/// A shell in its terminal. Dropping it ends the shell and all its processes.
pub trait TerminalShell: Send + Sync {
    /// Reads output; 0 after the last process has closed the terminal. Cancel safe.
    fn read<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, usize>;

    /// Writes some of the bytes and returns how many; 0 if no process can read them any more. Cancel safe: nothing was
    /// written if the future is dropped.
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, usize>;

    /// Resizes the terminal.
    fn resize(&self, size: TerminalSize);

    /// Waits until the shell and all its processes have ended, unless that takes too long. Cancel safe.
    fn wait(&self) -> BoxFuture<'_, CommandExit>;

    /// Ends the shell and all its processes; returns when they are gone, which may be never. Afterwards nothing can be
    /// read or written.
    fn terminate(&self) -> BoxFuture<'_, ()>;
}
