//! Scales images down and converts them to eight bits per channel.

use fast_image_resize::pixels::{U8x3, U8x4};
use fast_image_resize::{
    FilterType, IntoImageView as _, IntoImageViewMut as _, PixelTrait, ResizeAlg, ResizeOptions, Resizer,
};
use image::DynamicImage;

use crate::rejection_reason::RejectionReason;

/// Scales the image down so that no edge exceeds `edge`; never up. A scaled image has eight bits per channel.
pub(super) fn downscale(image: DynamicImage, edge: u32) -> Result<DynamicImage, RejectionReason> {
    let was = (image.width(), image.height());
    let (width, height) = scaled_dimensions(was, edge);
    if (width, height) == was {
        return Ok(image);
    }
    // Premultiplying alpha copies all pixels, which most images do not need.
    let is_transparent = !is_opaque(&image);
    let has_color = image.color().has_color();
    // The resizer is compiled for each pixel type, at about one MB each, so other types are converted to these two.
    let smaller = match image {
        DynamicImage::ImageRgb8(_) => resize::<U8x3>(&image, width, height, false),
        DynamicImage::ImageRgba8(_) => resize::<U8x4>(&image, width, height, is_transparent),
        other if is_transparent => resize::<U8x4>(&other.into_rgba8().into(), width, height, true),
        other => resize::<U8x3>(&other.into_rgb8().into(), width, height, false),
    };
    let smaller = smaller.ok_or_else(|| {
        RejectionReason::optimization_failed("failed to resize the image; resize it yourself and attach the new file")
    })?;
    Ok(match (has_color, is_transparent) {
        (true, _) => smaller,
        (false, true) => smaller.into_luma_alpha8().into(),
        (false, false) => smaller.into_luma8().into(),
    })
}

/// Resizes an image with pixels of type `P`; `None` if it has others.
fn resize<P: PixelTrait>(image: &DynamicImage, width: u32, height: u32, use_alpha: bool) -> Option<DynamicImage> {
    let mut smaller = DynamicImage::new(width, height, image.color());
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Lanczos3)).use_alpha(use_alpha);
    let mut target = smaller.image_view_mut::<P>()?;
    Resizer::new().resize_typed(&image.image_view::<P>()?, &mut target, &options).ok()?;
    drop(target);
    Some(smaller)
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

    #[test]
    fn images_of_all_pixel_types_are_scaled_and_retain_gray_and_transparency() {
        let source =
            image::RgbaImage::from_fn(40, 20, |x, _| image::Rgba([200, 100, 50, if x < 20 { 0 } else { 255 }]));
        let source = DynamicImage::from(source);
        let (opaque, gray) = (source.to_rgb8(), source.to_luma8());
        for (image, color, transparent) in [
            (DynamicImage::from(opaque.clone()), true, false),
            (DynamicImage::from(opaque).into_rgba8().into(), true, false),
            (source.to_rgb16().into(), true, false),
            (source.to_rgba16().into(), true, true),
            (source.to_luma_alpha8().into(), false, true),
            (source.to_luma_alpha16().into(), false, true),
            (source.to_luma16().into(), false, false),
            (DynamicImage::from(gray), false, false),
            (source, true, true),
        ] {
            let expected = to_eight_bit(image.clone()).into_rgba8();
            let was = image.color();
            let smaller = downscale(image, 10).unwrap();
            assert_eq!((smaller.width(), smaller.height()), (10, 5), "{was:?}");
            let eight_bit = to_eight_bit(smaller);
            assert_eq!((eight_bit.color().has_color(), eight_bit.color().has_alpha()), (color, transparent), "{was:?}");
            // Far from the edge between the halves, each pixel is as before, but for rounding.
            let smaller = eight_bit.into_rgba8();
            for (at, before) in [(9, 39), (0, 0)] {
                let (is, was_there) = (smaller.get_pixel(at, 2).0, expected.get_pixel(before, 10).0);
                assert_eq!(is[3], was_there[3], "{was:?}");
                let is_same = is.iter().zip(was_there).all(|(is, was)| is.abs_diff(was) <= 1);
                assert!(is_same || is[3] == 0, "{was:?}: {is:?} instead of {was_there:?}");
            }
        }
    }
}
