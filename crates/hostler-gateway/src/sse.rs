//! Incremental codec for server-sent events.
//!
//! The gateway forwards bytes; it only needs to know where events end (so that it never forwards half of one before an
//! error event) and which events contain token counts. This module does not know the Messages API.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use memchr::memchr2_iter;

/// Maximum size of an event; a longer one fails the stream.
pub(crate) const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// Encodes an event with a name and a single line of data.
#[must_use]
pub fn encode_event(name: &str, data: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(name.len() + data.len() + 16);
    frame.extend_from_slice(b"event: ");
    frame.extend_from_slice(name.as_bytes());
    frame.extend_from_slice(b"\ndata: ");
    frame.extend_from_slice(data);
    frame.extend_from_slice(b"\n\n");
    frame.freeze()
}

/// An event exceeded the maximum size without ending.
#[derive(Debug, thiserror::Error)]
#[error("one event of the stream is larger than {MAX_EVENT_BYTES} bytes")]
pub struct SseEventTooLarge;

/// Splits a byte stream, in any chunking, at the ends of its events.
#[derive(Debug, Default)]
pub struct SseEventSplitter {
    /// Start of an event whose end has not arrived yet.
    incomplete: BytesMut,
    blank_lines: BlankLines,
    /// Ends of the events in the current chunk; a field to reuse its memory.
    ends: Vec<usize>,
}

impl SseEventSplitter {
    /// Takes the next chunk and returns all bytes that now form complete events, passing each event to `see`.
    ///
    /// The returned bytes, concatenated, equal the bytes taken, up to the end of the last event. A chunk of complete
    /// events is returned without a copy.
    ///
    /// # Errors
    /// If an event is larger than 32 MiB.
    pub fn push(&mut self, chunk: Bytes, mut see: impl FnMut(SseEvent<'_>)) -> Result<Bytes, SseEventTooLarge> {
        self.ends.clear();
        self.blank_lines.find_ends(&chunk, &mut self.ends);
        let Some(&last) = self.ends.last() else {
            if self.incomplete.len() + chunk.len() > MAX_EVENT_BYTES {
                return Err(SseEventTooLarge);
            }
            self.incomplete.extend_from_slice(&chunk);
            return Ok(Bytes::new());
        };

        let before = self.incomplete.len();
        let whole = if before == 0 {
            chunk.slice(..last)
        } else {
            self.incomplete.extend_from_slice(&chunk.slice(..last));
            self.incomplete.split().freeze()
        };
        self.incomplete.extend_from_slice(&chunk.slice(last..));

        let mut start = 0;
        for end in &self.ends {
            let end = before + end;
            see(SseEvent { raw: whole.get(start..end).unwrap_or_default() });
            start = end;
        }
        Ok(whole)
    }
}

/// Finds the ends of blank lines, across chunks. Lines end in LF, CR LF or CR.
#[derive(Debug, Default)]
struct BlankLines {
    line_has_bytes: bool,
    after_cr: bool,
}

impl BlankLines {
    fn find_ends(&mut self, chunk: &[u8], ends: &mut Vec<usize>) {
        let mut line_start = 0;
        for at in memchr2_iter(b'\n', b'\r', chunk) {
            self.add_to_line(at - line_start);
            line_start = at + 1;
            let is_cr = chunk.get(at) == Some(&b'\r');
            if self.after_cr && !is_cr {
                self.after_cr = false;
                // The LF of a CR LF belongs to the event that its CR ended.
                if let Some(end) = ends.last_mut().filter(|end| **end == at) {
                    *end += 1;
                }
                continue;
            }
            self.after_cr = is_cr;
            if !self.line_has_bytes {
                ends.push(at + 1);
            }
            self.line_has_bytes = false;
        }
        self.add_to_line(chunk.len() - line_start);
    }

    fn add_to_line(&mut self, bytes: usize) {
        if bytes > 0 {
            (self.line_has_bytes, self.after_cr) = (true, false);
        }
    }
}

/// A complete event; fields are parsed on demand.
#[derive(Debug, Clone, Copy)]
pub struct SseEvent<'a> {
    raw: &'a [u8],
}

impl<'a> SseEvent<'a> {
    /// Length in bytes, including its end.
    pub(crate) fn len(self) -> usize {
        self.raw.len()
    }

