use super::header::Header;
use super::reader::Reader;
use crate::ImageType;

pub(super) const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";

/// What a picture is made of. Everything else tells of the picture, its maker or its place, and is left out.
const KEPT: [&[u8; 4]; 17] = [
    b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"bKGD", b"pHYs",
    b"cICP", b"acTL", b"fcTL", b"fdAT", b"hIST",
];

/// Nothing if the file is cut off or not made of proper chunks.
pub(super) fn probe(bytes: &[u8]) -> Option<Header> {
    let mut reader = Reader::new(bytes);
    reader.take(MAGIC.len())?;
    let (_, b"IHDR", data) = chunk(&mut reader)? else { return None };
    let mut fields = Reader::new(data);
    let (width, height) = (fields.be32()?, fields.be32()?);
    let [depth, colour] = fields.array()?;
    let mut header = Header::new(ImageType::Png, width, height);
    header.keep(0..reader.at());
    let channels = match colour {
        0 => 1,
        2 | 3 => 3,
        4 => 2,
        6 => 4,
        _ => return None,
    };
    let mut transparent = false;
    let mut pixels_came = false;
    loop {
        let (start, kind, data) = chunk(&mut reader)?;
        match kind {
            b"IHDR" => return None,
            b"IDAT" => pixels_came = true,
            b"tRNS" => transparent = true,
            b"eXIf" => header.orient(data),
            b"acTL" => header.frames = Reader::new(data).be32()?.max(1),
            b"fcTL" => {
                let mut fields = Reader::new(data);
                fields.take(4)?;
                header.has_part(fields.be32()?, fields.be32()?);
            }
            _ => {}
        }
        if KEPT.contains(&kind) {
            header.keep(start..reader.at());
        }
        if kind == b"IEND" {
            break;
        }
    }
    header.pixel_bytes = (channels + u64::from(transparent)) * if depth == 16 { 2 } else { 1 };
    header.odd_colours = (depth == 16).then_some("16 bits per colour");
    header.end = reader.at();
    pixels_came.then_some(header)
}

/// Where it begins, its kind and its data. Sums are checked where pixels are decoded.
fn chunk<'a>(reader: &mut Reader<'a>) -> Option<(usize, &'a [u8; 4], &'a [u8])> {
    let start = reader.at();
    let length = usize::try_from(reader.be32()?).ok()?;
    let kind = reader.take(4)?.try_into().ok()?;
    let data = reader.take(length)?;
    reader.take(4)?;
    Some((start, kind, data))
}
