//! Starts an agent, or a program in a terminal, under a supervisor.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use nix::errno::Errno;
use nix::libc;
use secrecy::SecretString;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::child_registry::{RegisteredChild, spawn_registered_child};
use crate::environment::Environment;
use crate::file_limit;
use crate::lifeline::{LIFELINE_FD, LOCK_FD, LaunchMessage};
use crate::lines::LineReader;
use crate::lock::ProcessTreeLock;
use crate::orphans;
use crate::process_handle::{HandleState, ProcessHandle, ProcessProgress, StartFailure};
use crate::process_watcher::ProcessWatcher;
use crate::pty::{self, Pty, PtySize};
use crate::redact::Redactor;
use crate::stderr_buffer::StderrBuffer;
use crate::stdin::AgentStdin;

/// The command that runs [`supervise_main`](crate::supervise_main): usually the running executable with one argument.
#[derive(Clone, Debug)]
pub struct SupervisorCommand {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Everything that a new agent process needs. `Debug` shows neither arguments nor values of variables.
pub struct SpawnSpec {
    /// The agent's executable: absolute, or a name that is looked up in the `PATH` of `env`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Environment,
    /// Its working directory.
    pub cwd: PathBuf,
    /// The supervisor's command.
    pub supervisor: SupervisorCommand,
    /// Held until the agent's tree is empty.
    pub lock: Option<ProcessTreeLock>,
    /// Secrets that are redacted in the agent's standard error.
    pub redact: Vec<SecretString>,
}

/// Why an agent could not be started. All its processes have ended, and its lock is free.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program, or the interpreter that it names, does not exist.
    #[error("{} not found; check the path or install the agent", .0.display())]
    NotFound(PathBuf),
    /// The file exists but cannot be executed.
    #[error("{} is not executable; check its permissions and that it is built for this machine", .0.display())]
    NotExecutable(PathBuf),
    /// The working directory does not exist or cannot be entered.
    #[error("failed to enter the working directory {}: {reason}", .path.display())]
    NoWorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// The supervisor failed, not the agent.
    #[error("the supervisor failed: {0}")]
    Supervisor(String),
    /// Another system error.
    #[error("failed to start the agent: {0}")]
    Io(#[from] io::Error),
}

impl SpawnError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "programNotFound",
            Self::NotExecutable(_) => "programNotExecutable",
            Self::NoWorkingDirectory { .. } => "workingDirectoryMissing",
            Self::Supervisor(_) => "supervisorFailed",
            Self::Io(_) => "spawnFailed",
        }
    }
}

/// A started agent. The three parts may be used from different tasks.
#[derive(Debug)]
pub struct AgentProcess {
    /// Its standard input.
    pub stdin: AgentStdin,
    /// Its standard output, line by line.
    pub stdout: LineReader,
    /// Its process.
    pub handle: ProcessHandle,
}

/// A program that runs in a terminal of its own, which it controls.
#[derive(Debug)]
pub struct TerminalProcess {
    /// The host's end of the terminal.
    pub pty: Pty,
    /// Its process. Its standard error is the terminal, so the handle has no tail.
    pub handle: ProcessHandle,
}

/// Starts an agent; returns when it runs, or when the failed attempt is cleaned up. Dropping the future ends the
/// attempt.
pub async fn spawn(spec: SpawnSpec) -> Result<AgentProcess, SpawnError> {
    let StdioPipes { host, agent } = StdioPipes::new()?;
    let handle = start_under_supervisor(spec, agent, host.stderr, false).await?;
    Ok(AgentProcess { stdin: AgentStdin::new(host.stdin), stdout: LineReader::new(host.stdout), handle })
}

/// Starts a program in a terminal, as [`spawn`] starts an agent.
pub async fn spawn_in_terminal(spec: SpawnSpec, size: PtySize) -> Result<TerminalProcess, SpawnError> {
    let (pty, terminal) = pty::open_pty_pair(size)?;
    // The supervisor's own errors go here, not to the terminal.
    let (complaints, stderr) = io::pipe()?;
    let complaints = pipe::Receiver::from_owned_fd(complaints.into())?;
    let ends = AgentPipes { stdin: terminal.try_clone()?, stdout: terminal, stderr: stderr.into() };
    let handle = start_under_supervisor(spec, ends, complaints, true).await?;
    Ok(TerminalProcess { pty, handle })
}

async fn start_under_supervisor(
    spec: SpawnSpec,
    ends: AgentPipes,
    stderr: pipe::Receiver,
    terminal: bool,
) -> Result<ProcessHandle, SpawnError> {
    orphans::ensure_reaper_running();
    let (lifeline, supervisors_end) = UnixStream::pair()?;
    lifeline.set_nonblocking(true)?;
    let lifeline = tokio::net::UnixStream::from_std(lifeline)?;

    let (program, cwd) = (spec.program.clone(), spec.cwd.clone());
    let launch = launch_message(&spec, terminal).encode()?;
    let mut lock = spec.lock;
    let supervisor = start_supervisor(&spec.supervisor, ends, supervisors_end, lock.as_ref())?;
    if let Some(ProcessTreeLock::Conversation(lock)) = &mut lock {
        lock.hand_file_to_supervisor();
    }

    let tail = Arc::new(StderrBuffer::new(Redactor::new(spec.redact)));
    let (progress, mut seen) = watch::channel(ProcessProgress::default());
    let (stop, stopped) = watch::channel(false);
    let watcher = ProcessWatcher {
        supervisor,
        lifeline,
        launch,
        stderr,
        stderr_buffer: Arc::clone(&tail),
        progress,
        stop: stopped,
        lock,
    };
    tokio::spawn(watcher.run());

    let start = match seen.wait_for(|progress| progress.start.is_some()).await {
        Ok(progress) => progress.start.clone(),
        Err(_) => None,
    };
    match start {
        Some(Ok(pid)) => Ok(ProcessHandle::new(HandleState { pid, stderr: tail, progress: seen, stop })),
        Some(Err(failure)) => {
            let _ = seen.wait_for(|progress| progress.is_tree_empty).await;
            Err(spawn_error(failure, program, cwd))
        }
        None => Err(SpawnError::Supervisor("the host is shutting down".to_owned())),
    }
}

