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

/// How far an install has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallProgress {
    /// Another process installs the same build; waiting for it.
    Waiting,
    /// Bytes on disk so far, of about how many.
    Fetching {
        /// Bytes that have arrived.
        done_bytes: u64,
        /// About how many there will be.
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
    /// What is installed for a build; looks at the disk only, starts nothing.
    fn installed_build(&self, build: &str) -> Option<InstalledBuild>;
    /// Installs a build if it is not there; safe when several processes do it at once.
    ///
    /// Dropping the future ends the install; [`stop`](Self::stop) waits until nothing of it is left.
    fn install(
        &self,
        build: &str,
        progress: InstallProgressSink,
    ) -> BoxFuture<'static, Result<InstalledBuild, InstallError>>;
    /// Ends whatever is being installed, and returns when nothing of it is left. Nothing is installed after that.
    fn stop(&self) -> BoxFuture<'static, ()>;
}

/// Why an install failed. Nothing half-installed is left.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct InstallError {
    /// What kind of failure.
    pub kind: InstallErrorKind,
    /// One sentence, with what to do next.
    pub message: String,
}

/// The kinds of failed installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallErrorKind {
    /// npm (or node) is not there.
    NpmMissing,
    /// The registry could not be reached.
    Network,
    /// The disk is full.
    DiskFull,
    /// There is no build for this machine.
    Unsupported,
    /// What was installed does not run or is another version.
    VerificationFailed,
    /// Anything else.
    Other,
}
