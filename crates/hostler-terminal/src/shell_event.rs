//! Parses shell events: `ESC ] 633 ; KIND ; NONCE [; VALUE] BEL`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use crate::ShellNonce;

const SEQUENCE_START: &[u8] = b"\x1b]633;";
const SEQUENCE_END: u8 = 0x07;

/// Maximum length of an event. The scripts truncate command lines far below it.
const MAX_SEQUENCE_BYTES: usize = 64 * 1024;

/// An event that a shell reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellEvent {
    /// A prompt is about to be displayed: the shell has loaded the integration and reports commands.
    PromptShown,
    /// A command starts. Empty if the shell does not know the command line, or must not record it.
    CommandStarted(String),
    /// The command has ended, with this exit code.
    CommandFinished(Option<i32>),
    /// The shell's working directory.
    DirectoryChanged(PathBuf),
}

/// Whether the bytes so far are a shell event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SequenceMatch {
    /// They can still become one.
    Partial,
    /// They are a complete event.
    Complete,
    /// They are something else.
    Mismatch,
}

/// Checks the newest byte of a candidate; the bytes before it have been checked.
pub(crate) fn match_sequence(candidate: &[u8], nonce: &ShellNonce) -> SequenceMatch {
    let Some((&newest, before)) = candidate.split_last() else { return SequenceMatch::Mismatch };
    let (kind, nonce) = (SEQUENCE_START.len(), nonce.expose().as_bytes());
    let first = kind + 2;
    let good = match before.len() {
        at if at < kind => SEQUENCE_START.get(at) == Some(&newest),
        at if at == kind => b"ACDP".contains(&newest),
        at if at < first => newest == b';',
        at if at < first + nonce.len() => nonce.get(at - first) == Some(&newest),
        _ if newest == SEQUENCE_END => return SequenceMatch::Complete,
        at if at == first + nonce.len() => newest == b';',
        at => at < MAX_SEQUENCE_BYTES && newest >= b' ' && newest != 0x7f,
    };
    if good { SequenceMatch::Partial } else { SequenceMatch::Mismatch }
}

/// Parses a complete event; `None` if it is malformed.
pub(crate) fn parse_sequence(mark: &[u8], nonce: &ShellNonce) -> Option<ShellEvent> {
    let rest = mark.strip_prefix(SEQUENCE_START)?.strip_suffix(&[SEQUENCE_END])?;
    let (kind, rest) = rest.split_first()?;
    let value = rest.get(1 + nonce.expose().len()..)?;
    let value = unescape(value.strip_prefix(b";").unwrap_or(value));
    Some(match kind {
        b'A' => ShellEvent::PromptShown,
        b'C' => ShellEvent::CommandStarted(String::from_utf8_lossy(&value).into_owned()),
        b'D' => ShellEvent::CommandFinished(std::str::from_utf8(&value).ok().and_then(|code| code.parse().ok())),
        b'P' => {
            let path = value.strip_prefix(b"Cwd=").filter(|path| path.starts_with(b"/"))?;
            ShellEvent::DirectoryChanged(PathBuf::from(OsString::from_vec(path.to_vec())))
        }
        _ => return None,
    })
}

/// Decodes `\\` to a backslash and `\xHH` to a byte; other backslashes are unchanged.
fn unescape(value: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let hex = |high: u8, low: u8| Some(digit(high)? << 4 | digit(low)?);
        match (byte, after) {
            (b'\\', [b'\\', after @ ..]) => {
                plain.push(b'\\');
                rest = after;
            }
            (b'\\', [b'x', high, low, after @ ..]) if hex(*high, *low).is_some() => {
                plain.extend(hex(*high, *low));
                rest = after;
            }
            _ => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expected: Option<ShellEvent>) {
        let nonce = ShellNonce::fixed("n0");
        let mark = format!("\x1b]633;{value}\x07").into_bytes();
        for end in 1..mark.len() {
            assert_eq!(match_sequence(&mark[..end], &nonce), SequenceMatch::Partial, "{value} at {end}");
        }
        assert_eq!(match_sequence(&mark, &nonce), SequenceMatch::Complete, "{value}");
        assert_eq!(parse_sequence(&mark, &nonce), expected, "{value}");
    }

    #[test]
    fn events_of_every_kind_are_parsed() {
        check("A;n0", Some(ShellEvent::PromptShown));
        check(r"C;n0;echo a\x3b b\\n \x0aü", Some(ShellEvent::CommandStarted("echo a; b\\n \nü".into())));
        check("C;n0;a;b", Some(ShellEvent::CommandStarted("a;b".into())));
        check("C;n0;", Some(ShellEvent::CommandStarted(String::new())));
        check(r"C;n0;\xzz \x+1 \", Some(ShellEvent::CommandStarted(r"\xzz \x+1 \".into())));
        check("D;n0;130", Some(ShellEvent::CommandFinished(Some(130))));
        check("D;n0", Some(ShellEvent::CommandFinished(None)));
        check("D;n0;many", Some(ShellEvent::CommandFinished(None)));
        check("P;n0;Cwd=/a b/ü", Some(ShellEvent::DirectoryChanged("/a b/ü".into())));
        check("P;n0;Cwd=relative", None);
        check("P;n0;Other=1", None);
    }

    #[test]
    fn other_sequences_mismatch_at_their_first_wrong_byte() {
        let nonce = ShellNonce::fixed("n0");
        for (wrong, at) in [
            ("\x1b]0", 2),
            ("\x1b[", 1),
            ("\x1b]633;B", 6),
            ("\x1b]633;A\x07", 7),
            ("\x1b]633;A;n1", 9),
            ("\x1b]633;A;n0x", 10),
            ("\x1b]633;C;n0;a\n", 12),
            ("\x1b]633;C;n0;\x1b", 11),
        ] {
            let bytes = wrong.as_bytes();
            assert_eq!(bytes.len(), at + 1, "{wrong:?}");
            assert_eq!(match_sequence(bytes, &nonce), SequenceMatch::Mismatch, "{wrong:?}");
        }
        let endless = [b"\x1b]633;C;n0;".as_slice(), &vec![b'a'; MAX_SEQUENCE_BYTES]].concat();
        assert_eq!(match_sequence(&endless, &nonce), SequenceMatch::Mismatch);
    }
}
