//! Runs the programs of an install; none of them outlives the install or the host.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostler_process::{
    AgentProcess, Environment, ExitReport, LineError, LineReader, SpawnError, SpawnSpec, SupervisorCommand,
    TerminationMode,
};
use tokio_util::sync::CancellationToken;

use super::lock::BuildLock;

/// How long the rest of a program's output is awaited after its exit, if only an open pipe remains.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the programs of one install.
pub(super) struct ProgramRunner<'a> {
    pub(super) supervisor: &'a SupervisorCommand,
    /// Held until all processes of a program have ended, so that no other install overlaps.
    pub(super) lock: &'a BuildLock,
    /// Cancelled when the install is no longer wanted.
    pub(super) cancelled: &'a CancellationToken,
}

/// A program with its arguments and environment.
pub(super) struct ProgramSpec<'a> {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: BTreeMap<OsString, OsString>,
    pub(super) cwd: &'a Path,
}

/// How a program exited.
pub(super) struct ProgramExit {
    pub(super) exit: ExitReport,
    /// The end of its standard error.
    pub(super) stderr: String,
}

impl ProgramRunner<'_> {
    /// Runs a program until it exits or `enough` resolves; `None` in the latter case. `on_line` receives its output
    /// lines. All its processes have ended when this returns.
    pub(super) async fn run(
        &self,
        program: ProgramSpec<'_>,
        enough: impl Future<Output = ()>,
        on_line: impl FnMut(&[u8]),
    ) -> Result<Option<ProgramExit>, SpawnError> {
        let ProgramSpec { program, args, env, cwd } = program;
        let AgentProcess { stdin, stdout, handle } = hostler_process::spawn(SpawnSpec {
            program,
            args,
            env: Environment::from_vars(env),
            cwd: cwd.to_owned(),
            supervisor: self.supervisor.clone(),
            lock: Some(self.lock.to_tree_lock()?),
            redact: Vec::new(),
        })
        .await?;
        stdin.close();
        let end = async {
            let mut listening = std::pin::pin!(read_lines(stdout, on_line));
            tokio::select! {
                () = &mut listening => {}
                // A process outside the supervisor's reach may hold the pipe open and must not block this.
                () = handle.wait_until_tree_empty() => {
                    let _too_long = tokio::time::timeout(OUTPUT_DRAIN_TIMEOUT, listening).await;
                }
            }
            handle.wait_for_exit().await
        };
        let exit = tokio::select! {
            exit = end => Some(exit),
            () = enough => None,
        };
        handle.close(TerminationMode::Now).await;
        Ok(exit.map(|exit| ProgramExit { exit, stderr: handle.stderr_tail() }))
    }
}

async fn read_lines(mut stdout: LineReader, mut on_line: impl FnMut(&[u8])) {
    loop {
        match stdout.next_line().await {
            Ok(Some(line)) => on_line(&line),
            // Lines of this length contain nothing useful.
            Err(LineError::TooLong { .. }) => {}
            Ok(None) | Err(LineError::Io(_)) => return,
        }
    }
}
