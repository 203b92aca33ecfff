//! A small incremental codec for server-sent events.
//!
//! The gateway passes bytes through; it only needs to know where events end (so that it never forwards half of one
//! before an error event) and which events hold token counts. Knows nothing of the Messages API.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

/// The most that one event may hold before its end; a stream beyond it is not an event stream that we serve.
pub(crate) const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// One event as bytes: a name and a single line of data.
pub(crate) fn encode_event(name: &str, data: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(name.len() + data.len() + 16);
    frame.extend_from_slice(b"event: ");
    frame.extend_from_slice(name.as_bytes());
    frame.extend_from_slice(b"\ndata: ");
    frame.extend_from_slice(data);
    frame.extend_from_slice(b"\n\n");
    frame.freeze()
}

/// An event grew beyond [`MAX_EVENT_BYTES`] without ending.
#[derive(Debug, thiserror::Error)]
#[error("one event of the stream is larger than {MAX_EVENT_BYTES} bytes")]
pub(crate) struct SseEventTooLarge;

/// Cuts a byte stream, however it is chunked, at the ends of its events.
#[derive(Debug, Default)]
pub(crate) struct SseEventSplitter {
    /// The beginning of an event whose end has not come yet.
    incomplete: BytesMut,
    blank_lines: BlankLines,
    /// Ends of the events found in the current chunk; kept to reuse its memory.
    ends: Vec<usize>,
}

impl SseEventSplitter {
    /// Takes the next chunk and gives back all bytes that now form whole events, showing each to `see`.
    ///
    /// The bytes given back, one after the other, are exactly the bytes taken, up to the last event end.
    /// A chunk of whole events is given back without a copy.
    pub(crate) fn push(&mut self, chunk: Bytes, mut see: impl FnMut(SseEvent<'_>)) -> Result<Bytes, SseEventTooLarge> {
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

/// Finds the ends of blank lines; remembers across chunks what the last bytes were. Lines end in LF, CR LF or CR.
#[derive(Debug, Default)]
struct BlankLines {
    line_has_bytes: bool,
    after_cr: bool,
}

impl BlankLines {
    fn find_ends(&mut self, chunk: &[u8], ends: &mut Vec<usize>) {
        for (at, &byte) in chunk.iter().enumerate() {
            match byte {
                b'\n' if self.after_cr => {
                    self.after_cr = false;
                    // The LF of a CR LF belongs to the event that its CR ended.
                    if let Some(end) = ends.last_mut().filter(|end| **end == at) {
                        *end += 1;
                    }
                }
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    if !self.line_has_bytes {
                        ends.push(at + 1);
                    }
                    self.line_has_bytes = false;
                }
                _ => {
                    self.after_cr = false;
                    self.line_has_bytes = true;
                }
            }
        }
    }
}

/// A whole event, fields unparsed until asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SseEvent<'a> {
    raw: &'a [u8],
}

impl<'a> SseEvent<'a> {
    /// How many bytes it takes, its end included.
    pub(crate) fn len(self) -> usize {
        self.raw.len()
    }

    /// The value of the `event` field; nothing for comments, blank lines and unnamed events.
    pub(crate) fn name(self) -> Option<&'a [u8]> {
        self.fields(b"event").next()
    }

    /// The value of the `data` field; several `data` lines are one value with line breaks in it.
    pub(crate) fn data(self) -> Cow<'a, [u8]> {
        let mut lines = self.fields(b"data");
        let first = lines.next().unwrap_or_default();
        let rest: Vec<&[u8]> = lines.collect();
        if rest.is_empty() {
            return Cow::Borrowed(first);
        }
        let mut all = vec![first];
        all.extend(rest);
        Cow::Owned(all.join(&b'\n'))
    }

    fn fields(self, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.raw.split(|byte| matches!(byte, b'\n' | b'\r')).filter_map(move |line| {
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

    /// Feeds the chunks; gives back the bytes passed on and the events seen.
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
    fn a_frame_is_read_back_as_it_was_written() {
        let bytes = encode_event("message_stop", b"{\"type\":\"message_stop\"}");
        let (passed, seen) = split([bytes.as_ref()]);
        assert_eq!(passed, bytes);
        assert_eq!(named(&seen), [(&b"message_stop"[..], &b"{\"type\":\"message_stop\"}"[..])]);
    }

    #[test]
    fn the_three_line_endings_and_all_field_forms_are_read() {
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
    fn half_an_event_is_held_back() {
        let (passed, seen) = split([&b"event: a\ndata: 1\n\nevent: b\ndata: 2\n"[..]]);
        assert_eq!(passed, b"event: a\ndata: 1\n\n");
        assert_eq!(named(&seen), [(&b"a"[..], &b"1"[..])]);
    }

    #[test]
    fn an_event_without_an_end_is_refused_before_it_fills_the_memory() {
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
        fn every_split_gives_the_same_events_and_the_same_bytes(bytes in events()) {
            let (_, expected) = split([bytes.as_slice()]);
            for at in 0..=bytes.len() {
                let (left, right) = bytes.split_at(at);
                let (passed, seen) = split([left, right]);
                prop_assert_eq!(named(&seen), named(&expected));
                // A CR at the very end already ends the event, so an LF that follows may still be held.
                prop_assert!(bytes.starts_with(&passed) && bytes.len() - passed.len() <= 1);
            }
            let (_, one_by_one) = split(bytes.chunks(1));
            prop_assert_eq!(named(&one_by_one), named(&expected));
        }

        #[test]
        fn any_bytes_pass_unchanged_up_to_the_last_event_end(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let all = chunks.concat();
            let (passed, _) = split(chunks.iter().map(Vec::as_slice));
            prop_assert!(all.starts_with(&passed));
        }
    }
}
