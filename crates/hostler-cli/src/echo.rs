//! The terminal's own settings: it need not show what is typed, and gets back what an editor leaves behind.

use std::io;

use nix::sys::termios::{FlushArg, LocalFlags, SetArg, Termios, tcflush, tcgetattr, tcsetattr};

/// As long as it lives, stdin's terminal does not echo.
pub(crate) struct Hidden {
    before: Termios,
}

impl Hidden {
    pub(crate) fn start() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL);
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &quiet)?;
        Ok(Self { before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _gone = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }
}

/// Gives stdin's terminal back the settings that it has now, once it is dropped.
pub(crate) struct Kept {
    before: Option<Termios>,
}

impl Kept {
    pub(crate) fn now() -> Self {
        Self { before: tcgetattr(io::stdin()).ok() }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _gone = tcsetattr(io::stdin(), SetArg::TCSADRAIN, before);
        }
    }
}

/// Forgets what was typed on the process's terminal and not yet read, if it has one.
pub(crate) fn forget_typed() {
    let _no_terminal = tcflush(io::stdin(), FlushArg::TCIFLUSH);
}
