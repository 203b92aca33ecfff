//! What a person types while a turn runs.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A line that is longer was not typed by a person.
const LONGEST: usize = 64 * 1024;

/// The lines that somebody types. A read that is given up loses nothing.
pub(crate) struct Lines<'a> {
    stdin: &'a mut (dyn AsyncRead + Send + Unpin),
    pending: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(stdin: &'a mut (dyn AsyncRead + Send + Unpin)) -> Self {
        Self { stdin, pending: Vec::new() }
    }

    /// Forgets what was typed up to now.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
        crate::echo::forget_typed();
    }

    /// The next line; nothing at the end of the input.
    pub(crate) async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            if self.pending.len() > LONGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long"));
            }
            let mut bytes = [0; 1024];
            match self.stdin.read(&mut bytes).await? {
                0 => return Ok(None),
                read => self.pending.extend(bytes.iter().take(read)),
            }
        }
    }
}
