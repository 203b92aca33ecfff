//! Reads lines from a byte stream, with a maximum length, independent of chunk boundaries.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;

/// The longest line that is returned: 64 MiB, without its line feed.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Size of one read.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A buffer that grew beyond this for one long line is released after the line has been returned.
const MAX_RETAINED_CAPACITY_BYTES: usize = 1024 * 1024;

/// Why a line could not be delivered.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line was skipped to its end; the next call continues with the line after it.
    #[error("skipped a line of {length} bytes, which is longer than the limit of {limit} bytes")]
    TooLong {
        /// The length of the skipped line, without its line feed.
        length: u64,
        /// The longest line allowed.
        limit: usize,
    },
    /// The stream itself failed.
    #[error("failed to read the agent's output: {0}")]
    Io(#[from] io::Error),
}

/// Reads a stream line by line: by default an agent's standard output.
#[derive(Debug)]
pub struct LineReader<R = pipe::Receiver> {
    source: R,
    limit: usize,
    /// Bytes of the current line and of those after it.
    buffer: BytesMut,
    /// Length of the prefix of `buffer` that contains no line feed.
    scanned: usize,
    /// Bytes of the current line that were discarded because it is too long.
    skipped: Option<u64>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// A reader with the default limit, [`MAX_LINE_BYTES`].
    pub fn new(source: R) -> Self {
        Self::with_limit(source, MAX_LINE_BYTES)
    }

    /// A reader with another limit.
    pub fn with_limit(source: R, limit: usize) -> Self {
        Self { source, limit, buffer: BytesMut::new(), scanned: 0, skipped: None, ended: false }
    }

    /// The next line without its line feed, or `None` at the end of the stream. A last line without a line feed counts.
    ///
    /// Cancel safe: bytes that were read stay for the next call.
    pub async fn next_line(&mut self) -> Result<Option<Bytes>, LineError> {
        loop {
            if let Some(line) = self.take_buffered_line() {
                return line.map(Some);
            }
            if self.ended {
                return self.take_last_line().transpose();
            }
            self.buffer.reserve(READ_CHUNK_BYTES);
            self.ended = self.source.read_buf(&mut self.buffer).await? == 0;
        }
    }

    fn take_buffered_line(&mut self) -> Option<Result<Bytes, LineError>> {
        let unseen = self.buffer.iter().skip(self.scanned);
        let Some(end) = unseen.copied().position(|byte| byte == b'\n') else {
            self.scanned = self.buffer.len();
            self.skip_if_too_long();
            return None;
        };
        let mut line = self.buffer.split_to(self.scanned + end + 1);
        line.truncate(line.len() - 1);
        self.scanned = 0;
        if self.buffer.capacity() > MAX_RETAINED_CAPACITY_BYTES {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Some(self.check_length(line))
    }

    fn take_last_line(&mut self) -> Option<Result<Bytes, LineError>> {
        let line = self.buffer.split();
        self.scanned = 0;
        if line.is_empty() && self.skipped.is_none() {
            return None;
        }
        Some(self.check_length(line))
    }

    fn skip_if_too_long(&mut self) {
        if self.skipped.is_some() || self.buffer.len() > self.limit {
            *self.skipped.get_or_insert(0) += self.buffer.len() as u64;
            self.buffer = BytesMut::new();
            self.scanned = 0;
        }
    }

    fn check_length(&mut self, line: BytesMut) -> Result<Bytes, LineError> {
        let skipped = self.skipped.take();
        if skipped.is_none() && line.len() <= self.limit {
            return Ok(line.freeze());
        }
        Err(LineError::TooLong { length: skipped.unwrap_or(0) + line.len() as u64, limit: self.limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers `chunks` one per read.
    fn reader(chunks: &[&[u8]], limit: usize) -> LineReader<impl AsyncRead + Unpin> {
        let last_first = chunks.iter().rev().map(|chunk| chunk.to_vec()).collect();
        LineReader::with_limit(Script(last_first), limit)
    }

    struct Script(Vec<Vec<u8>>);

    impl AsyncRead for Script {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            if let Some(chunk) = self.0.pop() {
                buf.put_slice(&chunk);
            }
            std::task::Poll::Ready(Ok(()))
        }
    }

    async fn all(mut reader: LineReader<impl AsyncRead + Unpin>) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            match reader.next_line().await {
                Ok(Some(line)) => seen.push(String::from_utf8(line.to_vec()).unwrap()),
                Ok(None) => return seen,
                Err(LineError::TooLong { length, .. }) => seen.push(format!("too long: {length}")),
                Err(LineError::Io(error)) => panic!("{error}"),
            }
        }
    }

    #[tokio::test]
    async fn chunk_boundaries_do_not_change_lines() {
        let text = "first\n\nzwölf 🐎\ntoo long for it\nend".as_bytes();
        let expected = ["first", "", "zwölf 🐎", "too long: 15", "end"];
        for a in 0..=text.len() {
            for b in a..=text.len() {
                let chunks: Vec<&[u8]> =
                    [&text[..a], &text[a..b], &text[b..]].into_iter().filter(|chunk| !chunk.is_empty()).collect();
                assert_eq!(all(reader(&chunks, 12)).await, expected, "split at {a} and {b}");
            }
        }
    }

    #[tokio::test]
    async fn line_of_exactly_the_limit_passes_and_one_byte_more_does_not() {
        assert_eq!(all(reader(&[b"12345\n123456\nok\n"], 5)).await, ["12345", "too long: 6", "ok"]);
    }

    #[tokio::test]
    async fn too_long_last_line_is_reported_before_the_end() {
        assert_eq!(all(reader(&[b"1234", b"5678"], 5)).await, ["too long: 8"]);
        assert_eq!(all(reader(&[b"a\n"], 5)).await, ["a"]);
        assert!(all(reader(&[], 5)).await.is_empty());
    }

    #[tokio::test]
    async fn skipped_line_is_not_buffered() {
        let chunk = vec![b'x'; READ_CHUNK_BYTES];
        let chunks: Vec<&[u8]> = std::iter::repeat_n(&chunk[..], 64).collect();
        let mut reader = reader(&chunks, 1000);
        assert!(matches!(
            reader.next_line().await,
            Err(LineError::TooLong { length, limit: 1000 }) if length == 64 * READ_CHUNK_BYTES as u64
        ));
        assert!(reader.buffer.capacity() <= 2 * READ_CHUNK_BYTES);
    }
}
