//! Builds PNG files, chunk by chunk.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

pub(crate) const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";

pub(crate) fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut sum = Crc::new();
    sum.update(kind);
    sum.update(data);
    let length = u32::try_from(data.len()).unwrap();
    [&length.to_be_bytes(), &kind[..], data, &sum.sum().to_be_bytes()].concat()
}

pub(crate) fn header(width: u32, height: u32, depth: u8, color: u8) -> Vec<u8> {
    chunk(b"IHDR", &[&width.to_be_bytes()[..], &height.to_be_bytes(), &[depth, color, 0, 0, 0]].concat())
}

/// A file with this header and pixels that do not match it.
pub(crate) fn lying(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    [MAGIC, &header(width, height, 8, 2), &chunk(b"IDAT", pixels), &chunk(b"IEND", b"")].concat()
}

/// Compressed zeros that unpack to this many bytes.
pub(crate) fn packed_zeros(bytes: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..bytes >> 20 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.finish().unwrap()
}

/// A file with further chunks after its header.
pub(crate) fn with_chunks(file: &[u8], chunks: &[u8]) -> Vec<u8> {
    let behind_header = MAGIC.len() + 25;
    [&file[..behind_header], chunks, &file[behind_header..]].concat()
}
