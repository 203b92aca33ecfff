//! Builds JPEG files, segment by segment.

pub(crate) fn segment(marker: u8, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len() + 2).unwrap();
    [&[0xff, marker], &length.to_be_bytes()[..], data].concat()
}

/// A file with further segments after its start.
pub(crate) fn with_segments(file: &[u8], segments: &[u8]) -> Vec<u8> {
    [&file[..2], segments, &file[2..]].concat()
}

pub(crate) fn exif_segment(orientation: u8) -> Vec<u8> {
    segment(0xe1, &[b"Exif\0\0", super::exif(orientation).as_slice()].concat())
}

/// An image of one 8 × 8 block in CMYK: cyan, magenta, yellow and black at the given strengths, which are stored
/// inverted, as Adobe does.
pub(crate) fn cmyk(frame: u8, width: u16, height: u16, strengths: [u8; 4]) -> Vec<u8> {
    let mut file = vec![0xff, 0xd8];
    file.extend(segment(0xee, b"Adobe\0\x64\0\0\0\0\0"));
    file.extend(segment(0xdb, &[&[0][..], &[1; 64]].concat()));
    let mut header = [&[8][..], &height.to_be_bytes(), &width.to_be_bytes(), &[4]].concat();
    (1..=4).for_each(|component| header.extend([component, 0x11, 0]));
    file.extend(segment(frame, &header));
    // Lengths of a block's first value, as codes of four bits each; only the end of block follows.
    let dc: Vec<u8> = [vec![0], vec![0, 0, 0, 12], vec![0; 12], (0..12).collect()].concat();
    file.extend(segment(0xc4, &dc));
    file.extend(segment(0xc4, &[vec![0x10, 1], vec![0; 15], vec![0]].concat()));
    file.extend(segment(0xda, &[4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0]));
    let mut bits = Vec::new();
    let blocks = usize::from(width.div_ceil(8)) * usize::from(height.div_ceil(8));
    for block in 0..blocks {
        for strength in strengths {
            let value = if block == 0 { (i32::from(255 - strength) - 128) * 8 } else { 0 };
            push_difference(&mut bits, value);
            bits.push(false);
        }
    }
    while bits.len() % 8 != 0 {
        bits.push(true);
    }
    for byte in bits.chunks(8) {
        let byte = byte.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        file.push(byte);
        if byte == 0xff {
            file.push(0);
        }
    }
    file.extend([0xff, 0xd9]);
    file
}

fn push_difference(bits: &mut Vec<bool>, value: i32) {
    let size = 32 - value.unsigned_abs().leading_zeros();
    let magnitude = if value < 0 { value + (1 << size) - 1 } else { value };
    let mut push = |value: i32, count: u32| (0..count).rev().for_each(|bit| bits.push(value >> bit & 1 == 1));
    push(size.cast_signed(), 4);
    push(magnitude, size);
}
