//! The limit of open files: raised to the hard limit for the host, restored for its children.
//!
//! A host has a descriptor for each connection, agent and terminal, and soon reaches the usual limit of 1024.
//! Programs that agents run may rely on that limit (`select` accepts no larger descriptors), so they start with the
//! host's original limit.

use std::io;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The soft and the hard limit before they were raised.
static ORIGINAL_LIMITS: OnceLock<(libc::rlim_t, libc::rlim_t)> = OnceLock::new();

/// macOS accepts at most this many open files, although it reports an infinite hard limit.
#[cfg(target_os = "macos")]
const MAX_OPEN_FILES: libc::rlim_t = 10_240;

/// Raises the soft limit of this process to the hard one.
pub(crate) fn raise_soft_limit() -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    #[cfg(target_os = "macos")]
    let reachable = hard.min(MAX_OPEN_FILES);
    #[cfg(not(target_os = "macos"))]
    let reachable = hard;
    if soft < reachable {
        setrlimit(Resource::RLIMIT_NOFILE, reachable, hard)?;
        let _ = ORIGINAL_LIMITS.set((soft, hard));
    }
    Ok(())
}

/// The limits that children start with; `None` if they were never raised.
pub(crate) fn original_limits() -> Option<libc::rlimit> {
    ORIGINAL_LIMITS.get().map(|&(rlim_cur, rlim_max)| libc::rlimit { rlim_cur, rlim_max })
}

/// Sets the limits of the calling process. Async-signal-safe.
#[expect(unsafe_code, reason = "nix's own function is not documented as async-signal-safe")]
pub(crate) fn set_limits(limits: &libc::rlimit) -> io::Result<()> {
    // SAFETY: this is one system call, which reads a value that outlives it.
    Errno::result(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limits) })?;
    Ok(())
}
