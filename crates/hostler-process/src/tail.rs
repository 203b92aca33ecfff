//! The last words of an agent: a bounded, redacted tail of its standard error.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::redact::Redactor;

/// What is shown at most.
const SHOWN: usize = 8 * 1024;

/// What is kept at most: more than is shown, because the first line is dropped when it may be cut.
const KEPT: usize = 4 * SHOWN;

const LINE_LEFT_OUT: &str = "[a very long line is left out]";

/// Collects standard error, forgetting its beginning.
#[derive(Debug)]
pub(crate) struct StderrTail {
    redactor: Redactor,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    cut: bool,
}

impl StderrTail {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor, kept: Mutex::default() }
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes.extend(bytes);
        let excess = kept.bytes.len().saturating_sub(KEPT);
        if excess > 0 {
            kept.bytes.drain(..excess);
            kept.cut = true;
        }
    }

    /// The last [`SHOWN`] bytes at most, in whole characters and without secrets.
    pub(crate) fn text(&self) -> String {
        let (bytes, cut) = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            (kept.bytes.iter().copied().collect::<Vec<u8>>(), kept.cut)
        };
        let text = String::from_utf8_lossy(&bytes);
        // The end may stand in the middle of a character whose rest is still in the pipe.
        let text = text.trim_end_matches('\u{FFFD}');
        let text = match (cut, text.split_once('\n')) {
            (false, _) => self.redactor.redact(text),
            // A line that has lost its beginning may hold a secret that nobody can recognise any more.
            (true, Some((_, whole_lines))) => self.redactor.redact(whole_lines),
            (true, None) => LINE_LEFT_OUT.to_owned(),
        };
        let start = text.ceil_char_boundary(text.len().saturating_sub(SHOWN));
        text.get(start..).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;

    fn tail(secrets: &[&str]) -> StderrTail {
        StderrTail::new(Redactor::new(secrets.iter().map(|s| SecretString::from(*s)).collect()))
    }

    #[test]
    fn short_text_is_shown_whole() {
        let tail = tail(&[]);
        tail.push(b"error: no such ");
        tail.push(b"model\n");
        assert_eq!(tail.text(), "error: no such model\n");
    }

    #[test]
    fn the_tail_is_bounded_ends_with_the_newest_text_and_holds_whole_characters() {
        let tail = tail(&[]);
        for number in 0..5000 {
            tail.push(format!("ünï {number} 🐎\n").as_bytes());
        }
        let text = tail.text();
        assert!(text.len() <= SHOWN && text.len() > SHOWN - 8, "{}", text.len());
        assert!(text.ends_with("ünï 4999 🐎\n"));
        assert!(!text.contains('\u{FFFD}'));
        assert!(tail.kept.lock().unwrap().bytes.len() <= KEPT);
    }

    #[test]
    fn a_character_that_has_half_arrived_is_not_shown() {
        let tail = tail(&[]);
        tail.push(b"end \xF0\x9F\x90");
        assert_eq!(tail.text(), "end ");
        tail.push(b"\x8E");
        assert_eq!(tail.text(), "end 🐎");
    }

    #[test]
    fn a_secret_is_gone_wherever_the_tail_was_cut_and_however_it_arrived() {
        let secret = "correct-horse-battery-staple";
        for padding in KEPT - 40..KEPT + 40 {
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
    fn one_endless_line_is_left_out_rather_than_shown_from_its_middle() {
        let tail = tail(&[]);
        tail.push(&vec![b'x'; KEPT + 1]);
        assert_eq!(tail.text(), LINE_LEFT_OUT);
    }
}
