//! Implements the engine's command port with processes under a supervisor.

use std::ffi::OsString;
use std::path::PathBuf;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_engine::{CommandExit, CommandProgram, CommandRunner, CommandSpec, CommandStartError, RunningCommand};
use hostler_process::{
    AgentProcess, Environment, ExitReport, LineError, SpawnSpec, SupervisorCommand, TerminationMode,
};

/// Merges stderr into stdout, closes stdin, and execs the program.
const MERGED_OUTPUT_SCRIPT: &str = "exec \"$@\" 2>&1 </dev/null";

/// Discards stderr, closes stdin, and execs the program.
const STDOUT_ONLY_SCRIPT: &str = "exec \"$@\" 2>/dev/null </dev/null";

/// Shell if the user has set none.
const DEFAULT_SHELL: &str = "/bin/sh";

/// Runs programs with the user's environment, without the host's own secrets.
pub(crate) struct SupervisedCommands {
    environment: Environment,
    supervisor: SupervisorCommand,
    shell: OsString,
}

impl SupervisedCommands {
    /// Uses this environment, the user's.
    pub(crate) fn new(environment: Environment, supervisor: SupervisorCommand) -> Self {
        let shell = user_shell(&environment);
        Self { environment, supervisor, shell }
    }
}

/// Returns the user's environment, without the host's own secrets.
pub(crate) fn user_environment(
    vars: impl IntoIterator<Item = (OsString, OsString)>,
    credentials: &[String],
) -> Environment {
    let mut environment = Environment::from_vars(vars);
    environment.remove_prefix("HOSTLER_");
    for name in credentials {
        environment.remove(name);
    }
    environment
}

/// Returns the user's shell, or the default.
pub(crate) fn user_shell(environment: &Environment) -> OsString {
    let shell = environment.get("SHELL").filter(|shell| !shell.is_empty()).map(ToOwned::to_owned);
    shell.unwrap_or_else(|| DEFAULT_SHELL.into())
}

/// Converts how a process ended.
pub(crate) fn to_command_end(exit: ExitReport) -> CommandExit {
    match exit {
        ExitReport { code: Some(code), .. } => CommandExit::Code(code),
        ExitReport { signal: Some(signal), .. } => CommandExit::Signal(signal),
        ExitReport { .. } => CommandExit::Unknown,
    }
}

impl CommandRunner for SupervisedCommands {
    fn start(&self, spec: CommandSpec) -> BoxFuture<'static, Result<Box<dyn RunningCommand>, CommandStartError>> {
        let (streams, program): (_, Vec<OsString>) = match spec.program {
            CommandProgram::Shell(line) => (MERGED_OUTPUT_SCRIPT, vec![self.shell.clone(), "-c".into(), line.into()]),
            CommandProgram::Named(name, arguments) => (
                STDOUT_ONLY_SCRIPT,
                std::iter::once(name.into()).chain(arguments.into_iter().map(OsString::from)).collect(),
            ),
        };
        let args = ["-c", streams, "sh"].into_iter().map(OsString::from).chain(program).collect();
        let spec = SpawnSpec {
            program: PathBuf::from(DEFAULT_SHELL),
            args,
            env: self.environment.clone(),
            cwd: spec.directory,
            supervisor: self.supervisor.clone(),
            lock: None,
            redact: Vec::new(),
        };
        async move {
            let process =
                hostler_process::spawn(spec).await.map_err(|error| CommandStartError { message: error.to_string() })?;
            Ok(Box::new(SupervisedCommand(process)) as Box<dyn RunningCommand>)
        }
        .boxed()
    }
}

struct SupervisedCommand(AgentProcess);

impl RunningCommand for SupervisedCommand {
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

    fn wait(&mut self) -> BoxFuture<'_, CommandExit> {
        async {
            let exit = self.0.handle.wait_for_exit().await;
            self.0.handle.wait_until_tree_empty().await;
            to_command_end(exit)
        }
        .boxed()
    }

    fn terminate(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move { self.0.handle.close(TerminationMode::Now).await }.boxed()
    }
}