    /// The value of the `event` field; `None` for comments, blank lines and unnamed events.
    pub(crate) fn name(self) -> Option<&'a [u8]> {
        self.fields(b"event").next()
    }

    /// The value of the `data` field; several `data` lines are joined by line breaks.
    #[must_use]
    pub fn data(self) -> Cow<'a, [u8]> {
        let mut lines = self.fields(b"data");
        let first = lines.next().unwrap_or_default();
        let Some(second) = lines.next() else { return Cow::Borrowed(first) };
        Cow::Owned([first, second].into_iter().chain(lines).collect::<Vec<_>>().join(&b'\n'))
    }

    fn fields(self, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut line_start = 0;
        let line_ends = memchr2_iter(b'\n', b'\r', self.raw).chain(std::iter::once(self.raw.len()));
        line_ends.filter_map(move |end| {
            let line = self.raw.get(line_start..end)?;
            line_start = end + 1;
            let rest = line.strip_prefix(name)?.strip_prefix(b":")?;
            Some(rest.strip_prefix(b" ").unwrap_or(rest))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Seen = Vec<(Option<Vec<u8>>, Vec<u8>)>;

    /// Feeds the chunks; returns the forwarded bytes and the events.
    fn split<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Seen) {
        let mut splitter = SseEventSplitter::default();
        let (mut passed, mut seen) = (Vec::new(), Seen::new());
        for chunk in chunks {
            let whole = splitter
                .push(Bytes::copy_from_slice(chunk), |event| {
                    seen.push((event.name().map(<[u8]>::to_vec), event.data().into_owned()));
                })
                .unwrap();
            passed.extend_from_slice(&whole);
        }
        (passed, seen)
    }

    fn named(seen: &Seen) -> Vec<(&[u8], &[u8])> {
        seen.iter().filter_map(|(name, data)| Some((name.as_deref()?, data.as_slice()))).collect()
    }

    #[test]
    fn an_encoded_event_is_decoded_unchanged() {
        let bytes = encode_event("message_stop", b"{\"type\":\"message_stop\"}");
        let (passed, seen) = split([bytes.as_ref()]);
        assert_eq!(passed, bytes);
        assert_eq!(named(&seen), [(&b"message_stop"[..], &b"{\"type\":\"message_stop\"}"[..])]);
    }

    #[test]
    fn all_line_endings_and_field_forms_are_parsed() {
        for text in [
            "event: a\ndata: 1\ndata:2\nid: 7\n\n",
            "event: a\r\ndata: 1\r\ndata:2\r\nid: 7\r\n\r\n",
            "event: a\rdata: 1\rdata:2\rid: 7\r\r",
            ": a comment\nevent:a\ndata:1\ndata: 2\n\n",
        ] {
            let (passed, seen) = split([text.as_bytes()]);
            assert_eq!(passed, text.as_bytes());
            assert_eq!(named(&seen), [(&b"a"[..], &b"1\n2"[..])], "{text:?}");
        }
    }

    #[test]
    fn an_incomplete_event_is_not_returned() {
        let (passed, seen) = split([&b"event: a\ndata: 1\n\nevent: b\ndata: 2\n"[..]]);
        assert_eq!(passed, b"event: a\ndata: 1\n\n");
        assert_eq!(named(&seen), [(&b"a"[..], &b"1"[..])]);
    }

    #[test]
    fn an_event_over_the_maximum_size_is_an_error() {
        let mut splitter = SseEventSplitter::default();
        let chunk = Bytes::from(vec![b'x'; MAX_EVENT_BYTES]);
        assert!(splitter.push(chunk, |_| ()).is_ok());
        assert!(splitter.push(Bytes::from_static(b"x"), |_| ()).is_err());
    }

    fn events() -> impl Strategy<Value = Vec<u8>> {
        let ending = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
        let event = ("[a-z_]{1,12}", "[ -~äß]{0,40}", ending)
            .prop_map(|(name, data, end)| format!("event: {name}{end}data: {data}{end}{end}"));
        prop::collection::vec(event, 0..5).prop_map(|all| all.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn every_split_gives_equal_events_and_bytes(bytes in events()) {
            let (_, expected) = split([bytes.as_slice()]);
            for at in 0..=bytes.len() {
                let (left, right) = bytes.split_at(at);
                let (passed, seen) = split([left, right]);
                prop_assert_eq!(named(&seen), named(&expected));
                // A CR at the end already ends the event, so an LF after it may still be pending.
                prop_assert!(bytes.starts_with(&passed) && bytes.len() - passed.len() <= 1);
            }
            let (_, one_by_one) = split(bytes.chunks(1));
            prop_assert_eq!(named(&one_by_one), named(&expected));
        }

        #[test]
        fn any_bytes_are_returned_unchanged_up_to_the_last_event_end(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let all = chunks.concat();
            let (passed, _) = split(chunks.iter().map(Vec::as_slice));
            prop_assert!(all.starts_with(&passed));
        }
    }
}
