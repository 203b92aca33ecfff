//! Reads WebP headers, orientation and chunk ranges.

use super::byte_reader::ByteReader;
use super::image_header::ImageHeader;
use crate::ImageType;

/// Offset of the first chunk.
const CHUNKS_OFFSET: usize = 12;
const EXIF: &[u8] = b"Exif\0\0";

pub(super) fn is_webp(bytes: &[u8]) -> bool {
    bytes.starts_with(b"RIFF") && bytes.get(8..CHUNKS_OFFSET) == Some(b"WEBP")
}

/// Returns `None` if the file is truncated or malformed.
pub(super) fn probe(bytes: &[u8]) -> Option<ImageHeader> {
    let mut reader = ByteReader::new(bytes);
    reader.take(4)?;
    let size = usize::try_from(reader.le32()?).ok()?.checked_add(8)?;
    reader.take(4)?;
    let mut header: Option<ImageHeader> = None;
    let mut pixels_came = false;
    while reader.position() < size {
        let start = reader.position();
        let kind: [u8; 4] = reader.array()?;
        let length = usize::try_from(reader.le32()?).ok()?;
        let data = reader.take(length)?;
        // Chunks of odd length are padded.
        reader.take(length % 2)?;
        let is_image_data = match &kind {
            b"VP8X" if header.is_none() => {
                let mut fields = ByteReader::new(data);
                fields.take(4)?;
                header = Some(ImageHeader::new(ImageType::WebP, fields.le24()? + 1, fields.le24()? + 1));
                true
            }
            b"VP8 " | b"VP8L" => {
                let (width, height) =
                    if &kind == b"VP8 " { parse_lossy_size(data)? } else { parse_lossless_size(data)? };
                let header = header.get_or_insert_with(|| ImageHeader::new(ImageType::WebP, width, height));
                header.include_frame(width, height);
                header.is_lossless = &kind == b"VP8L";
                pixels_came = true;
                true
            }
            b"ANMF" => {
                let mut fields = ByteReader::new(data);
                fields.take(6)?;
                let header = header.as_mut()?;
                header.include_frame(fields.le24()? + 1, fields.le24()? + 1);
                header.frame_count = if pixels_came { header.frame_count.saturating_add(1) } else { 1 };
                pixels_came = true;
                true
            }
            b"EXIF" => {
                header.as_mut()?.read_orientation(data.strip_prefix(EXIF).unwrap_or(data));
                false
            }
            b"ALPH" | b"ANIM" | b"ICCP" => true,
            _ => false,
        };
        let header = header.as_mut()?;
        if header.image_ranges.is_empty() {
            header.add_image_range(0..CHUNKS_OFFSET);
        }
        if is_image_data {
            header.add_image_range(start..reader.position());
        }
    }
    let mut header = header?;
    header.end_offset = reader.position();
    pixels_came.then_some(header)
}

fn parse_lossy_size(data: &[u8]) -> Option<(u32, u32)> {
    let mut fields = ByteReader::new(data);
    fields.take(3)?;
    if fields.array()? != [0x9d, 0x01, 0x2a] {
        return None;
    }
    Some((u32::from(fields.le16()? & 0x3fff), u32::from(fields.le16()? & 0x3fff)))
}

fn parse_lossless_size(data: &[u8]) -> Option<(u32, u32)> {
    let mut fields = ByteReader::new(data);
    if fields.byte()? != 0x2f {
        return None;
    }
    let bits = fields.le32()?;
    Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
}
