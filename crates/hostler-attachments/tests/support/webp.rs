//! Builds WebP files, chunk by chunk.

pub(crate) fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    let fill: &[u8] = if data.len() % 2 == 1 { &[0] } else { &[] };
    [&kind[..], &length.to_le_bytes(), data, fill].concat()
}

pub(crate) fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
    let chunks = chunks.concat();
    let length = u32::try_from(chunks.len() + 4).unwrap();
    [&b"RIFF"[..], &length.to_le_bytes(), b"WEBP", &chunks].concat()
}

fn le24(value: u32) -> [u8; 3] {
    let [low, middle, high, _] = value.to_le_bytes();
    [low, middle, high]
}

pub(crate) fn extended(flags: u8, width: u32, height: u32) -> Vec<u8> {
    chunk(b"VP8X", &[&[flags, 0, 0, 0][..], &le24(width - 1), &le24(height - 1)].concat())
}

/// The pixel data of a simple file.
pub(crate) fn pixels(simple: &[u8]) -> Vec<u8> {
    simple[12..].to_vec()
}

pub(crate) fn with_metadata(simple: &[u8], width: u32, height: u32, exif: &[u8]) -> Vec<u8> {
    riff(&[extended(0x0c, width, height), pixels(simple), chunk(b"EXIF", exif), chunk(b"XMP ", b"<x>GPS 52.5200N</x>")])
}

/// An animation that repeats the same frame.
pub(crate) fn animated(simple: &[u8], width: u32, height: u32, frames: usize) -> Vec<u8> {
    let head = [&[0; 6][..], &le24(width - 1), &le24(height - 1), &le24(100), &[0]].concat();
    let frame = chunk(b"ANMF", &[head, pixels(simple)].concat());
    let mut chunks = vec![extended(0x02, width, height), chunk(b"ANIM", &[0; 6])];
    chunks.extend(std::iter::repeat_n(frame, frames));
    riff(&chunks)
}

/// Only the header of a lossless file.
pub(crate) fn lying(width: u32, height: u32) -> Vec<u8> {
    let bits = (width - 1) | (height - 1) << 14;
    riff(&[chunk(b"VP8L", &[&[0x2f][..], &bits.to_le_bytes(), &[0; 16]].concat())])
}
