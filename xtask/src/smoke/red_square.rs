//! Hand-made image that is so small that no step has a reason to change it.

/// Width and height.
const IMAGE_EDGE_PIXELS: u32 = 64;

/// Returns a red square as a PNG file, with a palette of one color.
pub(super) fn red_square_png() -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let size = IMAGE_EDGE_PIXELS.to_be_bytes();
    // One bit per pixel, with a palette.
    write_chunk(&mut png, *b"IHDR", &[&size[..], &size, &[1, 3, 0, 0, 0]].concat());
    write_chunk(&mut png, *b"PLTE", &[0xff, 0, 0]);
    // Each line is preceded by a filter byte: none.
    let lines = vec![0; (IMAGE_EDGE_PIXELS * (1 + IMAGE_EDGE_PIXELS / 8)) as usize];
    write_chunk(&mut png, *b"IDAT", &deflate_stored(&lines));
    write_chunk(&mut png, *b"IEND", &[]);
    png
}

fn write_chunk(png: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    let body = [&kind[..], data].concat();
    png.extend(u32::try_from(data.len()).unwrap_or_default().to_be_bytes());
    png.extend(&body);
    png.extend(crc(&body).to_be_bytes());
}

/// Returns a zlib stream of one uncompressed block.
fn deflate_stored(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap_or_default();
    let mut stream = vec![0x78, 0x01, 0x01];
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(data);
    stream.extend(adler(data).to_be_bytes());
    stream
}

fn crc(data: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !data.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

fn adler(data: &[u8]) -> u32 {
    let (a, b) = data.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_the_standards() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(b"IEND"), 0xae42_6082);
        assert_eq!(adler(b"Wikipedia"), 0x11e6_0398);
    }

    #[test]
    fn image_is_small_and_complete() {
        let png = red_square_png();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xae\x42\x60\x82"));
        assert_eq!(png.len(), 8 + 25 + 15 + 12 + 11 + 64 * 9 + 12);
    }
}
