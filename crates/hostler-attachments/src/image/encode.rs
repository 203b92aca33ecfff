//! Encodes images within a size limit.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::{DynamicImage, ImageResult};

use super::downscale;
use crate::ImageType;
use crate::rejection_reason::RejectionReason;

/// JPEG qualities in the order they are tried. The loss at the first one is not visible.
const JPEG_QUALITIES: [u8; 5] = [85, 75, 65, 50, 35];
/// Minimum edge; a smaller image shows nothing useful.
const MIN_EDGE_PIXELS: u32 = 16;

/// A re-encoded image.
pub(super) struct EncodedImage {
    pub(super) image_type: ImageType,
    pub(super) data: Vec<u8>,
    pub(super) width: u32,
    pub(super) height: u32,
    /// Whether the loss of detail may be visible.
    pub(super) is_visibly_lossy: bool,
}

/// Encodes an image with eight bits per channel into at most this many bytes: lossless if it was lossless before and
/// that fits, as JPEG if it is opaque, and scaled down further until it fits.
pub(super) fn encode_within(
    mut image: DynamicImage,
    lossless: bool,
    most: usize,
) -> Result<EncodedImage, RejectionReason> {
    loop {
        let (width, height) = (image.width(), image.height());
        for (form, quality) in candidate_encodings(lossless, image.color().has_alpha()) {
            let data = encode_as(&image, form, quality).map_err(|_| cannot_shrink())?;
            if data.len() <= most {
                let is_rough = form == ImageType::Jpeg && Some(&quality) != JPEG_QUALITIES.first();
                return Ok(EncodedImage { image_type: form, data, width, height, is_visibly_lossy: is_rough });
            }
        }
        let longest = width.max(height);
        if longest <= MIN_EDGE_PIXELS {
            return Err(cannot_shrink());
        }
        image = downscale::downscale(image, longest * 3 / 4)?;
    }
}

/// The encodings to try, in this order.
fn candidate_encodings(lossless: bool, transparent: bool) -> Vec<(ImageType, u8)> {
    let exact = |form| (form, 100);
    if transparent {
        return vec![exact(ImageType::Png), exact(ImageType::WebP)];
    }
    let png = lossless.then_some(exact(ImageType::Png));
    png.into_iter().chain(JPEG_QUALITIES.map(|quality| (ImageType::Jpeg, quality))).collect()
}

fn encode_as(image: &DynamicImage, form: ImageType, quality: u8) -> ImageResult<Vec<u8>> {
    let mut data = Vec::new();
    match form {
        ImageType::Jpeg => image.write_with_encoder(JpegEncoder::new_with_quality(&mut data, quality))?,
        ImageType::WebP => image.write_with_encoder(WebPEncoder::new_lossless(&mut data))?,
        ImageType::Png | ImageType::Gif => image.write_with_encoder(PngEncoder::new(Cursor::new(&mut data)))?,
    }
    Ok(data)
}

fn cannot_shrink() -> RejectionReason {
    RejectionReason::optimization_failed(
        "the image cannot be compressed enough to be sent; reduce its size and attach the new file",
    )
}
