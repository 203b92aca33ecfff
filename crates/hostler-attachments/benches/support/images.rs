//! Generated images that resemble what people attach.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{ImageFormat, Rgb, RgbImage};

/// Light and dark panels with text-like lines.
pub(crate) fn screenshot() -> Vec<u8> {
    let mut random = random();
    let mut image = RgbImage::from_fn(3840, 2160, |x, y| match (x / 640, y / 80) {
        (0, _) => Rgb([37, 37, 38]),
        (_, 0) => Rgb([60, 60, 60]),
        _ => Rgb([250, 250, 250]),
    });
    for line in (100..2140).step_by(36) {
        let (mut x, end) = (20, 1200 + random() % 2600);
        while x < end {
            let ink = if x < 640 { [200, 200, 210] } else { [(random() % 90) as u8, 40, (random() % 160) as u8] };
            for (dx, dy) in (0..14).flat_map(|dx| (0..22).map(move |dy| (dx, dy))) {
                // Strokes with soft edges.
                if (dx * 3 + dy * (x % 7)) % 11 < 3 && x + dx < 3840 {
                    let soft = (dx + dy) % 3 * 30;
                    image.put_pixel(x + dx, line + dy, Rgb(ink.map(|channel: u8| channel.saturating_add(soft as u8))));
                }
            }
            x += if random().is_multiple_of(6) { 34 } else { 17 };
        }
    }
    let mut file = Vec::new();
    image.write_to(&mut Cursor::new(&mut file), ImageFormat::Png).expect("an image");
    file
}

/// Gradients with some grain, 48 million pixels.
pub(crate) fn photo() -> Vec<u8> {
    let mut random = random();
    let image = RgbImage::from_fn(8064, 6048, |x, y| {
        let wave = ((f64::from(x) / 310.0).sin() + (f64::from(y) / 170.0).cos()) * 40.0;
        let grain = f64::from(random() % 12);
        Rgb([110.0, 128.0, 90.0].map(|base| (base + wave + grain + f64::from(y) / 80.0).clamp(0.0, 255.0) as u8))
    });
    let mut file = Vec::new();
    image.write_with_encoder(JpegEncoder::new_with_quality(&mut file, 90)).expect("an image");
    file
}

fn random() -> impl FnMut() -> u32 {
    let mut state = 0x2545_f491_u32;
    move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    }
}
