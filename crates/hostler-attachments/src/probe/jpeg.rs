use super::header::Header;
use super::reader::Reader;
use crate::ImageType;

pub(super) const MAGIC: &[u8] = &[0xff, 0xd8, 0xff];

const EXIF: &[u8] = b"Exif\0\0";
const END: u8 = 0xd9;
const SCAN: u8 = 0xda;
/// Baseline, extended and progressive; the others are lossless, in layers, or coded arithmetically.
const COMMON: [u8; 3] = [0xc0, 0xc1, 0xc2];

/// Nothing if the file is cut off or not made of proper segments.
pub(super) fn probe(bytes: &[u8]) -> Option<Header> {
    let mut reader = Reader::new(bytes);
    reader.take(2)?;
    let mut header: Option<Header> = None;
    // What comes before the size is known.
    let mut early = Header::new(ImageType::Jpeg, 0, 0);
    early.keep(0..2);
    let mut scanned = false;
    let mut start = reader.at();
    let mut marker = segment(&mut reader)?;
    loop {
        let known = header.as_mut().unwrap_or(&mut early);
        if marker == END {
            known.keep(start..reader.at());
            break;
        }
        let length = usize::from(reader.be16()?).checked_sub(2)?;
        let data = reader.take(length)?;
        match marker {
            // Frames, but for three of their numbers that mean tables. A second size is a lie about the first.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                if header.is_some() {
                    return None;
                }
                header = Some(sized(&early, marker, data)?);
            }
            0xe1 => {
                if let Some(exif) = data.strip_prefix(EXIF) {
                    known.orient(exif);
                }
            }
            _ => {}
        }
        let known = header.as_mut().unwrap_or(&mut early);
        if marker == SCAN {
            scanned = true;
            let next = pixels(&mut reader)?;
            // Pixels end where the next marker begins.
            let behind = reader.at() - 2;
            known.keep(start..behind);
            (start, marker) = (behind, next);
            continue;
        }
        if is_kept(marker, data) {
            known.keep(start..reader.at());
        }
        start = reader.at();
        marker = segment(&mut reader)?;
    }
    let mut header = header?;
    header.end = reader.at();
    scanned.then_some(header)
}

fn sized(early: &Header, marker: u8, data: &[u8]) -> Option<Header> {
    let mut fields = Reader::new(data);
    let _precision = fields.byte()?;
    let (height, width) = (fields.be16()?, fields.be16()?);
    let channels = fields.byte()?;
    let mut header = Header::new(ImageType::Jpeg, width.into(), height.into());
    header.kept.clone_from(&early.kept);
    header.orientation = early.orientation;
    header.lossless = false;
    header.is_rare = !COMMON.contains(&marker);
    header.pixel_bytes = if channels == 1 { 1 } else { 3 };
    header.odd_colours = (channels == 4).then_some("the colours of print (CMYK)");
    Some(header)
}

/// The marker that comes next.
fn segment(reader: &mut Reader<'_>) -> Option<u8> {
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

/// The marker behind the pixels of a scan.
fn pixels(reader: &mut Reader<'_>) -> Option<u8> {
    loop {
        reader.skip_behind(0xff)?;
        let mut next = reader.clone();
        match next.byte()? {
            0x00 | 0xd0..=0xd7 => *reader = next,
            // Fill: the last of them belongs to the marker.
            0xff => {}
            marker => {
                *reader = next;
                return Some(marker);
            }
        }
    }
}

/// What a picture is made of: tables and scans, and what tells its colours. The rest tells of its maker and its place.
fn is_kept(marker: u8, data: &[u8]) -> bool {
    match marker {
        0xe0 => data.starts_with(b"JFIF\0"),
        0xe2 => data.starts_with(b"ICC_PROFILE\0"),
        0xee => data.starts_with(b"Adobe"),
        0xe0..=0xef | 0xfe => false,
        _ => true,
    }
}
