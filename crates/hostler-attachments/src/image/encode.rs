use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::{DynamicImage, ImageResult};

use super::shrink;
use crate::ImageType;
use crate::fault::Fault;

/// Nobody sees the difference at the first of them.
const QUALITIES: [u8; 5] = [85, 75, 65, 50, 35];
/// Below this a picture shows nothing any more.
const SHORTEST_EDGE: u32 = 16;

/// A picture that was written anew.
pub(super) struct Encoded {
    pub(super) form: ImageType,
    pub(super) data: Vec<u8>,
    pub(super) width: u32,
    pub(super) height: u32,
    /// Whether somebody may see that detail is lost.
    pub(super) is_rough: bool,
}

/// Writes a picture of eight bits per colour into at most so many bytes: exactly where it was exact before and that fits, as
/// JPEG if nothing can be seen through it, and smaller and smaller until it fits.
pub(super) fn encode(mut image: DynamicImage, lossless: bool, most: usize) -> Result<Encoded, Fault> {
    loop {
        let (width, height) = (image.width(), image.height());
        for (form, quality) in forms(lossless, image.color().has_alpha()) {
            let data = write(&image, form, quality).map_err(|_| failed())?;
            if data.len() <= most {
                let is_rough = form == ImageType::Jpeg && Some(&quality) != QUALITIES.first();
                return Ok(Encoded { form, data, width, height, is_rough });
            }
        }
        let longest = width.max(height);
        if longest <= SHORTEST_EDGE {
            return Err(failed());
        }
        image = shrink::shrink(image, longest * 3 / 4)?;
    }
}

/// What is tried, in this order.
fn forms(lossless: bool, transparent: bool) -> Vec<(ImageType, u8)> {
    let exact = |form| (form, 100);
    if transparent {
        return vec![exact(ImageType::Png), exact(ImageType::WebP)];
    }
    let png = lossless.then_some(exact(ImageType::Png));
    png.into_iter().chain(QUALITIES.map(|quality| (ImageType::Jpeg, quality))).collect()
}

fn write(image: &DynamicImage, form: ImageType, quality: u8) -> ImageResult<Vec<u8>> {
    let mut data = Vec::new();
    match form {
        ImageType::Jpeg => image.write_with_encoder(JpegEncoder::new_with_quality(&mut data, quality))?,
        ImageType::WebP => image.write_with_encoder(WebPEncoder::new_lossless(&mut data))?,
        ImageType::Png | ImageType::Gif => image.write_with_encoder(PngEncoder::new(Cursor::new(&mut data)))?,
    }
    Ok(data)
}

fn failed() -> Fault {
    Fault::not_optimized("it could not be made small enough to be sent; make it smaller yourself and attach that")
}
