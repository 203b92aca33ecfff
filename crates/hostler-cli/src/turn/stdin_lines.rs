//! Lines typed on stdin while a turn runs.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum length of a typed line.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Typed lines. Cancelling a read loses nothing.
pub(crate) struct StdinLines<'a> {
    stdin: &'a mut (dyn AsyncRead + Send + Unpin),
    buffered: Vec<u8>,
}

impl<'a> StdinLines<'a> {
    pub(crate) fn new(stdin: &'a mut (dyn AsyncRead + Send + Unpin)) -> Self {
        Self { stdin, buffered: Vec::new() }
    }

    /// Discards input that was typed so far.
    pub(crate) fn discard(&mut self) {
        self.buffered.clear();
        crate::terminal_mode::discard_typed_input();
    }

    /// Returns the next line; `None` at the end of the input.
    pub(crate) async fn next_line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.buffered.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffered.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            if self.buffered.len() > MAX_LINE_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long"));
            }
            let mut bytes = [0; 1024];
            match self.stdin.read(&mut bytes).await? {
                0 => return Ok(None),
                read => self.buffered.extend(bytes.iter().take(read)),
            }
        }
    }
}
