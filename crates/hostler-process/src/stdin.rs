//! The agent's standard input, written line by line.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

/// The agent's standard input.
#[derive(Debug)]
pub struct AgentStdin {
    pipe: pipe::Sender,
    /// Accepted bytes that are not written yet.
    pending: BytesMut,
}

impl AgentStdin {
    pub(crate) fn new(pipe: pipe::Sender) -> Self {
        Self { pipe, pending: BytesMut::new() }
    }

    /// Writes `line` and a line feed, in one write if the pipe has room. A line that contains a line feed is
    /// rejected.
    ///
    /// Lines are never torn: after this future is dropped, the next call first writes the rest.
    pub async fn write_line(&mut self, line: impl Into<Vec<u8>>) -> io::Result<()> {
        let mut line = line.into();
        if line.contains(&b'\n') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a line for the agent must not contain a line feed",
            ));
        }
        line.push(b'\n');
        match self.pending.is_empty() {
            // Moved, not copied: it may contain a message's attachments.
            true => self.pending = Bytes::from(line).into(),
            false => self.pending.extend_from_slice(&line),
        }
        self.pipe.write_all_buf(&mut self.pending).await?;
        // Releases the capacity that a large attachment needed.
        self.pending = BytesMut::new();
        Ok(())
    }

    /// Closes the agent's standard input; the agent is expected to finish.
    pub fn close(self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::LineReader;
    use std::time::Duration;

    #[tokio::test]
    async fn dropped_write_does_not_tear_the_line() {
        let (sender, receiver) = pipe::pipe().unwrap();
        let mut stdin = AgentStdin::new(sender);
        let large = vec![b'a'; 1024 * 1024];
        let cut_off = tokio::time::timeout(Duration::from_millis(1), stdin.write_line(&large[..])).await;
        assert!(cut_off.is_err(), "the pipe took a whole MiB without a reader");

        let writer = tokio::spawn(async move { stdin.write_line(b"next").await });
        let mut lines = LineReader::new(receiver);
        assert_eq!(lines.next_line().await.unwrap().unwrap().len(), large.len());
        assert_eq!(&lines.next_line().await.unwrap().unwrap()[..], b"next");
        writer.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn line_feed_inside_a_line_is_rejected() {
        let (sender, _receiver) = pipe::pipe().unwrap();
        let error = AgentStdin::new(sender).write_line(b"a\nb").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
