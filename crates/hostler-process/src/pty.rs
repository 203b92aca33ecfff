//! Pseudoterminals: the host holds one end, a supervised program the other.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::setsid;
use tokio::io::unix::AsyncFd;

use crate::platform;

/// Size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtySize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// The host's end of a terminal. Its methods may be used from different tasks at once.
#[derive(Debug)]
pub struct Pty {
    end: AsyncFd<OwnedFd>,
}

impl Pty {
    /// Reads output; 0 when no program has the terminal open. Cancel safe.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.end.readable().await?;
            let read = ready.try_io(|end| match nix::unistd::read(end, buffer) {
                // Linux reports this after the other end was closed.
                Err(Errno::EIO) => Ok(0),
                other => Ok(other?),
            });
            match read {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(read) => return read,
                Err(_would_block) => {}
            }
        }
    }

    /// Writes some of `bytes` as terminal input and returns how many. Waits while the terminal accepts none. Cancel
    /// safe: a dropped future has written nothing.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.end.writable().await?;
            let written = ready.try_io(|end| Ok(nix::unistd::write(end, bytes)?));
            match written {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(written) => return written,
                Err(_would_block) => {}
            }
        }
    }

    /// Changes the size; the kernel notifies the foreground program.
    pub fn resize(&self, size: PtySize) -> io::Result<()> {
        set_size(self.end.get_ref(), size)
    }
}

/// A new terminal: the host's end and the program's end. Both are close-on-exec.
pub(crate) fn open_pty_pair(size: PtySize) -> io::Result<(Pty, OwnedFd)> {
    let (end, terminal) = platform::open_pty()?;
    set_size(&end, size)?;
    Ok((Pty { end: register(end)? }, terminal))
}

#[expect(unsafe_code, reason = "registers a descriptor that the runtime does not own")]
fn register(end: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` has one number for all its life, and lives until the runtime has deregistered it.
    Ok(unsafe { AsyncFd::register(end) }?)
}

/// Starts a session that controls the terminal at standard input, and redirects standard error to that terminal.
/// Async-signal-safe.
#[expect(unsafe_code, reason = "the controlling terminal is set by an ioctl")]
pub(crate) fn acquire_controlling_terminal() -> io::Result<()> {
    setsid()?;
    // SAFETY: both are plain system calls on open descriptors and access no memory.
    unsafe {
        Errno::result(libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY as _, 0))?;
        Errno::result(libc::dup2(libc::STDIN_FILENO, libc::STDERR_FILENO))?;
    }
    Ok(())
}

#[expect(unsafe_code, reason = "the size is set by an ioctl")]
fn set_size(end: &OwnedFd, size: PtySize) -> io::Result<()> {
    let size = libc::winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: this request reads `size`, which lives as long as the call.
    Errno::result(unsafe { libc::ioctl(end.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })?;
    Ok(())
}
