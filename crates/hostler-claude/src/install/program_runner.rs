//! The programs that an install runs: none of them outlives the install, nor the host, however that ends.

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

/// How long the last words are waited for of a program that has left nothing but an open pipe.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What the programs of one install run under.
pub(super) struct ProgramRunner<'a> {
    pub(super) supervisor: &'a SupervisorCommand,
    /// Stays locked until nothing of a program is left, so that nobody else installs beside it.
    pub(super) lock: &'a BuildLock,
    /// Nobody wants the install any more.
    pub(super) cancelled: &'a CancellationToken,
}

/// A program, and what it is given.
pub(super) struct ProgramSpec<'a> {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: BTreeMap<OsString, OsString>,
    pub(super) cwd: &'a Path,
}

/// How a program ended by itself.
pub(super) struct ProgramExit {
    pub(super) exit: ExitReport,
    /// The end of what it complained about.
    pub(super) stderr: String,
}

impl ProgramRunner<'_> {
    /// Runs a program until it ends or `enough` says so; `None` if that was first. `hear` gets the lines that it prints.
    /// Nothing of it is left when this returns.
    pub(super) async fn run(
        &self,
        program: ProgramSpec<'_>,
        enough: impl Future<Output = ()>,
        hear: impl FnMut(&[u8]),
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
            let mut listening = std::pin::pin!(read_lines(stdout, hear));
            tokio::select! {
                () = &mut listening => {}
                // Somebody whom no supervisor can see may keep the pipe open, and must not keep us.
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

async fn read_lines(mut stdout: LineReader, mut hear: impl FnMut(&[u8])) {
    loop {
        match stdout.next_line().await {
            Ok(Some(line)) => hear(&line),
            // Nobody says anything of worth in so many words.
            Err(LineError::TooLong { .. }) => {}
            Ok(None) | Err(LineError::Io(_)) => return,
        }
    }
}
