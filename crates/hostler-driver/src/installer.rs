//! Managed installs of agent builds: progress, results and errors. Does not know how a build is fetched.

use std::path::PathBuf;

use futures::future::BoxFuture;

/// A managed install of one agent build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledBuild {
    /// Which build: `native`, `js`.
    pub build: String,
    /// The version that was verified by running it.
    pub version: String,
    /// What is executed.
    pub path: PathBuf,
    /// Whether this call had to install it.
    pub newly_installed: bool,
}

/// Progress of an install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallProgress {
    /// Another process is installing the same build; waiting for it.
    Waiting,
    /// Bytes on disk so far, and the expected total.
    Fetching {
        /// Bytes on disk.
        done_bytes: u64,
        /// Expected total, approximate.
        total_bytes: u64,
    },
    /// Running the executable to see its version.
    Verifying,
}

/// Takes progress reports; called from any thread.
pub type InstallProgressSink = Box<dyn Fn(InstallProgress) + Send + Sync>;

/// Manages installs of one provider's agent in the cache directory.
pub trait Installer: Send + Sync + 'static {
    /// The provider's id.
    fn provider(&self) -> &str;
    /// The builds on offer, the default first.
    fn builds(&self) -> Vec<String>;
    /// The pinned version of a build.
    fn pinned_version(&self, build: &str) -> Option<String>;
    /// The installed build; reads the disk only and starts nothing.
    fn installed_build(&self, build: &str) -> Option<InstalledBuild>;
    /// Installs a build if it is missing; safe when several processes do it at once.
    ///
    /// Dropping the future ends the install; [`stop`](Self::stop) waits until its processes and files are gone.
    fn install(
        &self,
        build: &str,
        progress: InstallProgressSink,
    ) -> BoxFuture<'static, Result<InstalledBuild, InstallError>>;
    /// Ends running installs and returns when their processes and files are gone. Later installs fail.
    fn stop(&self) -> BoxFuture<'static, ()>;
}

/// Why an install failed. A failed install leaves nothing behind.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct InstallError {
    /// What kind of failure.
    pub kind: InstallErrorKind,
    /// One sentence, with what to do next.
    pub message: String,
}

impl InstallError {
    /// The machine-readable code, which is the code of its kind.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}

/// The kinds of failed installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallErrorKind {
    /// npm (or node) is missing.
    NpmMissing,
    /// The registry could not be reached.
    Network,
    /// The disk is full.
    DiskFull,
    /// There is no build for this machine.
    Unsupported,
    /// The installed build does not run or has another version.
    VerificationFailed,
    /// Anything else.
    Other,
}

impl InstallErrorKind {
    /// The machine-readable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::NpmMissing => "npmMissing",
            Self::Network => "network",
            Self::DiskFull => "diskFull",
            Self::Unsupported => "unsupportedPlatform",
            Self::VerificationFailed => "verificationFailed",
            Self::Other => "installFailed",
        }
    }
}
