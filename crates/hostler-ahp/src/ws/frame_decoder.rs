//! Decodes a client's bytes into messages. Pure: it is fed with bytes as they arrive and returns the events in them.

use bytes::{Buf as _, Bytes, BytesMut};

use super::deflate::{InflateError, Inflater};
use super::encoding::FrameEncoding;

/// Initial capacity of a read; reads that fill it get more.
const MIN_READ_BYTES: usize = 4 * 1024;
const MAX_READ_BYTES: usize = 256 * 1024;

/// What a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FrameEvent {
    /// A whole message. Binary messages count as text.
    Text(String),
    /// To be answered with the same payload.
    Ping(Bytes),
    /// An answer to a ping; its payload is ignored.
    Pong,
    /// The client closes the connection, with this code if it sent one.
    Close(Option<u16>),
}

/// A violation of the protocol. The text is the reason in the close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("the frames of a client must be masked")]
    Unmasked,
    #[error("a reserved bit is set without a negotiated extension")]
    ReservedBit,
    #[error("a frame has an unknown opcode")]
    Opcode,
    #[error("a control frame must not be fragmented and has at most 125 bytes")]
    Control,
    #[error("a frame continues a message that has not started")]
    NothingToContinue,
    #[error("a message starts before the previous one is complete")]
    Interleaved,
    #[error("the close frame has an invalid code")]
    CloseCode,
    #[error("a text message is not UTF-8")]
    NotUtf8,
    #[error("a message cannot be decompressed")]
    NotDeflate,
    #[error("a message is larger than this host accepts")]
    TooBig,
}

impl ProtocolError {
    /// The code in the close frame.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::NotUtf8 | Self::NotDeflate => 1007,
            Self::TooBig => 1009,
            _ => 1002,
        }
    }
}

impl From<InflateError> for ProtocolError {
    fn from(error: InflateError) -> Self {
        match error {
            InflateError::Malformed => Self::NotDeflate,
            InflateError::TooBig => Self::TooBig,
        }
    }
}

/// Decodes the frames of one client.
pub(crate) struct FrameDecoder {
    /// Maximum size of a frame and of a message.
    max_message_bytes: usize,
    encoding: FrameEncoding,
    /// Bytes that have arrived and are not decoded yet.
    buffer: BytesMut,
    read_capacity: usize,
    /// The data frame whose payload is arriving.
    payload: Option<PayloadState>,
    /// The message that the payload belongs to.
    message: Option<PartialMessage>,
}

struct PayloadState {
    remaining: usize,
    mask: [u8; 4],
    last: bool,
}

struct PartialMessage {
    is_text: bool,
    bytes: Vec<u8>,
    inflater: Option<Inflater>,
}

impl FrameDecoder {
    /// A decoder that already holds `bytes`.
    pub(crate) fn new(encoding: FrameEncoding, max_message_bytes: usize, bytes: Bytes) -> Self {
        Self {
            max_message_bytes,
            encoding,
            buffer: BytesMut::from(bytes),
            read_capacity: MIN_READ_BYTES,
            payload: None,
            message: None,
        }
    }

