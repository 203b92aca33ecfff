//! Reads GIF headers, frame counts and block ranges.

use super::byte_reader::ByteReader;
use super::image_header::ImageHeader;
use crate::ImageType;

pub(super) const MAGIC: [&[u8]; 2] = [b"GIF87a", b"GIF89a"];

const IMAGE: u8 = 0x2c;
const EXTENSION: u8 = 0x21;
const TRAILER: u8 = 0x3b;
const CONTROL: u8 = 0xf9;
const APPLICATION: u8 = 0xff;

/// Returns `None` if the file is truncated or malformed.
pub(super) fn probe(bytes: &[u8]) -> Option<ImageHeader> {
    let mut reader = ByteReader::new(bytes);
    reader.take(6)?;
    let (width, height) = (reader.le16()?, reader.le16()?);
    let [flags, ..] = reader.array::<3>()?;
    let mut header = ImageHeader::new(ImageType::Gif, width.into(), height.into());
    reader.take(color_table_bytes(flags))?;
    header.add_image_range(0..reader.position());
    header.frame_count = 0;
    loop {
        let start = reader.position();
        let is_image_data = match reader.byte()? {
            TRAILER => break,
            IMAGE => {
                reader.take(4)?;
                header.include_frame(reader.le16()?.into(), reader.le16()?.into());
                let flags = reader.byte()?;
                reader.take(color_table_bytes(flags))?;
                let _code_size = reader.byte()?;
                skip_sub_blocks(&mut reader)?;
                header.frame_count = header.frame_count.saturating_add(1);
                true
            }
            EXTENSION => {
                let label = reader.byte()?;
                let first = skip_sub_blocks(&mut reader)?;
                // Keeps frame delays and the loop count; comments and other extensions are metadata.
                label == CONTROL || label == APPLICATION && matches!(first, b"NETSCAPE2.0" | b"ANIMEXTS1.0")
            }
            _ => return None,
        };
        if is_image_data {
            header.add_image_range(start..reader.position());
        }
    }
    header.add_image_range(reader.position() - 1..reader.position());
    header.end_offset = reader.position();
    (header.frame_count > 0).then_some(header)
}

/// Size of a color table, by the flags before it.
fn color_table_bytes(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

/// Skips all sub-blocks and returns the first one.
fn skip_sub_blocks<'a>(reader: &mut ByteReader<'a>) -> Option<&'a [u8]> {
    let length = reader.byte()?;
    let first = reader.take(length.into())?;
    let mut length = length;
    while length > 0 {
        length = reader.byte()?;
        reader.take(length.into())?;
    }
    Some(first)
}
