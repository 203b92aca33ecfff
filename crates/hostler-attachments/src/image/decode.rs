use std::io::Cursor;

use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::JpegDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::{DynamicImage, ImageDecoder, ImageError, ImageResult};

use crate::ImageType;
use crate::fault::Fault;
use crate::probe::Header;

/// What a decoder may take beside the pixels: tables, lines, profiles.
const SPARE: u64 = 64 << 20;

/// The pixels, the first ones if it moves. Not turned.
pub(super) fn decode(file: &[u8], header: &Header) -> Result<DynamicImage, Fault> {
    if header.is_rare {
        return Err(rare());
    }
    read(file, header).map_err(|error| match error {
        ImageError::Unsupported(_) => rare(),
        ImageError::Limits(_) => Fault::too_large("the picture takes more memory than it may; make it smaller"),
        _ => Fault::corrupt("the picture is damaged; save it again and attach that"),
    })
}

/// Whether its pixels can be read. A picture that a provider cannot read would spoil every further request.
pub(super) fn verify(file: &[u8], header: &Header) -> Result<(), Fault> {
    decode(file, header).map(drop)
}

fn read(file: &[u8], header: &Header) -> ImageResult<DynamicImage> {
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(header.pixels.saturating_mul(header.pixel_bytes.max(4)).saturating_add(SPARE));
    let file = Cursor::new(file);
    match header.form {
        ImageType::Png => pixels(PngDecoder::with_limits(file, limits.clone())?, header, limits),
        ImageType::Jpeg => pixels(JpegDecoder::new(file)?, header, limits),
        ImageType::Gif => pixels(GifDecoder::new(file)?, header, limits),
        ImageType::WebP => pixels(WebPDecoder::new(file)?, header, limits),
    }
}

fn pixels(mut decoder: impl ImageDecoder, header: &Header, limits: image::Limits) -> ImageResult<DynamicImage> {
    // The decoder and the probe must have seen the same picture, or the limits were checked on another one.
    if decoder.dimensions() != (header.width, header.height) {
        let kind = image::error::ParameterErrorKind::DimensionMismatch;
        return Err(ImageError::Parameter(image::error::ParameterError::from_kind(kind)));
    }
    decoder.set_limits(limits)?;
    DynamicImage::from_decoder(decoder)
}

fn rare() -> Fault {
    Fault::not_optimized(
        "it is written in a rare way that cannot be read here; save it again as PNG or JPEG and attach that",
    )
}
