//! Tests of the decoder with whole, split and invalid frames.

use proptest::prelude::*;

use super::*;
use crate::ws::deflate::deflate;
use crate::ws::test_frames::{MASK, client_frame};

const LIMIT: usize = 4096;

fn deflated(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(deflate(message, &mut bytes));
    bytes
}

/// Feeds the pieces one after the other; returns the events until the end or the error.
fn decode<'a>(
    encoding: FrameEncoding,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<FrameEvent>, Result<(), ProtocolError>) {
    let mut decoder = FrameDecoder::new(encoding, LIMIT, Bytes::new());
    let mut events = Vec::new();
    for piece in pieces {
        decoder.read_buffer().extend_from_slice(piece);
        loop {
            match decoder.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
    }
    (events, Ok(()))
}

fn text(text: &str) -> FrameEvent {
    FrameEvent::Text(text.to_owned())
}

/// A sequence with every kind of frame, and its events.
fn conversation() -> (Vec<u8>, Vec<FrameEvent>) {
    let long = "ü".repeat(1000);
    let squeezed = deflated("squeezed ".repeat(50).as_bytes());
    let (head, tail) = squeezed.split_at(3);
    let frames = [
        client_frame(0x81, b"one"),
        client_frame(0x81, b""),
        client_frame(0x82, b"binary"),
        client_frame(0x01, &long.as_bytes()[..701]),
        client_frame(0x89, b"are you there"),
        client_frame(0x00, b""),
        client_frame(0x8a, b""),
        client_frame(0x80, &long.as_bytes()[701..]),
        client_frame(0x41, head),
        client_frame(0x80, tail),
        client_frame(0xc1, &deflated(b"alone")),
        client_frame(0x88, b"\x03\xe8bye"),
    ];
    let events = vec![
        text("one"),
        text(""),
        text("binary"),
        FrameEvent::Ping(Bytes::from_static(b"are you there")),
        FrameEvent::Pong,
        text(&long),
        text(&"squeezed ".repeat(50)),
        text("alone"),
        FrameEvent::Close(Some(1000)),
    ];
    (frames.concat(), events)
}

#[test]
fn frames_decode_the_same_with_any_split() {
    let (bytes, events) = conversation();
    assert_eq!(decode(FrameEncoding::Deflated, [bytes.as_slice()]), (conversation().1, Ok(())));
    for at in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(decode(FrameEncoding::Deflated, [head, tail]).0, events, "split at {at}");
    }
    assert_eq!(decode(FrameEncoding::Deflated, bytes.chunks(1)).0, events);
}

#[test]
fn each_protocol_violation_has_its_code() {
    let unmasked = vec![0x81, 1, b'x'];
    let huge_length = [&[0x81, 0xff][..], &[0xff; 8], &MASK].concat();
    for (bytes, error, code) in [
        (unmasked, ProtocolError::Unmasked, 1002),
        (client_frame(0xc1, b"x"), ProtocolError::ReservedBit, 1002),
        (client_frame(0xa1, b"x"), ProtocolError::ReservedBit, 1002),
        (client_frame(0x91, b"x"), ProtocolError::ReservedBit, 1002),
        (client_frame(0xc9, b"x"), ProtocolError::ReservedBit, 1002),
        (client_frame(0x83, b"x"), ProtocolError::Opcode, 1002),
        (client_frame(0x8b, b"x"), ProtocolError::Opcode, 1002),
        (client_frame(0x09, b"x"), ProtocolError::Control, 1002),
        (client_frame(0x89, &[0; 126]), ProtocolError::Control, 1002),
        (client_frame(0x80, b"x"), ProtocolError::NothingToContinue, 1002),
        ([client_frame(0x01, b"x"), client_frame(0x81, b"y")].concat(), ProtocolError::Interleaved, 1002),
        (client_frame(0x88, b"x"), ProtocolError::CloseCode, 1002),
        (client_frame(0x88, &1005u16.to_be_bytes()), ProtocolError::CloseCode, 1002),
        (client_frame(0x88, &999u16.to_be_bytes()), ProtocolError::CloseCode, 1002),
        (client_frame(0x88, b"\x03\xe8\xff"), ProtocolError::NotUtf8, 1007),
        (client_frame(0x81, b"\xff"), ProtocolError::NotUtf8, 1007),
        (client_frame(0x81, "ü".as_bytes().split_at(1).0), ProtocolError::NotUtf8, 1007),
        (client_frame(0x81, &[b'x'; LIMIT + 1]), ProtocolError::TooBig, 1009),
        ([client_frame(0x01, &[b'x'; LIMIT]), client_frame(0x80, b"x")].concat(), ProtocolError::TooBig, 1009),
        (huge_length, ProtocolError::TooBig, 1009),
    ] {
        let (events, result) = decode(FrameEncoding::Plain, [bytes.as_slice()]);
        assert_eq!((events, result), (vec![], Err(error)), "{bytes:02x?}");
        assert_eq!(error.code(), code);
        assert!(error.to_string().len() <= 123, "a reason must fit in a close frame");
    }
}

