//! Runs real programs without a supervisor, for tests of the engine's handling of them. Only the real host ends whole
//! process trees.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of this module")]

use std::process::Stdio;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_engine::{CommandExit, CommandProgram, CommandRunner, CommandSpec, CommandStartError, RunningCommand};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

pub struct PlainCommands;

impl CommandRunner for PlainCommands {
    fn start(&self, spec: CommandSpec) -> BoxFuture<'static, Result<Box<dyn RunningCommand>, CommandStartError>> {
        async move {
            let mut command = match spec.program {
                CommandProgram::Shell(line) => {
                    let mut command = Command::new("/bin/sh");
                    command.args(["-c", "exec 2>&1; exec /bin/sh -c \"$1\"", "sh", &line]);
                    command
                }
                CommandProgram::Named(name, arguments) => {
                    let mut command = Command::new(name);
                    command.args(arguments);
                    command
                }
            };
            command.current_dir(&spec.directory).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut child = command
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| CommandStartError { message: error.to_string() })?;
            let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            Ok(Box::new(Plain { child, output }) as Box<dyn RunningCommand>)
        }
        .boxed()
    }
}

struct Plain {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl RunningCommand for Plain {
    fn next_line(&mut self) -> BoxFuture<'_, Option<Bytes>> {
        async { self.output.next_line().await.ok().flatten().map(Bytes::from) }.boxed()
    }

    fn wait(&mut self) -> BoxFuture<'_, CommandExit> {
        async {
            let status = self.child.wait().await;
            status.ok().and_then(|status| status.code()).map_or(CommandExit::Signal(9), CommandExit::Code)
        }
        .boxed()
    }

    fn terminate(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        async move {
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
        .boxed()
    }
}
