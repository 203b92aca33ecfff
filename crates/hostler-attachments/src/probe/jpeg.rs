//! Reads JPEG headers, orientation and segment ranges.

use super::byte_reader::ByteReader;
use super::image_header::ImageHeader;
use crate::ImageType;

pub(super) const MAGIC: &[u8] = &[0xff, 0xd8, 0xff];

const EXIF: &[u8] = b"Exif\0\0";
const END_MARKER: u8 = 0xd9;
const SCAN_MARKER: u8 = 0xda;
/// Baseline, extended and progressive; the others are lossless, hierarchical or use arithmetic coding.
const SUPPORTED_FRAME_MARKERS: [u8; 3] = [0xc0, 0xc1, 0xc2];

/// Returns `None` if the file is truncated or malformed.
pub(super) fn probe(bytes: &[u8]) -> Option<ImageHeader> {
    let mut reader = ByteReader::new(bytes);
    reader.take(2)?;
    let mut header: Option<ImageHeader> = None;
    // Data from segments before the frame header.
    let mut early = ImageHeader::new(ImageType::Jpeg, 0, 0);
    early.add_image_range(0..2);
    let mut scanned = false;
    let mut start = reader.position();
    let mut marker = next_marker(&mut reader)?;
    loop {
        let known = header.as_mut().unwrap_or(&mut early);
        if marker == END_MARKER {
            known.add_image_range(start..reader.position());
            break;
        }
        let length = usize::from(reader.be16()?).checked_sub(2)?;
        let data = reader.take(length)?;
        match marker {
            // Frame headers, except for three markers that are not. A second frame header contradicts the first.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                if header.is_some() {
                    return None;
                }
                header = Some(parse_frame_header(&early, marker, data)?);
            }
            0xe1 => {
                if let Some(exif) = data.strip_prefix(EXIF) {
                    known.read_orientation(exif);
                }
            }
            _ => {}
        }
        let known = header.as_mut().unwrap_or(&mut early);
        if marker == SCAN_MARKER {
            scanned = true;
            let next = skip_scan_data(&mut reader)?;
            // Scan data end at the next marker.
            let behind = reader.position() - 2;
            known.add_image_range(start..behind);
            (start, marker) = (behind, next);
            continue;
        }
        if is_image_segment(marker, data) {
            known.add_image_range(start..reader.position());
        }
        start = reader.position();
        marker = next_marker(&mut reader)?;
    }
    let mut header = header?;
    header.end_offset = reader.position();
    scanned.then_some(header)
}

fn parse_frame_header(early: &ImageHeader, marker: u8, data: &[u8]) -> Option<ImageHeader> {
    let mut fields = ByteReader::new(data);
    let _precision = fields.byte()?;
    let (height, width) = (fields.be16()?, fields.be16()?);
    let channels = fields.byte()?;
    let mut header = ImageHeader::new(ImageType::Jpeg, width.into(), height.into());
    header.image_ranges.clone_from(&early.image_ranges);
    header.orientation = early.orientation;
    header.is_lossless = false;
    header.is_unusual_encoding = !SUPPORTED_FRAME_MARKERS.contains(&marker);
    header.bytes_per_pixel = if channels == 1 { 1 } else { 3 };
    header.unusual_colors = (channels == 4).then_some("CMYK colors");
    Some(header)
}

/// The next marker.
fn next_marker(reader: &mut ByteReader<'_>) -> Option<u8> {
    if reader.byte()? != 0xff {
        return None;
    }
    loop {
        match reader.byte()? {
            0xff => {}
            0x00 | 0x01 | 0xd0..=0xd8 => return None,
            marker => return Some(marker),
        }
    }
}

/// Skips the data of a scan and returns the marker after it.
fn skip_scan_data(reader: &mut ByteReader<'_>) -> Option<u8> {
    loop {
        reader.skip_past(0xff)?;
        let mut next = reader.clone();
        match next.byte()? {
            0x00 | 0xd0..=0xd7 => *reader = next,
            // Fill bytes: the last one belongs to the marker.
            0xff => {}
            marker => {
                *reader = next;
                return Some(marker);
            }
        }
    }
}

/// Whether a segment is part of the image: tables, scans and color information. Other segments are metadata.
fn is_image_segment(marker: u8, data: &[u8]) -> bool {
    match marker {
        0xe0 => data.starts_with(b"JFIF\0"),
        0xe2 => data.starts_with(b"ICC_PROFILE\0"),
        0xee => data.starts_with(b"Adobe"),
        0xe0..=0xef | 0xfe => false,
        _ => true,
    }
}
