//! Decodes images within a memory limit.

use std::io::Cursor;

use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::JpegDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::{DynamicImage, ImageDecoder, ImageError, ImageResult};

use crate::ImageType;
use crate::probe::ImageHeader;
use crate::rejection_reason::RejectionReason;

/// Maximum memory of a decoder besides the pixels: tables, lines, profiles.
const DECODER_OVERHEAD_BYTES: u64 = 64 << 20;

/// Decodes the pixels, of an animation the first frame. The orientation is not applied.
pub(super) fn decode(file: &[u8], header: &ImageHeader) -> Result<DynamicImage, RejectionReason> {
    if header.is_unusual_encoding {
        return Err(unusual_encoding());
    }
    decode_with_limits(file, header).map_err(|error| match error {
        ImageError::Unsupported(_) => unusual_encoding(),
        ImageError::Limits(_) => RejectionReason::too_large("the image needs too much memory; reduce its size"),
        _ => RejectionReason::corrupt("the image is damaged; save it again and attach the new file"),
    })
}

/// Whether the pixels can be decoded. An image that a provider cannot read would fail every further request.
pub(super) fn verify(file: &[u8], header: &ImageHeader) -> Result<(), RejectionReason> {
    decode(file, header).map(drop)
}

fn decode_with_limits(file: &[u8], header: &ImageHeader) -> ImageResult<DynamicImage> {
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(
        header.max_frame_pixels.saturating_mul(header.bytes_per_pixel.max(4)).saturating_add(DECODER_OVERHEAD_BYTES),
    );
    let file = Cursor::new(file);
    match header.image_type {
        ImageType::Png => decode_pixels(PngDecoder::with_limits(file, limits.clone())?, header, limits),
        ImageType::Jpeg => decode_pixels(JpegDecoder::new(file)?, header, limits),
        ImageType::Gif => decode_pixels(GifDecoder::new(file)?, header, limits),
        ImageType::WebP => decode_pixels(WebPDecoder::new(file)?, header, limits),
    }
}

fn decode_pixels(
    mut decoder: impl ImageDecoder,
    header: &ImageHeader,
    limits: image::Limits,
) -> ImageResult<DynamicImage> {
    // The decoder and the probe must report equal dimensions, otherwise the limits were checked on other values.
    if decoder.dimensions() != (header.width, header.height) {
        let kind = image::error::ParameterErrorKind::DimensionMismatch;
        return Err(ImageError::Parameter(image::error::ParameterError::from_kind(kind)));
    }
    decoder.set_limits(limits)?;
    DynamicImage::from_decoder(decoder)
}

fn unusual_encoding() -> RejectionReason {
    RejectionReason::optimization_failed(
        "the image has an unsupported encoding; save it again as PNG or JPEG and attach the new file",
    )
}
