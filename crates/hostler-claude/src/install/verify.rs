//! Runs a freshly installed executable to see which version it is.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use hostler_driver::InstallError;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::child::{OwnedChild, describe};
use super::environment::Environment;
use super::failure;
use super::pins::Build;
use super::platform::Platform;

/// A first run from a cold disk takes seconds; a hanging one is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// A version is short.
const OUTPUT_LIMIT: u64 = 4096;

/// One run of `--version`.
pub(super) struct Verification<'a> {
    pub(super) build: Build,
    pub(super) platform: &'a Platform,
    pub(super) executable: &'a Path,
    pub(super) node: &'a Path,
    pub(super) scratch: &'a Path,
    pub(super) environment: &'a Environment,
}

impl Verification<'_> {
    /// Succeeds if the executable runs and is the pinned version.
    pub(super) async fn run(self) -> Result<(), InstallError> {
        let Self { build, platform, executable, .. } = self;
        if !executable.is_file() {
            return Err(failure::verification("its package does not hold the executable", build));
        }
        let mut command = match build {
            Build::Native => Command::new(executable),
            Build::Js => Command::new(self.node),
        };
        if build == Build::Js {
            command.arg(executable);
        }
        command
            .arg("--version")
            .current_dir(self.scratch)
            .env_clear()
            .envs(self.environment.for_verification(self.scratch, self.node))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let said = match tokio::time::timeout(PATIENCE, output(&mut command)).await {
            Ok(said) => said.map_err(|error| not_run(&error, build, platform))?,
            Err(_) => {
                return Err(failure::verification("it did not say its version within a minute", build));
            }
        };
        judge(&said, build)
    }
}

/// What a run printed, and how it ended.
struct Said {
    status: String,
    success: bool,
    stdout: String,
    stderr: String,
}

async fn output(command: &mut Command) -> io::Result<Said> {
    let mut child = OwnedChild::spawn(command)?;
    let (stdout, stderr) = (child.inner().stdout.take(), child.inner().stderr.take());
    let (stdout, stderr, status) = tokio::join!(head(stdout), head(stderr), child.inner().wait());
    let status = status?;
    Ok(Said { status: describe(status), success: status.success(), stdout, stderr })
}

async fn head(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before an error is still worth showing.
        let _ended = stream.take(OUTPUT_LIMIT).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn judge(said: &Said, build: Build) -> Result<(), InstallError> {
    let expected = build.pin().version;
    match said.stdout.split_whitespace().next() {
        Some(version) if said.success && version == expected => Ok(()),
        Some(version) if said.success => {
            Err(failure::verification(&format!("it says that it is version {version}, not {expected}"), build))
        }
        _ => {
            let complaint = said.stderr.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no complaint");
            let complaint: String = complaint.chars().take(200).collect();
            Err(failure::verification(&format!("it ended with {} ({complaint})", said.status), build))
        }
    }
}

/// An executable that is there but cannot be started was made for another machine: its format is unknown to the kernel,
/// or (where the file exists and the kernel says that it does not) its loader is.
fn not_run(error: &io::Error, build: Build, platform: &Platform) -> InstallError {
    let foreign = error.raw_os_error() == Some(nix::errno::Errno::ENOEXEC as i32)
        || error.kind() == io::ErrorKind::NotFound && build == Build::Native;
    if foreign {
        failure::does_not_execute(platform)
    } else {
        failure::verification(&format!("it could not be started ({error})"), build)
    }
}
