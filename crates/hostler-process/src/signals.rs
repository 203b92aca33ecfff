//! Resets signal dispositions and masks that a process inherits from its parent.

use std::io;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::SigSet;

/// Resets an ignored SIGCHLD: otherwise the kernel reaps the children and discards their exit codes.
#[expect(unsafe_code, reason = "signal dispositions have no safe interface")]
pub(crate) fn restore_default_sigchld() -> io::Result<()> {
    // SAFETY: `current` has room for one disposition and outlives the calls; the default disposition runs no code of
    // ours. An installed handler is not replaced.
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

/// Resets every signal that a shell, a service manager or the runtime ignores or blocks. Async-signal-safe.
#[expect(unsafe_code, reason = "signal dispositions have no safe interface")]
pub(crate) fn reset_signals() -> io::Result<()> {
    for signal in 1..=highest_signal() {
        // SAFETY: the default disposition runs no code of ours. Signals that cannot be changed return an error.
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