    /// Buffer for arriving bytes. It has capacity for at least one byte.
    pub(crate) fn read_buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(self.read_capacity);
        &mut self.buffer
    }

    /// Records how many bytes have arrived. A client that fills the buffer gets a larger one.
    pub(crate) fn record_read(&mut self, bytes: usize) {
        if bytes >= self.read_capacity {
            self.read_capacity = (self.read_capacity * 2).min(MAX_READ_BYTES);
        }
    }

    /// No bytes are arriving: releases the buffer of a burst.
    pub(crate) fn shrink_buffer(&mut self) {
        if self.read_capacity > MIN_READ_BYTES && self.buffer.is_empty() {
            self.read_capacity = MIN_READ_BYTES;
            self.buffer = BytesMut::new();
        }
    }

    /// The next event; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the client violated the protocol. The decoder cannot continue after that.
    pub(crate) fn next(&mut self) -> Result<Option<FrameEvent>, ProtocolError> {
        loop {
            if self.payload.is_some() {
                match self.take_payload()? {
                    PayloadProgress::MessageComplete(event) => return Ok(Some(event)),
                    PayloadProgress::FrameComplete => {}
                    PayloadProgress::Incomplete => return Ok(None),
                }
            }
            let Some((header, length)) = FrameHeader::parse(&self.buffer)? else { return Ok(None) };
            match header.opcode {
                Opcode::Data(data) => {
                    self.begin_data_frame(&header, data)?;
                    self.buffer.advance(length);
                }
                Opcode::Control(control) => {
                    header.check_control()?;
                    if self.buffer.len() < length + header.payload_bytes {
                        return Ok(None);
                    }
                    self.buffer.advance(length);
                    let mut payload = self.buffer.split_to(header.payload_bytes);
                    unmask(&mut payload, header.mask);
                    return control.to_event(&payload).map(Some);
                }
            }
        }
    }

    /// Checks the header of a data frame and expects its payload next.
    fn begin_data_frame(&mut self, header: &FrameHeader, data: DataOpcode) -> Result<(), ProtocolError> {
        let deflated = header.rsv1 && data != DataOpcode::Continuation && self.encoding == FrameEncoding::Deflated;
        if (header.rsv1 && !deflated) || header.rsv23 {
            return Err(ProtocolError::ReservedBit);
        }
        match (data, &self.message) {
            (DataOpcode::Continuation, None) => return Err(ProtocolError::NothingToContinue),
            (DataOpcode::Text | DataOpcode::Binary, Some(_)) => return Err(ProtocolError::Interleaved),
            _ => {}
        }
        let is_text = data == DataOpcode::Text;
        let inflater = deflated.then(Inflater::new);
        let message = self.message.get_or_insert_with(|| PartialMessage { is_text, bytes: Vec::new(), inflater });
        // Inflated bytes are counted as they are produced.
        let before = if message.inflater.is_some() { 0 } else { message.bytes.len() };
        if header.payload_bytes > self.max_message_bytes.saturating_sub(before) {
            return Err(ProtocolError::TooBig);
        }
        self.payload = Some(PayloadState { remaining: header.payload_bytes, mask: header.mask, last: header.fin });
        Ok(())
    }

    /// Moves the available part of the payload into the message.
    fn take_payload(&mut self) -> Result<PayloadProgress, ProtocolError> {
        let (Some(payload), Some(message)) = (&mut self.payload, &mut self.message) else {
            return Ok(PayloadProgress::FrameComplete);
        };
        let length = payload.remaining.min(self.buffer.len());
        let chunk = self.buffer.get_mut(..length).unwrap_or_default();
        unmask(chunk, payload.mask);
        match &mut message.inflater {
            None => message.bytes.extend_from_slice(chunk),
            Some(inflater) => inflater.push(chunk, &mut message.bytes, self.max_message_bytes)?,
        }
        self.buffer.advance(length);
        payload.remaining -= length;
        payload.mask.rotate_left(length % 4);
        if payload.remaining > 0 {
            return Ok(PayloadProgress::Incomplete);
        }
        let last = payload.last;
        self.payload = None;
        match self.message.take_if(|_| last) {
            Some(message) => message.finish(self.max_message_bytes).map(PayloadProgress::MessageComplete),
            None => Ok(PayloadProgress::FrameComplete),
        }
    }
}

/// Progress after the bytes of a payload.
enum PayloadProgress {
    /// The last frame of a message is complete.
    MessageComplete(FrameEvent),
    /// A frame is complete, and others follow.
    FrameComplete,
    /// The frame is not complete yet.
    Incomplete,
}

