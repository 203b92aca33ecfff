//! Deflate as RFC 7692 uses it: each message is independent and omits the four bytes that end every message.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Ends every message and is not sent.
const SYNC_FLUSH_TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Size of the steps in which data is inflated or deflated.
const CHUNK_BYTES: usize = 8 * 1024;

/// Why a message cannot be inflated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InflateError {
    /// The bytes are no deflate stream.
    Malformed,
    /// The message is larger than allowed.
    TooBig,
}

/// Inflates one message as it arrives. It lives as long as the message: an idle connection owns no window.
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(false))
    }

    /// Appends the inflated `input` while `output` stays within the limit.
    ///
    /// # Errors
    /// If the input is malformed or inflates to too much.
    pub(crate) fn push(&mut self, mut input: &[u8], output: &mut Vec<u8>, limit: usize) -> Result<(), InflateError> {
        let mut step = [0; CHUNK_BYTES];
        loop {
            let (read, written) = (self.0.total_in(), self.0.total_out());
            let status = self.0.decompress(input, &mut step, FlushDecompress::None);
            let status = status.map_err(|_| InflateError::Malformed)?;
            let read = usize::try_from(self.0.total_in() - read).unwrap_or(usize::MAX);
            let written = usize::try_from(self.0.total_out() - written).unwrap_or(usize::MAX);
            input = input.get(read..).unwrap_or_default();
            if output.len().saturating_add(written) > limit {
                return Err(InflateError::TooBig);
            }
            output.extend_from_slice(step.get(..written).unwrap_or_default());
            if status == Status::StreamEnd {
                // A sender may end its stream inside of a message; a new stream follows.
                self.0.reset(false);
            }
            if input.is_empty() && written < CHUNK_BYTES {
                return Ok(());
            }
            if read == 0 && written == 0 {
                return Err(InflateError::Malformed);
            }
        }
    }

    /// Ends the message.
    ///
    /// # Errors
    /// As [`Inflater::push`].
    pub(crate) fn finish(mut self, output: &mut Vec<u8>, limit: usize) -> Result<(), InflateError> {
        self.push(&SYNC_FLUSH_TAIL, output, limit)
    }
}

/// Appends the deflated message to `output`. `false` on failure; `output` is then invalid.
pub(crate) fn deflate(mut input: &[u8], output: &mut Vec<u8>) -> bool {
    thread_local! {
        // A compressor takes some hundred kilobytes; one per thread is enough, because none keeps context.
        static COMPRESSOR: RefCell<Compress> = RefCell::new(Compress::new(Compression::fast(), false));
    }
    COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.reset();
        let mut step = [0; CHUNK_BYTES];
        loop {
            let (read, written) = (compressor.total_in(), compressor.total_out());
            if compressor.compress(input, &mut step, FlushCompress::Sync).is_err() {
                return false;
            }
            let read = usize::try_from(compressor.total_in() - read).unwrap_or(usize::MAX);
            let written = usize::try_from(compressor.total_out() - written).unwrap_or(usize::MAX);
            input = input.get(read..).unwrap_or_default();
            output.extend_from_slice(step.get(..written).unwrap_or_default());
            if written < CHUNK_BYTES {
                break;
            }
        }
        let complete = input.is_empty() && output.ends_with(&SYNC_FLUSH_TAIL);
        output.truncate(output.len().saturating_sub(SYNC_FLUSH_TAIL.len()));
        complete
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ws::test_frames::incompressible_bytes;

    fn inflate(input: &[u8], limit: usize) -> Result<Vec<u8>, InflateError> {
        let (mut inflater, mut output) = (Inflater::new(), Vec::new());
        inflater.push(input, &mut output, limit)?;
        inflater.finish(&mut output, limit)?;
        Ok(output)
    }

    #[test]
    fn deflate_and_inflate_round_trip() {
        let noise = incompressible_bytes(100_000);
        for message in [&b""[..], b"Hello", &[b'x'; 3 * CHUNK_BYTES], &noise] {
            let mut deflated = Vec::new();
            assert!(deflate(message, &mut deflated));
            assert_eq!(inflate(&deflated, message.len()).unwrap(), message);
        }
    }

    #[test]
    fn the_examples_of_the_rfc_are_inflated() {
        // One block; one block without compression; a block that ends its stream; two blocks.
        for message in [
            &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
            &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
            &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
            &[0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
        ] {
            assert_eq!(inflate(message, 5).as_deref(), Ok(&b"Hello"[..]), "{message:02x?}");
        }
    }

    #[test]
    fn inflating_stops_at_the_limit() {
        let mut bomb = Vec::new();
        assert!(deflate(&vec![0; 10_000_000], &mut bomb));
        assert!(bomb.len() < 100_000);
        assert_eq!(inflate(&bomb, 1_000_000), Err(InflateError::TooBig));
    }

    #[test]
    fn malformed_input_is_refused() {
        assert_eq!(inflate(&[0xff; 64], 1000), Err(InflateError::Malformed));
    }
}
