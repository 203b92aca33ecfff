//! Terminals: the host holds one end, a program under its supervisor the other.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::setsid;
use tokio::io::unix::AsyncFd;

use crate::platform;

/// How large a terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtySize {
    /// Characters in a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

/// The host's end of a terminal. Its methods can be used from different tasks at once.
#[derive(Debug)]
pub struct Pty {
    end: AsyncFd<OwnedFd>,
}

impl Pty {
    /// Reads what programs have written; 0 when no program has the terminal any more. May be dropped: nothing is lost.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.end.readable().await?;
            let read = ready.try_io(|end| match nix::unistd::read(end, buffer) {
                // What Linux says when the other end has been closed.
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

    /// Writes some of `bytes` as if they had been typed, and says how many. Waits while the terminal takes none. May be
    /// dropped: then nothing was written.
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

    /// Changes the size; the program in the foreground is told.
    pub fn resize(&self, size: PtySize) -> io::Result<()> {
        set_size(self.end.get_ref(), size)
    }
}

/// A new terminal: the host's end, and the one for programs. Neither is inherited by accident.
pub(crate) fn open_pty_pair(size: PtySize) -> io::Result<(Pty, OwnedFd)> {
    let (end, terminal) = platform::open_pty()?;
    set_size(&end, size)?;
    Ok((Pty { end: register(end)? }, terminal))
}

#[expect(unsafe_code, reason = "the runtime is told of a descriptor that it does not own")]
fn register(end: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` has one number for all its life, and lives until the runtime has forgotten it.
    Ok(unsafe { AsyncFd::register(end) }?)
}

/// Begins a session to which the terminal at standard input belongs, and lets standard error lead there, too.
/// Async-signal-safe.
#[expect(unsafe_code, reason = "a session takes its terminal by an ioctl")]
pub(crate) fn acquire_controlling_terminal() -> io::Result<()> {
    setsid()?;
    // SAFETY: both are plain system calls on numbers that are open, without memory of ours.
    unsafe {
        Errno::result(libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY as _, 0))?;
        Errno::result(libc::dup2(libc::STDIN_FILENO, libc::STDERR_FILENO))?;
    }
    Ok(())
}

#[expect(unsafe_code, reason = "the size is set by an ioctl")]
fn set_size(end: &OwnedFd, size: PtySize) -> io::Result<()> {
    let size = libc::winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is what this request reads, and lives as long as the call.
    Errno::result(unsafe { libc::ioctl(end.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })?;
    Ok(())
}
