//! Signal dispositions, which a process inherits from whoever started it.

use std::io;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::SigSet;

/// Undoes an ignored SIGCHLD: with it the kernel would reap the children and throw their exit codes away.
#[expect(unsafe_code, reason = "signal dispositions have no safe interface")]
pub(crate) fn restore_default_sigchld() -> io::Result<()> {
    // SAFETY: `current` is a place for one disposition and lives as long as the calls, and the default one runs no
    // code of ours. A handler that somebody has installed is left alone.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        Errno::result(libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut current))?;
        if current.sa_sigaction == libc::SIG_IGN {
            current.sa_sigaction = libc::SIG_DFL;
            Errno::result(libc::sigaction(libc::SIGCHLD, &raw const current, std::ptr::null_mut()))?;
        }
    }
    Ok(())
}

/// Whatever a shell, a service manager or the runtime ignores or blocks, the calling process no longer does.
/// Async-signal-safe.
#[expect(unsafe_code, reason = "signal dispositions have no safe interface")]
pub(crate) fn reset_signals() -> io::Result<()> {
    for signal in 1..=highest_signal() {
        // SAFETY: the default disposition runs no code of ours. Signals that cannot be changed answer with an error.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    SigSet::empty().thread_set_mask()?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn highest_signal() -> libc::c_int {
    libc::SIGRTMAX()
}

#[cfg(not(target_os = "linux"))]
fn highest_signal() -> libc::c_int {
    libc::SIGUSR2
}
