//! Runs a freshly installed executable to check its version.

use std::path::Path;
use std::time::Duration;

use hostler_driver::InstallError;
use hostler_process::{SpawnError, is_executable};

use super::environment::InstallEnvironment;
use super::errors;
use super::pins::Build;
use super::platform::Platform;
use super::program_runner::{ProgramExit, ProgramRunner, ProgramSpec};

/// A first run from a cold disk takes seconds; a hanging one is ended.
const VERSION_TIMEOUT: Duration = Duration::from_secs(60);
/// Versions and error messages are short.
const MAX_MESSAGE_CHARS: usize = 200;

/// One run of `--version`.
pub(super) struct Verification<'a> {
    pub(super) build: Build,
    pub(super) platform: &'a Platform,
    pub(super) executable: &'a Path,
    pub(super) node: &'a Path,
    pub(super) scratch: &'a Path,
    pub(super) environment: &'a InstallEnvironment,
    pub(super) runner: &'a ProgramRunner<'a>,
}

impl Verification<'_> {
    /// Succeeds if the executable runs and is the pinned version.
    pub(super) async fn run(self) -> Result<(), InstallError> {
        let Self { build, platform, executable, .. } = self;
        if !executable.is_file() {
            return Err(errors::verification_failed("its package does not contain the executable", build));
        }
        let (program, script) = match build {
            Build::Native => (executable, None),
            Build::Js => (self.node, Some(executable)),
        };
        let program = ProgramSpec {
            program: program.to_owned(),
            args: script.map(Into::into).into_iter().chain(["--version".into()]).collect(),
            env: self.environment.for_verification(self.scratch, self.node),
            cwd: self.scratch,
        };
        let stopped = &self.runner.cancelled;
        let enough = async {
            let _or_too_long = tokio::time::timeout(VERSION_TIMEOUT, stopped.cancelled()).await;
        };
        let mut version = None;
        let ended = self.runner.run(program, enough, |line| version = version.take().or_else(|| first_word(line)));
        match ended.await {
            Ok(Some(ended)) => check_version(version.as_deref(), &ended, build),
            Ok(None) if stopped.is_cancelled() => Err(errors::stopped(build)),
            Ok(None) => Err(errors::verification_failed("it did not report its version within a minute", build)),
            Err(error) => Err(spawn_failure(&error, build, platform)),
        }
    }
}

fn first_word(line: &[u8]) -> Option<String> {
    String::from_utf8_lossy(line).split_whitespace().next().map(truncate)
}

fn truncate(text: &str) -> String {
    text.chars().take(MAX_MESSAGE_CHARS).collect()
}

fn check_version(version: Option<&str>, ended: &ProgramExit, build: Build) -> Result<(), InstallError> {
    let expected = build.pin().version;
    match version {
        Some(version) if ended.exit.success() && version == expected => Ok(()),
        Some(version) if ended.exit.success() => {
            Err(errors::verification_failed(&format!("it reports version {version}, not {expected}"), build))
        }
        _ => {
            let complaint = ended.stderr.lines().map(str::trim).find(|line| !line.is_empty());
            let complaint = truncate(complaint.unwrap_or("no error output"));
            Err(errors::verification_failed(&format!("it exited with {} ({complaint})", ended.exit), build))
        }
    }
}

/// An executable that exists but cannot be started was built for another machine: the kernel does not know its
/// format, or (if the file exists and the kernel reports that it does not) its loader is missing.
fn spawn_failure(error: &SpawnError, build: Build, platform: &Platform) -> InstallError {
    let foreign = match error {
        SpawnError::NotFound(_) => build == Build::Native,
        // The file mode allows execution, and yet it fails.
        SpawnError::NotExecutable(path) => is_executable(path),
        _ => false,
    };
    if foreign {
        errors::incompatible_executable(platform)
    } else {
        errors::verification_failed(&format!("it could not be started ({error})"), build)
    }
}
