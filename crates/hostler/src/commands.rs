//! The engine's port for programs, on processes under a supervisor.

use std::ffi::OsString;
use std::path::PathBuf;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_engine::{CommandEnd, CommandSpec, Commands, Program, RunningCommand};
use hostler_process::{AgentProcess, CloseMode, Environment, ExitReport, LineError, SpawnSpec, SupervisorCommand};

/// Makes one stream of two, closes what is read, and becomes the program.
const ONE_STREAM: &str = "exec \"$@\" 2>&1 </dev/null";

/// The same, for programs whose complaints are not their answer.
const FIRST_STREAM: &str = "exec \"$@\" 2>/dev/null </dev/null";

/// The shell where the user has named none.
const USUAL_SHELL: &str = "/bin/sh";

/// Runs programs with the user's environment, without the host's own secrets.
pub(crate) struct Supervised {
    environment: Environment,
    supervisor: SupervisorCommand,
    shell: OsString,
}

impl Supervised {
    /// In this environment, which is the user's.
    pub(crate) fn new(environment: Environment, supervisor: SupervisorCommand) -> Self {
        let shell = users_shell(&environment);
        Self { environment, supervisor, shell }
    }
}

/// The user's environment, without the host's own secrets.
pub(crate) fn users(vars: impl IntoIterator<Item = (OsString, OsString)>, credentials: &[String]) -> Environment {
    let mut environment = Environment::from_vars(vars);
    environment.remove_prefix("HOSTLER_");
    for name in credentials {
        environment.remove(name);
    }
    environment
}

/// The shell that the user has named, or the usual one.
pub(crate) fn users_shell(environment: &Environment) -> OsString {
    let shell = environment.get("SHELL").filter(|shell| !shell.is_empty()).map(ToOwned::to_owned);
    shell.unwrap_or_else(|| USUAL_SHELL.into())
}

/// How a process ended.
pub(crate) fn end_of(exit: ExitReport) -> CommandEnd {
    match exit {
        ExitReport { code: Some(code), .. } => CommandEnd::Code(code),
        ExitReport { signal: Some(signal), .. } => CommandEnd::Signal(signal),
        ExitReport { .. } => CommandEnd::Unknown,
    }
}

impl Commands for Supervised {
    fn start(&self, spec: CommandSpec) -> BoxFuture<'static, Result<Box<dyn RunningCommand>, String>> {
        let (streams, program): (_, Vec<OsString>) = match spec.program {
            Program::Shell(line) => (ONE_STREAM, vec![self.shell.clone(), "-c".into(), line.into()]),
            Program::Named(name, arguments) => {
                (FIRST_STREAM, std::iter::once(name.into()).chain(arguments.into_iter().map(OsString::from)).collect())
            }
        };
        let args = ["-c", streams, "sh"].into_iter().map(OsString::from).chain(program).collect();
        let spec = SpawnSpec {
            program: PathBuf::from(USUAL_SHELL),
            args,
            env: self.environment.clone(),
            cwd: spec.directory,
            supervisor: self.supervisor.clone(),
            lock: None,
            redact: Vec::new(),
        };
        async move {
            let process = hostler_process::spawn(spec).await.map_err(|error| error.to_string())?;
            Ok(Box::new(Running(process)) as Box<dyn RunningCommand>)
        }
        .boxed()
    }
}

struct Running(AgentProcess);

impl RunningCommand for Running {
    fn next_line(&mut self) -> BoxFuture<'_, Option<Bytes>> {
        async {
            match self.0.stdout.next_line().await {
                Ok(line) => line,
                Err(error @ LineError::TooLong { .. }) => Some(Bytes::from(format!("[{error}]"))),
                Err(LineError::Io(_)) => None,
            }
        }
        .boxed()
    }

    fn ended(&mut self) -> BoxFuture<'_, CommandEnd> {
        async {
            let exit = self.0.handle.exited().await;
            self.0.handle.tree_empty().await;
            end_of(exit)
        }
        .boxed()
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move { self.0.handle.close(CloseMode::Now).await }.boxed()
    }
}
