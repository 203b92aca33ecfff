//! The messages of failed installs.

use std::io;
use std::path::Path;

use hostler_driver::{InstallError, InstallErrorKind};

use super::pins::Build;
use super::platform::Platform;

/// The command that the messages recommend.
fn install_command(build: Build) -> &'static str {
    match build {
        Build::Native => "`hostler agents install claude`",
        Build::Js => "`hostler agents install claude --build js`",
    }
}

fn install_error(kind: InstallErrorKind, message: String) -> InstallError {
    InstallError { kind, message }
}

pub(super) fn unknown_build(name: &str) -> InstallError {
    let known = Build::ALL.map(Build::as_str).join(", ");
    install_error(InstallErrorKind::Other, format!("There is no Claude Code build \"{name}\". Choose one of: {known}."))
}

pub(super) fn tool_missing(tool: &str, build: Build) -> InstallError {
    let message = format!(
        "{tool} was not found on PATH. Install Node.js with npm (nodejs.org or your package manager), then run {} again.",
        install_command(build)
    );
    install_error(InstallErrorKind::NpmMissing, message)
}

pub(super) fn network(code: &str, build: Build) -> InstallError {
    let message = format!(
        "npm could not reach its registry ({code}). Check the network and npm's proxy settings, then run {} again.",
        install_command(build)
    );
    install_error(InstallErrorKind::Network, message)
}

pub(super) fn registry_refused(code: &str, spec: &str, build: Build) -> InstallError {
    let message = format!(
        "npm could not download {spec} from its registry ({code}). Check npm's registry setting and your access to it, \
         then run {} again.",
        install_command(build)
    );
    install_error(InstallErrorKind::Network, message)
}

pub(super) fn disk_full(cache: &Path, build: Build) -> InstallError {
    let megabytes = build.pin().approximate_bytes / 1_000_000;
    let message = format!(
        "The disk is full. This build needs about {megabytes} MB in {}, and npm needs the same for its own cache. \
         Free some space or set XDG_CACHE_HOME to a larger disk, then run {} again.",
        cache.display(),
        install_command(build)
    );
    install_error(InstallErrorKind::DiskFull, message)
}

pub(super) fn unsupported(platform: &Platform) -> InstallError {
    let message = format!(
        "There is no native build of Claude Code for {platform}. \
         Use the JavaScript build instead: `hostler agents install claude --build js`."
    );
    install_error(InstallErrorKind::Unsupported, message)
}

/// npm assumes another platform than ours: usually a Node.js that was built for another processor.
pub(super) fn npm_platform_mismatch(platform: &Platform, spec: &str) -> InstallError {
    let message = format!(
        "npm rejected {spec} because its Node.js was not built for {platform}. \
         Install a Node.js that matches this machine, or use the JavaScript build: \
         `hostler agents install claude --build js`."
    );
    install_error(InstallErrorKind::Unsupported, message)
}

pub(super) fn incompatible_executable(platform: &Platform) -> InstallError {
    let message = format!(
        "The installed executable cannot run on this machine ({platform}): it was built for another system. \
         Use the JavaScript build instead: `hostler agents install claude --build js`."
    );
    install_error(InstallErrorKind::Unsupported, message)
}

pub(super) fn verification_failed(detail: &str, build: Build) -> InstallError {
    let message =
        format!("Claude Code failed verification and was removed: {detail}. Run {} again.", install_command(build));
    install_error(InstallErrorKind::VerificationFailed, message)
}

pub(super) fn npm_failed(detail: &str, build: Build) -> InstallError {
    install_error(
        InstallErrorKind::Other,
        format!("npm failed: {detail}. Fix the problem, then run {} again.", install_command(build)),
    )
}

pub(super) fn stopped(build: Build) -> InstallError {
    install_error(
        InstallErrorKind::Other,
        format!("The installation was canceled. Run {} to start it again.", install_command(build)),
    )
}

pub(super) fn task_failed(error: &tokio::task::JoinError, build: Build) -> InstallError {
    install_error(
        InstallErrorKind::Other,
        format!("The installation failed ({error}). Run {} again.", install_command(build)),
    )
}

/// A file operation of ours failed; `what` completes "Failed to …".
pub(super) fn file_error(what: &str, error: &io::Error, cache: &Path, build: Build) -> InstallError {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return disk_full(cache, build);
    }
    let message = format!(
        "Failed to {what}: {error}. Make the cache directory writable, or set XDG_CACHE_HOME to a writable directory."
    );
    install_error(InstallErrorKind::Other, message)
}
