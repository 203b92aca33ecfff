//! Builds a message from text that is written in pieces. The headers are written in front of the fragments, so nothing
//! is copied at the end. Many clients refuse frames above 16 MiB but accept longer messages in several frames.

use bytes::{Buf as _, Bytes};

use super::encoding::{CONTINUATION, FIN, FrameEncoding, MAX_HEADER_BYTES, TEXT, try_deflate, write_header};

/// Length of every fragment except the last one.
pub(crate) const FRAGMENT_BYTES: usize = 4 * 1024 * 1024;

/// A message that is being written.
pub(crate) struct MessageBuilder {
    bytes: Vec<u8>,
    /// Start of the space for the current fragment's header.
    fragment_start: usize,
}

/// A position to rewind to.
#[derive(Clone, Copy)]
pub(crate) struct MessageMark {
    length: usize,
    fragment_start: usize,
}

impl MessageBuilder {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; MAX_HEADER_BYTES], fragment_start: 0 }
    }

    pub(crate) fn push(&mut self, mut text: &[u8]) {
        loop {
            let left = FRAGMENT_BYTES.saturating_sub(self.fragment_len());
            match text.split_at_checked(left) {
                // A fragment ends when more text follows.
                Some((now, later)) if !later.is_empty() => {
                    self.bytes.extend_from_slice(now);
                    self.end_fragment();
                    text = later;
                }
                _ => return self.bytes.extend_from_slice(text),
            }
        }
    }

    /// Pushes what `write` appends to the vector. It must not change the bytes before.
    pub(crate) fn push_with<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let written = write(&mut self.bytes);
        if self.fragment_len() > FRAGMENT_BYTES {
            let later = self.bytes.split_off(self.fragment_start + MAX_HEADER_BYTES + FRAGMENT_BYTES);
            self.push(&later);
        }
        written
    }

    /// Removes the last byte.
    pub(crate) fn pop(&mut self) {
        if self.fragment_len() > 0 {
            self.bytes.pop();
        }
    }

    pub(crate) fn mark(&self) -> MessageMark {
        MessageMark { length: self.bytes.len(), fragment_start: self.fragment_start }
    }

    /// Removes everything since a mark.
    pub(crate) fn rewind(&mut self, mark: MessageMark) {
        self.bytes.truncate(mark.length);
        self.fragment_start = mark.fragment_start;
    }

    /// The length of the current fragment's text.
    fn fragment_len(&self) -> usize {
        self.bytes.len().saturating_sub(self.fragment_start + MAX_HEADER_BYTES)
    }

    /// The first byte of the current fragment's header, without `FIN`.
    fn opcode(&self) -> u8 {
        if self.fragment_start == 0 { TEXT } else { CONTINUATION }
    }

    fn end_fragment(&mut self) {
        let mut header = Vec::with_capacity(MAX_HEADER_BYTES);
        write_header(&mut header, self.opcode(), self.fragment_len());
        // A full fragment is long enough that its header has the maximum length.
        if let Some(place) = self.bytes.get_mut(self.fragment_start..self.fragment_start + header.len()) {
            place.copy_from_slice(&header);
        }
        self.fragment_start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; MAX_HEADER_BYTES]);
    }

    /// The finished message.
    pub(crate) fn finish(mut self, encoding: FrameEncoding) -> Bytes {
        let first = self.fragment_start + MAX_HEADER_BYTES;
        let text = self.bytes.get(first..).unwrap_or_default();
        if self.fragment_start == 0
            && encoding.for_length(text.len()) == FrameEncoding::Deflated
            && let Some(frame) = try_deflate(text)
        {
            return frame;
        }
        let mut header = Vec::with_capacity(MAX_HEADER_BYTES);
        write_header(&mut header, FIN | self.opcode(), text.len());
        let spare = MAX_HEADER_BYTES.saturating_sub(header.len());
        if self.fragment_start == 0 {
            if let Some(place) = self.bytes.get_mut(spare..MAX_HEADER_BYTES) {
                place.copy_from_slice(&header);
            }
            let mut frame = Bytes::from(self.bytes);
            frame.advance(spare);
            return frame;
        }
        // A shorter header leaves a gap, which is removed.
        self.bytes.splice(self.fragment_start..first, header);
        Bytes::from(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ws::encoding::message_text;

    fn message(length: usize) -> Vec<u8> {
        (0..length).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect()
    }

    #[test]
    fn the_message_does_not_depend_on_the_pieces_written() {
        for length in [
            0,
            1,
            125,
            126,
            1024,
            65_535,
            65_536,
            FRAGMENT_BYTES,
            FRAGMENT_BYTES + 1,
            2 * FRAGMENT_BYTES + 70_000,
            3 * FRAGMENT_BYTES,
        ] {
            let message = message(length);
            let mut room = MessageBuilder::new();
            message.chunks(777_777).for_each(|piece| room.push(piece));
            let frame = room.finish(FrameEncoding::Plain);
            assert_eq!(frame, FrameEncoding::Plain.frame(&message), "{length}");
            assert_eq!(message_text(frame), message, "{length}");
        }
    }

    #[test]
    fn appended_text_of_any_length_is_fragmented_like_pushed_text() {
        for (before, length) in [(0, 10), (10, FRAGMENT_BYTES - 10), (10, FRAGMENT_BYTES), (7, 3 * FRAGMENT_BYTES)] {
            let message = message(before + length + 3);
            let (first, rest) = message.split_at(before);
            let (second, third) = rest.split_at(length);
            let mut room = MessageBuilder::new();
            room.push(first);
            let appended = room.push_with(|bytes| {
                bytes.extend_from_slice(second);
                Ok::<(), ()>(())
            });
            assert_eq!(appended, Ok(()));
            room.push(third);
            assert_eq!(room.finish(FrameEncoding::Plain), FrameEncoding::Plain.frame(&message), "{length}");
        }
    }

    #[test]
    fn fragments_have_headers_and_a_maximum_length() {
        let frame = FrameEncoding::Plain.frame(&message(2 * FRAGMENT_BYTES + 5));
        let length = (FRAGMENT_BYTES as u64).to_be_bytes();
        assert_eq!(frame[..2], [TEXT, 127]);
        assert_eq!(frame[2..10], length);
        let second = &frame[MAX_HEADER_BYTES + FRAGMENT_BYTES..];
        assert_eq!(second[..2], [CONTINUATION, 127]);
        let last = &second[MAX_HEADER_BYTES + FRAGMENT_BYTES..];
        assert_eq!((last[0], last[1], last.len()), (FIN | CONTINUATION, 5, 7));
        let whole = FrameEncoding::Plain.frame(&message(FRAGMENT_BYTES));
        assert_eq!(whole[0], FIN | TEXT, "there is no empty fragment");
    }

    #[test]
    fn rewound_text_is_not_in_the_message() {
        for before in [10, FRAGMENT_BYTES - 1, FRAGMENT_BYTES, FRAGMENT_BYTES + 10] {
            let message = message(before + 3);
            let mut room = MessageBuilder::new();
            room.push(&message[..before]);
            let mark = room.mark();
            room.push(&vec![b'!'; 2 * FRAGMENT_BYTES]);
            room.rewind(mark);
            room.push(b"?");
            room.pop();
            room.push(&message[before..]);
            assert_eq!(room.finish(FrameEncoding::Plain), FrameEncoding::Plain.frame(&message), "{before}");
        }
    }

    #[test]
    fn only_a_message_of_one_frame_is_deflated() {
        let (short, long) = (vec![b'x'; 2_000], vec![b'x'; FRAGMENT_BYTES + 1]);
        for message in [short, long] {
            let mut room = MessageBuilder::new();
            room.push(&message);
            assert_eq!(room.finish(FrameEncoding::Deflated), FrameEncoding::Deflated.frame(&message));
        }
    }
}
