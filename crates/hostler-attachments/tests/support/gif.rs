//! Builds GIF files, block by block.

use image::codecs::gif::{GifEncoder, Repeat};
use image::{Delay, Frame};

/// An animation with this number of frames.
pub(crate) fn animated(width: u32, height: u32, frames: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new_with_speed(&mut bytes, 30);
    encoder.set_repeat(Repeat::Infinite).unwrap();
    for at in 0..frames {
        let image = image::RgbaImage::from_pixel(width, height, image::Rgba([(at * 40) as u8, 0, 0, 255]));
        let frame = Frame::from_parts(image, 0, 0, Delay::from_numer_denom_ms(100, 1));
        encoder.encode_frame(frame).unwrap();
    }
    drop(encoder);
    bytes
}

/// A header of one size and a frame of another size, with hardly any pixels.
pub(crate) fn lying(size: (u16, u16), frame: (u16, u16)) -> Vec<u8> {
    let mut file = b"GIF89a".to_vec();
    file.extend(size.0.to_le_bytes());
    file.extend(size.1.to_le_bytes());
    file.extend([0x80, 0, 0, 0, 0, 0, 255, 255, 255]);
    file.extend([0x2c, 0, 0, 0, 0]);
    file.extend(frame.0.to_le_bytes());
    file.extend(frame.1.to_le_bytes());
    file.extend([0, 2, 2, 0x44, 0x01, 0, 0x3b]);
    file
}
