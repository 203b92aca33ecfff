//! Runs a freshly installed executable to see which version it is.

use std::path::Path;
use std::time::Duration;

use hostler_driver::InstallError;
use hostler_process::{SpawnError, is_executable};

use super::custody::{Custody, Ended, Program};
use super::environment::Environment;
use super::failure;
use super::pins::Build;
use super::platform::Platform;

/// A first run from a cold disk takes seconds; a hanging one is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Versions and complaints are short.
const SHOWN: usize = 200;

/// One run of `--version`.
pub(super) struct Verification<'a> {
    pub(super) build: Build,
    pub(super) platform: &'a Platform,
    pub(super) executable: &'a Path,
    pub(super) node: &'a Path,
    pub(super) scratch: &'a Path,
    pub(super) environment: &'a Environment,
    pub(super) custody: &'a Custody<'a>,
}

impl Verification<'_> {
    /// Succeeds if the executable runs and is the pinned version.
    pub(super) async fn run(self) -> Result<(), InstallError> {
        let Self { build, platform, executable, .. } = self;
        if !executable.is_file() {
            return Err(failure::verification("its package does not hold the executable", build));
        }
        let (program, script) = match build {
            Build::Native => (executable, None),
            Build::Js => (self.node, Some(executable)),
        };
        let program = Program {
            program: program.to_owned(),
            args: script.map(Into::into).into_iter().chain(["--version".into()]).collect(),
            env: self.environment.for_verification(self.scratch, self.node),
            cwd: self.scratch,
        };
        let stopped = &self.custody.stopped;
        let enough = async {
            let _or_too_long = tokio::time::timeout(PATIENCE, stopped.cancelled()).await;
        };
        let mut version = None;
        let ended = self.custody.run(program, enough, |line| version = version.take().or_else(|| first_word(line)));
        match ended.await {
            Ok(Some(ended)) => judge(version.as_deref(), &ended, build),
            Ok(None) if stopped.is_cancelled() => Err(failure::stopped(build)),
            Ok(None) => Err(failure::verification("it did not say its version within a minute", build)),
            Err(error) => Err(not_run(&error, build, platform)),
        }
    }
}

fn first_word(line: &[u8]) -> Option<String> {
    String::from_utf8_lossy(line).split_whitespace().next().map(shortened)
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

fn judge(version: Option<&str>, ended: &Ended, build: Build) -> Result<(), InstallError> {
    let expected = build.pin().version;
    match version {
        Some(version) if ended.exit.success() && version == expected => Ok(()),
        Some(version) if ended.exit.success() => {
            Err(failure::verification(&format!("it says that it is version {version}, not {expected}"), build))
        }
        _ => {
            let complaint = ended.stderr.lines().map(str::trim).find(|line| !line.is_empty());
            let complaint = shortened(complaint.unwrap_or("no complaint"));
            Err(failure::verification(&format!("it ended with {} ({complaint})", ended.exit), build))
        }
    }
}

/// An executable that is there but cannot be started was made for another machine: its format is unknown to the kernel,
/// or (where the file exists and the kernel says that it does not) its loader is.
fn not_run(error: &SpawnError, build: Build, platform: &Platform) -> InstallError {
    let foreign = match error {
        SpawnError::NotFound(_) => build == Build::Native,
        // It may be executed, and yet it cannot be.
        SpawnError::NotExecutable(path) => is_executable(path),
        _ => false,
    };
    if foreign {
        failure::does_not_execute(platform)
    } else {
        failure::verification(&format!("it could not be started ({error})"), build)
    }
}
