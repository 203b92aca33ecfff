//! Scales images down and converts them to eight bits per channel.

use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use image::DynamicImage;

use crate::rejection_reason::RejectionReason;

/// Scales the image down so that no edge exceeds `edge`; never up.
pub(super) fn downscale(image: DynamicImage, edge: u32) -> Result<DynamicImage, RejectionReason> {
    let was = (image.width(), image.height());
    let (width, height) = scaled_dimensions(was, edge);
    if (width, height) == was {
        return Ok(image);
    }
    let mut smaller = DynamicImage::new(width, height, image.color());
    // Premultiplying alpha copies all pixels, which most images do not need.
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::Lanczos3))
        .use_alpha(image.color().has_alpha() && !is_opaque(&image));
    Resizer::new().resize(&image, &mut smaller, &options).map_err(|_| {
        RejectionReason::optimization_failed("failed to resize the image; resize it yourself and attach the new file")
    })?;
    Ok(smaller)
}

fn scaled_dimensions((width, height): (u32, u32), edge: u32) -> (u32, u32) {
    let longest = width.max(height);
    if longest <= edge {
        return (width, height);
    }
    let scale = |length: u32| {
        let scaled = (u64::from(length) * u64::from(edge) + u64::from(longest) / 2) / u64::from(longest);
        u32::try_from(scaled).unwrap_or(edge).max(1)
    };
    (scale(width), scale(height))
}

/// Converts to eight bits per channel, with an alpha channel only if a pixel is transparent.
pub(super) fn to_eight_bit(image: DynamicImage) -> DynamicImage {
    let opaque = is_opaque(&image);
    match (image.color().has_color(), opaque) {
        (true, true) => DynamicImage::ImageRgb8(image.into_rgb8()),
        (true, false) => DynamicImage::ImageRgba8(image.into_rgba8()),
        (false, true) => DynamicImage::ImageLuma8(image.into_luma8()),
        (false, false) => DynamicImage::ImageLumaA8(image.into_luma_alpha8()),
    }
}

/// Whether no pixel is transparent. Many images, above all screenshots, have an alpha channel without using it.
fn is_opaque(image: &DynamicImage) -> bool {
    match image {
        DynamicImage::ImageRgba8(image) => image.as_chunks::<4>().0.iter().all(|[.., alpha]| *alpha == u8::MAX),
        DynamicImage::ImageLumaA8(image) => image.as_chunks::<2>().0.iter().all(|[_, alpha]| *alpha == u8::MAX),
        DynamicImage::ImageRgba16(image) => image.as_chunks::<4>().0.iter().all(|[.., alpha]| *alpha == u16::MAX),
        DynamicImage::ImageLumaA16(image) => image.as_chunks::<2>().0.iter().all(|[_, alpha]| *alpha == u16::MAX),
        other => !other.color().has_alpha(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_edge_is_limited_and_no_edge_grows_or_becomes_zero() {
        for (was, edge, is) in [
            ((8064, 6048), 1568, (1568, 1176)),
            ((6048, 8064), 1568, (1176, 1568)),
            ((1568, 1568), 1568, (1568, 1568)),
            ((1569, 10), 1568, (1568, 10)),
            ((3, 2), 1568, (3, 2)),
            ((60_000, 1), 1568, (1568, 1)),
        ] {
            assert_eq!(scaled_dimensions(was, edge), is, "{was:?}");
        }
    }
}
