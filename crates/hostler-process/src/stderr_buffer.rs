//! A bounded, redacted tail of an agent's standard error.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::redact::Redactor;

/// The most that is displayed.
const MAX_TAIL_BYTES: usize = 8 * 1024;

/// The most that is buffered: more than is displayed, because a first line that may be truncated is dropped.
const MAX_BUFFERED_BYTES: usize = 4 * MAX_TAIL_BYTES;

const LONG_LINE_PLACEHOLDER: &str = "[long line omitted]";

/// Collects standard error and discards its beginning.
#[derive(Debug)]
pub(crate) struct StderrBuffer {
    redactor: Redactor,
    buffer: Mutex<BufferedBytes>,
}

#[derive(Debug, Default)]
struct BufferedBytes {
    bytes: VecDeque<u8>,
    is_truncated: bool,
}

impl StderrBuffer {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor, buffer: Mutex::default() }
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.bytes.extend(bytes);
        let excess = buffer.bytes.len().saturating_sub(MAX_BUFFERED_BYTES);
        if excess > 0 {
            buffer.bytes.drain(..excess);
            buffer.is_truncated = true;
        }
    }

    /// At most the last [`MAX_TAIL_BYTES`] bytes, in whole characters and redacted.
    pub(crate) fn text(&self) -> String {
        let (bytes, cut) = {
            let buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
            (buffer.bytes.iter().copied().collect::<Vec<u8>>(), buffer.is_truncated)
        };
        let text = String::from_utf8_lossy(&bytes);
        // The end may be inside a character whose rest is still in the pipe.
        let text = text.trim_end_matches('\u{FFFD}');
        let text = match (cut, text.split_once('\n')) {
            (false, _) => self.redactor.redact(text),
            // A line without its beginning may contain a secret that can no longer be recognized.
            (true, Some((_, whole_lines))) => self.redactor.redact(whole_lines),
            (true, None) => LONG_LINE_PLACEHOLDER.to_owned(),
        };
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL_BYTES));
        text.get(start..).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;

    fn tail(secrets: &[&str]) -> StderrBuffer {
        StderrBuffer::new(Redactor::new(secrets.iter().map(|s| SecretString::from(*s)).collect()))
    }

    #[test]
    fn short_text_is_complete() {
        let tail = tail(&[]);
        tail.push(b"error: no such ");
        tail.push(b"model\n");
        assert_eq!(tail.text(), "error: no such model\n");
    }

    #[test]
    fn tail_is_bounded_and_ends_with_the_newest_whole_characters() {
        let tail = tail(&[]);
        for number in 0..5000 {
            tail.push(format!("ünï {number} 🐎\n").as_bytes());
        }
        let text = tail.text();
        assert!(text.len() <= MAX_TAIL_BYTES && text.len() > MAX_TAIL_BYTES - 8, "{}", text.len());
        assert!(text.ends_with("ünï 4999 🐎\n"));
        assert!(!text.contains('\u{FFFD}'));
        assert!(tail.buffer.lock().unwrap().bytes.len() <= MAX_BUFFERED_BYTES);
    }

    #[test]
    fn incomplete_character_at_the_end_is_omitted() {
        let tail = tail(&[]);
        tail.push(b"end \xF0\x9F\x90");
        assert_eq!(tail.text(), "end ");
        tail.push(b"\x8E");
        assert_eq!(tail.text(), "end 🐎");
    }

    #[test]
    fn secrets_are_redacted_at_every_cut_and_chunk_boundary() {
        let secret = "correct-horse-battery-staple";
        for padding in MAX_BUFFERED_BYTES - 40..MAX_BUFFERED_BYTES + 40 {
            let tail = tail(&[secret]);
            tail.push(b"key: correct-horse-");
            tail.push(b"battery-staple done\n");
            tail.push(&vec![b'x'; padding - 1]);
            tail.push(b"\nend");
            let text = tail.text();
            for part in ["correct", "horse", "battery", "staple"] {
                assert!(!text.contains(part), "{part} shown with {padding} bytes after it");
            }
            assert!(text.ends_with("end"));
        }
    }

    #[test]
    fn line_without_its_beginning_is_omitted() {
        let tail = tail(&[]);
        tail.push(&vec![b'x'; MAX_BUFFERED_BYTES + 1]);
        assert_eq!(tail.text(), LONG_LINE_PLACEHOLDER);
    }
}
