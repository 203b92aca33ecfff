//! Terminal modes: disables echo, and restores the modes that an editor changed.

use std::io;

use nix::sys::termios::{FlushArg, LocalFlags, SetArg, Termios, tcflush, tcgetattr, tcsetattr};

/// Disables echo of stdin's terminal while it lives.
pub(crate) struct NoEchoGuard {
    original_termios: Termios,
}

impl NoEchoGuard {
    pub(crate) fn activate() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL);
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &quiet)?;
        Ok(Self { original_termios: before })
    }
}

impl Drop for NoEchoGuard {
    fn drop(&mut self) {
        // A terminal that is gone needs no restore.
        let _gone = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.original_termios);
    }
}

/// Restores the current modes of stdin's terminal when dropped.
pub(crate) struct TermiosGuard {
    original_termios: Option<Termios>,
}

impl TermiosGuard {
    pub(crate) fn capture() -> Self {
        Self { original_termios: tcgetattr(io::stdin()).ok() }
    }
}

impl Drop for TermiosGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.original_termios {
            let _gone = tcsetattr(io::stdin(), SetArg::TCSADRAIN, before);
        }
    }
}

/// Discards input that was typed on the process's terminal and not yet read, if there is a terminal.
pub(crate) fn discard_typed_input() {
    let _no_terminal = tcflush(io::stdin(), FlushArg::TCIFLUSH);
}
