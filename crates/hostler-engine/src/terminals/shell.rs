//! The port towards shells in terminals. Who carries it out sees to it that nothing of them is left when they are over.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use hostler_terminal::ShellNonce;

use crate::command_runner::CommandExit;

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters in a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

/// A shell to be started in a terminal of its own.
#[derive(Debug, Clone)]
pub struct ShellSpec {
    /// Where.
    pub directory: PathBuf,
    /// How large its terminal is.
    pub size: TerminalSize,
    /// What it puts into its marks.
    pub nonce: ShellNonce,
}

/// Starts shells.
pub trait ShellLauncher: Send + Sync + 'static {
    /// What a terminal is called that nobody has named.
    fn default_title(&self) -> String;

    /// Starts a shell. The error is a sentence; then nothing of it is left.
    fn open(&self, spec: ShellSpec) -> BoxFuture<'static, Result<Arc<dyn TerminalShell>, String>>;
}

/// A shell in its terminal. Dropping it ends it, with everything that it has started.
pub trait TerminalShell: Send + Sync {
    /// Reads what was written to the terminal; 0 when nobody has it any more. May be dropped and asked again.
    fn read<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, usize>;

    /// Types some of these bytes and says how many; 0 when nobody can read them any more. May be dropped: then none were
    /// typed.
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, usize>;

    /// Makes the terminal larger or smaller.
    fn resize(&self, size: TerminalSize);

    /// Waits until the shell has ended, and nothing is left that it has started, unless that takes too long. May be dropped
    /// and asked again.
    fn wait(&self) -> BoxFuture<'_, CommandExit>;

    /// Ends it, with everything that it has started; returns when nothing is left, which may be never. Nothing can be read
    /// or written any more.
    fn terminate(&self) -> BoxFuture<'_, ()>;
}