#[test]
fn compressed_messages_are_limited_and_validated() {
    let bomb = deflated(&vec![b'x'; LIMIT + 1]);
    assert!(bomb.len() < 100);
    for (bytes, error) in [
        (client_frame(0xc1, &bomb), ProtocolError::TooBig),
        (client_frame(0xc1, &[0xff; 10]), ProtocolError::NotDeflate),
        (client_frame(0xc1, &deflated(b"\xff")), ProtocolError::NotUtf8),
        ([client_frame(0x41, b""), client_frame(0xc0, b"")].concat(), ProtocolError::ReservedBit),
        (client_frame(0xc9, b""), ProtocolError::ReservedBit),
    ] {
        assert_eq!(decode(FrameEncoding::Deflated, [bytes.as_slice()]), (vec![], Err(error)), "{bytes:02x?}");
    }
    let fits = vec![b'x'; LIMIT];
    let (events, _) = decode(FrameEncoding::Deflated, [client_frame(0xc1, &deflated(&fits)).as_slice()]);
    assert_eq!(events, [FrameEvent::Text(String::from_utf8(fits).unwrap())]);
}

#[test]
fn a_frame_is_refused_by_its_header_alone() {
    let bytes = client_frame(0x81, &[b'x'; LIMIT + 1]);
    assert_eq!(decode(FrameEncoding::Plain, [&bytes[..8]]).1, Err(ProtocolError::TooBig));
    assert_eq!(decode(FrameEncoding::Plain, [&[0x81, 0x01][..]]).1, Err(ProtocolError::Unmasked));
}

#[test]
fn binary_that_is_not_utf8_is_passed_to_the_parser() {
    let (events, result) = decode(FrameEncoding::Plain, [client_frame(0x82, b"a\xff").as_slice()]);
    assert_eq!((events, result), (vec![text("a\u{fffd}")], Ok(())));
}

#[test]
fn the_buffer_grows_for_a_large_message_and_shrinks_again() {
    let mut decoder = FrameDecoder::new(FrameEncoding::Plain, 1 << 22, Bytes::new());
    let message = vec![b'x'; 1 << 21];
    let bytes = client_frame(0x81, &message);
    let mut rest = bytes.as_slice();
    let mut reads = 0;
    let event = loop {
        if let Some(event) = decoder.next().unwrap() {
            break event;
        }
        let buffer = decoder.read_buffer();
        let (now, later) = rest.split_at(rest.len().min(buffer.capacity() - buffer.len()));
        buffer.extend_from_slice(now);
        decoder.record_read(now.len());
        (rest, reads) = (later, reads + 1);
    };
    assert_eq!(event, FrameEvent::Text(String::from_utf8(message).unwrap()));
    assert!(reads < 40, "reads grow: {reads}");
    decoder.shrink_buffer();
    assert!(decoder.read_buffer().capacity() < 2 * MIN_READ_BYTES);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), at in 0usize..600) {
        let (head, tail) = bytes.split_at(at.min(bytes.len()));
        for encoding in [FrameEncoding::Plain, FrameEncoding::Deflated] {
            let (events, result) = decode(encoding, [head, tail]);
            let (again, same) = decode(encoding, bytes.chunks(1));
            prop_assert_eq!(events, again);
            prop_assert_eq!(result, same);
        }
    }

    #[test]
    fn random_damage_never_panics(at in 0usize..4000, byte in any::<u8>(), chunk in 1usize..50) {
        let (mut bytes, _) = conversation();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = decode(FrameEncoding::Deflated, bytes.chunks(chunk));
    }

    #[test]
    fn unmasking_works_at_any_length(payload in prop::collection::vec(any::<u8>(), 0..200), chunk in 1usize..20) {
        let bytes = client_frame(0x82, &payload);
        let (events, _) = decode(FrameEncoding::Plain, bytes.chunks(chunk));
        prop_assert_eq!(events, [FrameEvent::Text(String::from_utf8_lossy(&payload).into_owned())]);
    }

    #[test]
    fn encoded_frames_decode_to_the_same_text(message in "[a-cü]{0,1500}") {
        for encoding in [FrameEncoding::Plain, FrameEncoding::Deflated] {
            // The server's frames lack only the mask of client frames.
            let written = encoding.frame(message.as_bytes());
            let header = if written[1] == 126 { 4 } else { 2 };
            let bytes = client_frame(written[0], &written[header..]);
            let mut decoder = FrameDecoder::new(encoding, 1 << 20, bytes.into());
            prop_assert_eq!(decoder.next(), Ok(Some(FrameEvent::Text(message.clone()))));
        }
    }
}
