//! Encodes a text as a complete frame, header included, which any number of sockets can write unchanged.

use bytes::{Buf as _, Bytes};

use super::deflate;
use super::message_builder::{FRAGMENT_BYTES, MessageBuilder};

/// Messages below this size are sent uncompressed: they fit in one packet anyway.
const MIN_DEFLATE_BYTES: usize = 1024;

/// Messages above this size are sent uncompressed: deflating them would occupy a thread for too long.
const MAX_DEFLATE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum length of a frame header without mask.
pub(super) const MAX_HEADER_BYTES: usize = 10;

pub(super) const FIN: u8 = 0x80;
const RSV1: u8 = 0x40;
pub(super) const CONTINUATION: u8 = 0x0;
pub(super) const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

/// How frames are encoded on a connection. All connections with the same encoding can share a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FrameEncoding {
    /// Uncompressed.
    #[default]
    Plain,
    /// Deflated where that makes the frame smaller.
    Deflated,
}

impl FrameEncoding {
    /// Number of encodings.
    pub(crate) const COUNT: usize = 2;

    /// A number below [`FrameEncoding::COUNT`], for caches.
    pub(crate) fn cache_slot(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Deflated => 1,
        }
    }

    /// The encoding that a text of this length actually gets: most are sent uncompressed on every connection, so all
    /// connections can share them.
    pub(crate) fn for_length(self, length: usize) -> Self {
        if (MIN_DEFLATE_BYTES..=MAX_DEFLATE_BYTES).contains(&length) { self } else { Self::Plain }
    }

    /// The frame of a text message.
    pub(crate) fn frame(self, text: &[u8]) -> Bytes {
        if self.for_length(text.len()) == Self::Deflated
            && let Some(frame) = try_deflate(text)
        {
            return frame;
        }
        if text.len() > FRAGMENT_BYTES {
            let mut room = MessageBuilder::new();
            room.push(text);
            return room.finish(self);
        }
        let mut frame = Vec::with_capacity(MAX_HEADER_BYTES + text.len());
        write_header(&mut frame, FIN | TEXT, text.len());
        frame.extend_from_slice(text);
        frame.into()
    }
}

/// The text of an uncompressed message, for connections without a socket.
pub(crate) fn message_text(mut message: Bytes) -> Bytes {
    let mut whole = Vec::new();
    loop {
        let last = message.first().is_none_or(|first| first & FIN != 0);
        let (header, length) = match message.get(1) {
            Some(127) => (10, 8),
            Some(126) => (4, 2),
            _ => (2, 1),
        };
        let length = message.get(header - length..header).unwrap_or_default();
        let length = length.iter().fold(0_usize, |length, byte| (length << 8) | usize::from(*byte));
        message.advance(header.min(message.len()));
        if last && whole.is_empty() {
            return message;
        }
        let fragment = message.split_to(length.min(message.len()));
        whole.extend_from_slice(&fragment);
        if last {
            return whole.into();
        }
    }
}

/// The frame that ends a connection.
pub(crate) fn close_frame(code: u16, reason: &str) -> Bytes {
    let mut payload = code.to_be_bytes().to_vec();
    payload.extend_from_slice(reason.as_bytes());
    control_frame(CLOSE, &payload)
}

/// The answer to a close frame without a code.
pub(crate) fn close_frame_without_code() -> Bytes {
    control_frame(CLOSE, &[])
}

pub(crate) fn ping_frame() -> Bytes {
    control_frame(PING, &[])
}

pub(crate) fn pong_frame(payload: &[u8]) -> Bytes {
    control_frame(PONG, payload)
}

/// Control frames hold at most 125 bytes; longer payloads are truncated.
fn control_frame(opcode: u8, payload: &[u8]) -> Bytes {
    let payload = payload.get(..125).unwrap_or(payload);
    let mut frame = Vec::with_capacity(2 + payload.len());
    write_header(&mut frame, FIN | opcode, payload.len());
    frame.extend_from_slice(payload);
    frame.into()
}

/// `None` if the deflated frame would not be smaller.
pub(super) fn try_deflate(text: &[u8]) -> Option<Bytes> {
    // The header's length depends on the deflated size: reserve the maximum, then write the header at the end of that
    // space.
    let mut frame = vec![0; MAX_HEADER_BYTES];
    let complete = deflate::deflate(text, &mut frame);
    let length = frame.len().saturating_sub(MAX_HEADER_BYTES);
    if !complete || length >= text.len() {
        return None;
    }
    let mut header = Vec::with_capacity(MAX_HEADER_BYTES);
    write_header(&mut header, FIN | RSV1 | TEXT, length);
    let start = MAX_HEADER_BYTES - header.len();
    frame.get_mut(start..MAX_HEADER_BYTES)?.copy_from_slice(&header);
    Some(Bytes::from(frame).split_off(start))
}

pub(super) fn write_header(frame: &mut Vec<u8>, first: u8, length: usize) {
    frame.push(first);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length @ ..126), _) => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ws::test_frames::incompressible_bytes;

    #[test]
    fn the_header_is_minimal_and_the_text_round_trips() {
        for (length, header) in [
            (0, vec![0x81, 0]),
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 0xff, 0xff]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let message = vec![b'x'; length];
            let frame = FrameEncoding::Plain.frame(&message);
            assert!(frame.starts_with(&header), "{length}");
            assert_eq!(message_text(frame), message);
        }
        assert!(message_text(Bytes::new()).is_empty());
    }

    #[test]
    fn only_messages_that_become_smaller_are_deflated() {
        let (small, worthwhile, huge) = (vec![b'x'; 1023], vec![b'x'; 1024], vec![b'x'; MAX_DEFLATE_BYTES + 1]);
        assert_eq!(FrameEncoding::Deflated.frame(&small), FrameEncoding::Plain.frame(&small));
        assert_eq!(FrameEncoding::Deflated.frame(&huge), FrameEncoding::Plain.frame(&huge));
        let frame = FrameEncoding::Deflated.frame(&worthwhile);
        assert_eq!(frame[0], FIN | RSV1 | TEXT);
        assert_eq!(usize::from(frame[1]), frame.len() - 2);
        let noise = incompressible_bytes(2000);
        assert_eq!(FrameEncoding::Deflated.frame(&noise), FrameEncoding::Plain.frame(&noise));
    }

    #[test]
    fn a_close_frame_holds_its_code_and_reason() {
        assert_eq!(close_frame(1001, "bye"), &b"\x88\x05\x03\xe9bye"[..]);
        assert_eq!(close_frame_without_code(), &b"\x88\x00"[..]);
    }
}