impl PartialMessage {
    fn finish(mut self, limit: usize) -> Result<FrameEvent, ProtocolError> {
        if let Some(inflater) = self.inflater {
            inflater.finish(&mut self.bytes, limit)?;
        }
        match String::from_utf8(self.bytes) {
            Ok(text) => Ok(FrameEvent::Text(text)),
            Err(_) if self.is_text => Err(ProtocolError::NotUtf8),
            // The JSON parser reports what is wrong with it.
            Err(error) => Ok(FrameEvent::Text(String::from_utf8_lossy(error.as_bytes()).into_owned())),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DataOpcode {
    Continuation,
    Text,
    Binary,
}

#[derive(Clone, Copy)]
enum ControlOpcode {
    Close,
    Ping,
    Pong,
}

enum Opcode {
    Data(DataOpcode),
    Control(ControlOpcode),
}

impl ControlOpcode {
    fn to_event(self, payload: &[u8]) -> Result<FrameEvent, ProtocolError> {
        match self {
            Self::Ping => Ok(FrameEvent::Ping(Bytes::copy_from_slice(payload))),
            Self::Pong => Ok(FrameEvent::Pong),
            Self::Close => match payload.split_first_chunk() {
                Some((code, reason)) => {
                    let code = u16::from_be_bytes(*code);
                    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                        return Err(ProtocolError::CloseCode);
                    }
                    std::str::from_utf8(reason).map_err(|_| ProtocolError::NotUtf8)?;
                    Ok(FrameEvent::Close(Some(code)))
                }
                None if payload.is_empty() => Ok(FrameEvent::Close(None)),
                None => Err(ProtocolError::CloseCode),
            },
        }
    }
}

struct FrameHeader {
    fin: bool,
    rsv1: bool,
    rsv23: bool,
    opcode: Opcode,
    mask: [u8; 4],
    payload_bytes: usize,
}

impl FrameHeader {
    /// The header at the start of these bytes and its length; `None` if it is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProtocolError> {
        let Some((&[first, second], rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let opcode = match first & 0x0f {
            0x0 => Opcode::Data(DataOpcode::Continuation),
            0x1 => Opcode::Data(DataOpcode::Text),
            0x2 => Opcode::Data(DataOpcode::Binary),
            0x8 => Opcode::Control(ControlOpcode::Close),
            0x9 => Opcode::Control(ControlOpcode::Ping),
            0xa => Opcode::Control(ControlOpcode::Pong),
            _ => return Err(ProtocolError::Opcode),
        };
        if second & 0x80 == 0 {
            return Err(ProtocolError::Unmasked);
        }
        let length = match second & 0x7f {
            126 => rest.split_first_chunk().map(|(length, rest)| (u64::from(u16::from_be_bytes(*length)), rest)),
            127 => rest.split_first_chunk().map(|(length, rest)| (u64::from_be_bytes(*length), rest)),
            length => Some((u64::from(length), rest)),
        };
        let Some((length, rest)) = length else { return Ok(None) };
        let Some((mask, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let header = Self {
            fin: first & 0x80 != 0,
            rsv1: first & 0x40 != 0,
            rsv23: first & 0x30 != 0,
            opcode,
            mask: *mask,
            payload_bytes: usize::try_from(length).map_err(|_| ProtocolError::TooBig)?,
        };
        Ok(Some((header, bytes.len() - rest.len())))
    }

    fn check_control(&self) -> Result<(), ProtocolError> {
        if self.rsv1 || self.rsv23 {
            return Err(ProtocolError::ReservedBit);
        }
        if !self.fin || self.payload_bytes > 125 { Err(ProtocolError::Control) } else { Ok(()) }
    }
}

/// Removes the mask, eight bytes at a time.
fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = bytes.chunks_exact_mut(8);
    for word in &mut words {
        if let Ok(bytes) = <[u8; 8]>::try_from(&*word) {
            word.copy_from_slice(&(u64::from_ne_bytes(bytes) ^ wide).to_ne_bytes());
        }
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip([a, b, c, d].into_iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests;