fn launch_message(spec: &SpawnSpec, terminal: bool) -> LaunchMessage {
    LaunchMessage {
        program: spec.program.clone(),
        args: spec.args.clone(),
        env: spec.env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        cwd: spec.cwd.clone(),
        lock: spec.lock.as_ref().and_then(ProcessTreeLock::path).map(Path::to_owned),
        terminal,
    }
}

fn spawn_error(failure: StartFailure, program: PathBuf, cwd: PathBuf) -> SpawnError {
    match failure {
        StartFailure::Directory(errno) => {
            SpawnError::NoWorkingDirectory { path: cwd, reason: io::Error::from_raw_os_error(errno) }
        }
        StartFailure::Program(errno) => match Errno::from_raw(errno) {
            Errno::ENOENT | Errno::ENOTDIR => SpawnError::NotFound(program),
            Errno::EACCES | Errno::ENOEXEC | Errno::EISDIR => SpawnError::NotExecutable(program),
            _ => SpawnError::Io(io::Error::from_raw_os_error(errno)),
        },
        StartFailure::Supervisor(reason) => SpawnError::Supervisor(reason),
    }
}

struct StdioPipes {
    host: HostPipes,
    agent: AgentPipes,
}

struct HostPipes {
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

struct AgentPipes {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl StdioPipes {
    fn new() -> io::Result<Self> {
        let (agent_stdin, stdin) = io::pipe()?;
        let (stdout, agent_stdout) = io::pipe()?;
        let (stderr, agent_stderr) = io::pipe()?;
        Ok(Self {
            host: HostPipes {
                stdin: pipe::Sender::from_owned_fd(stdin.into())?,
                stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
                stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
            },
            agent: AgentPipes { stdin: agent_stdin.into(), stdout: agent_stdout.into(), stderr: agent_stderr.into() },
        })
    }
}

/// Starts the supervisor with the agent's ends of the pipes; the host's copies are closed when this returns.
fn start_supervisor(
    supervisor: &SupervisorCommand,
    agent: AgentPipes,
    lifeline: UnixStream,
    lock: Option<&ProcessTreeLock>,
) -> Result<RegisteredChild<Child>, SpawnError> {
    let mut command = Command::new(&supervisor.program);
    command
        .args(&supervisor.args)
        .env_clear()
        .current_dir(Path::new("/"))
        .stdin(Stdio::from(agent.stdin))
        .stdout(Stdio::from(agent.stdout))
        .stderr(Stdio::from(agent.stderr));
    pass_descriptors(&mut command, lifeline.as_raw_fd(), lock.map(|lock| lock.as_fd().as_raw_fd()));
    spawn_registered_child(|| {
        let child = command.spawn()?;
        let pid = child.id().ok_or(io::ErrorKind::NotFound)?;
        Ok((pid, child))
    })
    .map_err(|error| {
        let program = supervisor.program.display();
        SpawnError::Supervisor(format!("failed to start {program}: {error}"))
    })
}

/// Passes the lifeline and the lock to the supervisor under fixed descriptor numbers, and restores the host's
/// original limit of open files.
#[expect(unsafe_code, reason = "descriptor numbers are assigned between fork and exec")]
fn pass_descriptors(command: &mut Command, lifeline: RawFd, lock: Option<RawFd>) {
    let file_limit = file_limit::original_limits();
    // SAFETY: the closure makes only async-signal-safe system calls; it takes no lock and allocates nothing. Both
    // files are open until the command has been spawned, and only the child uses their new numbers.
    unsafe {
        command.pre_exec(move || {
            // Copied above both target numbers first, then into place. The originals and the copies close on exec.
            let lifeline = Errno::result(libc::fcntl(lifeline, libc::F_DUPFD_CLOEXEC, LOCK_FD + 1))?;
            let lock = match lock {
                Some(lock) => Some(Errno::result(libc::fcntl(lock, libc::F_DUPFD_CLOEXEC, LOCK_FD + 1))?),
                None => None,
            };
            Errno::result(libc::dup2(lifeline, LIFELINE_FD))?;
            if let Some(lock) = lock {
                Errno::result(libc::dup2(lock, LOCK_FD))?;
            }
            // Last, because the copies above may have numbers beyond the limit.
            file_limit.as_ref().map_or(Ok(()), file_limit::set_limits)
        });
    }
}

impl fmt::Debug for SpawnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnSpec")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &self.env)
            .field("cwd", &self.cwd)
            .field("supervisor", &self.supervisor)
            .field("lock", &self.lock)
            .field("redact", &self.redact.len())
            .finish()
    }
}
