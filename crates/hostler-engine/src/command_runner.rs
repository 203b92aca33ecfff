//! The port towards the machine's programs: those that the host itself runs, for a person or because it wants to know
//! something. Who carries it out sees to it that nothing of them is left when they are over.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use hostler_driver::Clock;
use tokio::sync::Semaphore;

use crate::clock::ClockExt as _;

/// A program to be run. It has nothing to read. What a shell writes to either stream is its output; of a program by its name
/// only what it writes to the first is.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// What is run.
    pub program: CommandProgram,
    /// Where.
    pub directory: PathBuf,
}

/// What is run.
#[derive(Clone, PartialEq, Eq)]
pub enum CommandProgram {
    /// A line for the user's shell.
    Shell(String),
    /// A program by its name, with its arguments.
    Named(&'static str, Vec<String>),
}

impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a person types may hold a secret.
        f.debug_struct("CommandSpec").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandExit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Nobody saw it.
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

/// Runs programs.
pub trait CommandRunner: Send + Sync + 'static {
    /// Starts a program. The error is a sentence; then nothing of it is left.
    fn start(&self, spec: CommandSpec) -> BoxFuture<'static, Result<Box<dyn RunningCommand>, String>>;
}

/// A program that runs. Dropping it ends it, with everything that it has started.
pub trait RunningCommand: Send {
    /// The next line of its output, without the line feed; `None` when there is no more. May be dropped and asked again.
    fn next_line(&mut self) -> BoxFuture<'_, Option<Bytes>>;

    /// Waits until it has ended, and nothing is left that it has started. May be dropped and asked again.
    fn wait(&mut self) -> BoxFuture<'_, CommandExit>;

    /// Ends it, with everything that it has started; returns when nothing is left.
    fn terminate(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// How long the host waits for something that it asks of a program for itself.
const HOST_COMMAND_TIMEOUT: Duration = Duration::from_secs(3);

/// How many programs run for the host's own sake: however often clients ask, the machine is theirs.
static HOST_COMMAND_SLOTS: Semaphore = Semaphore::const_new(4);

/// Runs a program for the host's own sake: its first lines, if it succeeded in time.
pub(crate) async fn run_and_read_lines(
    commands: &dyn CommandRunner,
    clock: &dyn Clock,
    directory: &Path,
    program: CommandProgram,
    most: usize,
) -> Option<Vec<String>> {
    let spec = CommandSpec { program, directory: directory.to_owned() };
    let run = async {
        // Nobody closes it.
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
