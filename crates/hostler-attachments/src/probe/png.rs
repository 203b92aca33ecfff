//! Reads PNG headers, orientation and chunk ranges.

use super::byte_reader::ByteReader;
use super::image_header::ImageHeader;
use crate::ImageType;

pub(super) const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Chunks that make up the image. All other chunks are metadata and are not sent.
const IMAGE_CHUNKS: [&[u8; 4]; 17] = [
    b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"bKGD", b"pHYs",
    b"cICP", b"acTL", b"fcTL", b"fdAT", b"hIST",
];

/// Returns `None` if the file is truncated or malformed.
pub(super) fn probe(bytes: &[u8]) -> Option<ImageHeader> {
    let mut reader = ByteReader::new(bytes);
    reader.take(MAGIC.len())?;
    let (_, b"IHDR", data) = read_chunk(&mut reader)? else { return None };
    let mut fields = ByteReader::new(data);
    let (width, height) = (fields.be32()?, fields.be32()?);
    let [depth, color] = fields.array()?;
    let mut header = ImageHeader::new(ImageType::Png, width, height);
    header.add_image_range(0..reader.position());
    let channels = match color {
        0 => 1,
        2 | 3 => 3,
        4 => 2,
        6 => 4,
        _ => return None,
    };
    let mut transparent = false;
    let mut pixels_came = false;
    loop {
        let (start, kind, data) = read_chunk(&mut reader)?;
        match kind {
            b"IHDR" => return None,
            b"IDAT" => pixels_came = true,
            b"tRNS" => transparent = true,
            b"eXIf" => header.read_orientation(data),
            b"acTL" => header.frame_count = ByteReader::new(data).be32()?.max(1),
            b"fcTL" => {
                let mut fields = ByteReader::new(data);
                fields.take(4)?;
                header.include_frame(fields.be32()?, fields.be32()?);
            }
            _ => {}
        }
        if IMAGE_CHUNKS.contains(&kind) {
            header.add_image_range(start..reader.position());
        }
        if kind == b"IEND" {
            break;
        }
    }
    header.bytes_per_pixel = (channels + u64::from(transparent)) * if depth == 16 { 2 } else { 1 };
    header.unusual_colors = (depth == 16).then_some("16-bit colors");
    header.end_offset = reader.position();
    pixels_came.then_some(header)
}

/// Offset, type and data of the next chunk. Checksums are verified when pixels are decoded.
fn read_chunk<'a>(reader: &mut ByteReader<'a>) -> Option<(usize, &'a [u8; 4], &'a [u8])> {
    let start = reader.position();
    let length = usize::try_from(reader.be32()?).ok()?;
    let kind = reader.take(4)?.try_into().ok()?;
    let data = reader.take(length)?;
    reader.take(4)?;
    Some((start, kind, data))
}
