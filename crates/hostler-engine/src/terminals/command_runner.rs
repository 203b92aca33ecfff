//! Port for programs that the host itself runs, for a person or for its own information. The implementation ensures
//! that no process of them remains when they have ended.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use hostler_driver::Clock;
use tokio::sync::Semaphore;

use crate::clock::ClockExt as _;

/// A program to run. It has no input. The output of a shell is both of its streams; the output of a named program is
/// its standard output only.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program.
    pub program: CommandProgram,
    /// The working directory.
    pub directory: PathBuf,
}

/// The program to run.
#[derive(Clone, PartialEq, Eq)]
pub enum CommandProgram {
    /// A command line for the user's shell.
    Shell(String),
    /// A program by name, with its arguments.
    Named(&'static str, Vec<String>),
}

impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Redacted, because a person's command may contain a secret.
        f.debug_struct("CommandSpec").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandExit {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// The exit status is unknown.
    Unknown,
}

impl CommandExit {
    /// Its exit code, if it has one.
    pub(crate) fn exit_code(self) -> Option<i64> {
        match self {
            Self::Code(code) => Some(code.into()),
            Self::Signal(_) | Self::Unknown => None,
        }
    }
}

/// Why a program did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CommandStartError {
    /// The message for a person.
    pub message: String,
}

/// Runs programs.
pub trait CommandRunner: Send + Sync + 'static {
    /// Starts a program. After an error no process remains.
    fn start(&self, spec: CommandSpec) -> BoxFuture<'static, Result<Box<dyn RunningCommand>, CommandStartError>>;
}

/// A running program. Dropping it ends it with its process tree.
pub trait RunningCommand: Send {
    /// The next line of its output, without the line feed; `None` when there is no more. Cancel-safe.
    fn next_line(&mut self) -> BoxFuture<'_, Option<Bytes>>;

    /// Waits until it has ended with its process tree. Cancel-safe.
    fn wait(&mut self) -> BoxFuture<'_, CommandExit>;

    /// Ends it with its process tree; returns when no process remains.
    fn terminate(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Maximum time of a program that the host runs for its own information.
const HOST_COMMAND_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of such programs at a time, however often clients ask.
static HOST_COMMAND_SLOTS: Semaphore = Semaphore::const_new(4);

/// Runs a program for the host's own information: its first lines, if it succeeded in time.
pub(crate) async fn run_and_read_lines(
    commands: &dyn CommandRunner,
    clock: &dyn Clock,
    directory: &Path,
    program: CommandProgram,
    most: usize,
) -> Option<Vec<String>> {
    let spec = CommandSpec { program, directory: directory.to_owned() };
    let run = async {
        // The semaphore is never closed.
        let _place = HOST_COMMAND_SLOTS.acquire().await.ok()?;
        let mut running = commands.start(spec).await.ok()?;
        let mut lines = Vec::new();
        while let Some(line) = running.next_line().await {
            if lines.len() < most {
                lines.push(String::from_utf8_lossy(&line).into_owned());
            }
        }
        (running.wait().await == CommandExit::Code(0)).then_some(lines)
    };
    clock.timeout(HOST_COMMAND_TIMEOUT, run).await?
}
