//! Runs npm and measures how many bytes have arrived.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hostler_driver::InstallError;

use super::environment::InstallEnvironment;
use super::errors;
use super::layout::directory_size_bytes;
use super::npm_diagnosis::{InstallContext, NpmDiagnosis};
use super::program_runner::{ProgramRunner, ProgramSpec};

/// Interval between measurements of the bytes on disk.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Executes npm with only its standard error visible.
const STDERR_ONLY_SCRIPT: &str = "exec \"$@\" 2>&1 >/dev/null";

/// One `npm install`.
pub(super) struct NpmInstall<'a> {
    pub(super) npm: &'a Path,
    pub(super) node: &'a Path,
    pub(super) environment: &'a InstallEnvironment,
    pub(super) prefix: &'a Path,
    pub(super) runner: &'a ProgramRunner<'a>,
    pub(super) context: InstallContext<'a>,
}

impl NpmInstall<'_> {
    /// Runs to completion; `arrived` receives the bytes on disk.
    pub(super) async fn run(self, arrived: impl Fn(u64)) -> Result<(), InstallError> {
        let InstallContext { build, spec, .. } = self.context;
        let arguments = ["-c", STDERR_ONLY_SCRIPT, "sh"].map(OsString::from).into_iter().chain([self.npm.into()]);
        let arguments = arguments.chain(["install".into(), "--prefix".into(), self.prefix.into()]);
        let program = ProgramSpec {
            program: "/bin/sh".into(),
            args: arguments.chain(NPM_FLAGS.map(OsString::from)).chain([spec.into()]).collect(),
            env: self.environment.for_npm(self.node),
            cwd: self.prefix,
        };
        let mut diagnosis = NpmDiagnosis::default();
        let ended = tokio::select! {
            ended = self.runner.run(program, self.runner.cancelled.cancelled(), |line| diagnosis.read_line(line)) => ended,
            never = report_progress(self.prefix, &arrived) => match never {},
        };
        let not_started = |why: String| errors::npm_failed(&format!("it could not be started ({why})"), build);
        let exit = match ended {
            Ok(Some(ended)) => ended.exit,
            Ok(None) => return Err(errors::stopped(build)),
            Err(error) => return Err(not_started(error.to_string())),
        };
        arrived(count_bytes(self.prefix).await);
        match exit.code {
            Some(0) if !diagnosis.is_disk_full() => Ok(()),
            // Exit codes of a shell that could not execute the program.
            Some(126 | 127) => Err(not_started(exit.to_string())),
            _ => Err(diagnosis.explain(&exit.to_string(), &self.context)),
        }
    }
}

/// Flags for every npm setting of the user that could break the install: flags override settings.
const NPM_FLAGS: [&str; 17] = [
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-save",
    "--no-package-lock",
    "--no-progress",
    "--no-color",
    "--no-update-notifier",
    "--global=false",
    "--workspaces=false",
    "--install-strategy=hoisted",
    // A full disk appears as a warning only.
    "--loglevel=warn",
    // Without a network npm would retry for minutes.
    "--fetch-retries=2",
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
    "--fetch-timeout=120000",
    "--",
];

async fn report_progress(directory: &Path, arrived: &impl Fn(u64)) -> Infallible {
    let mut count = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        count.tick().await;
        arrived(count_bytes(directory).await);
    }
}

async fn count_bytes(directory: &Path) -> u64 {
    let directory = directory.to_owned();
    tokio::task::spawn_blocking(move || directory_size_bytes(&directory)).await.unwrap_or(0)
}
