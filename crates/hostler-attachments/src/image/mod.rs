//! Prepares images for models: sends an image unchanged, without its metadata, or re-encoded, whichever changes less.
//!
//! One image is in memory at a time. It takes at most about ten bytes for each pixel that
//! [`AttachmentLimits::image_pixels`] allows: the decoder's tables and the pixels, or the pixels and a copy with
//! premultiplied alpha.

mod decode;
mod downscale;
mod encode;
mod strip;

use std::sync::Arc;

use crate::probe::ImageHeader;
use crate::rejection_reason::RejectionReason;
use crate::{AttachmentLimits, AttachmentWarning, ImageType, probe, rejection_reason};

/// An image as it is sent.
pub(crate) struct OptimizedImage {
    pub(crate) image_type: ImageType,
    pub(crate) data: Arc<[u8]>,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) warnings: Vec<AttachmentWarning>,
}

/// Prepares an image: unchanged if possible, without its metadata if it has any, otherwise decoded and re-encoded.
pub(crate) fn optimize(
    file: &Arc<[u8]>,
    header: &ImageHeader,
    limits: &AttachmentLimits,
) -> Result<OptimizedImage, RejectionReason> {
    let mut warnings: Vec<AttachmentWarning> = probe::trailing_data_warning(header, file).into_iter().collect();
    let bare = if header.is_whole_file(file) { Arc::clone(file) } else { strip::strip_metadata(file, header).into() };
    if header.is_animated() {
        check_animation(header, bare.len(), limits)?;
    }
    if header.is_animated() || can_send_unchanged(header, bare.len(), limits) {
        decode::verify(&bare, header)?;
        let ImageHeader { image_type: form, width, height, .. } = *header;
        return Ok(OptimizedImage { image_type: form, data: bare, width, height, warnings });
    }
    let decoded = decode::decode(file, header)?;
    let shrunk = downscale::downscale(decoded, limits.effective_image_edge_pixels())?;
    let mut upright = downscale::to_eight_bit(shrunk);
    upright.apply_orientation(header.orientation);
    let made = encode::encode_within(upright, header.is_lossless, limits.image_bytes)?;
    warnings.extend(change_warnings(header, &made, bare.len() > limits.image_bytes));
    Ok(OptimizedImage {
        image_type: made.image_type,
        data: made.data.into(),
        width: made.width,
        height: made.height,
        warnings,
    })
}

/// Whether it can be sent with unchanged pixels.
fn can_send_unchanged(header: &ImageHeader, bytes: usize, limits: &AttachmentLimits) -> bool {
    header.orientation == image::metadata::Orientation::NoTransforms
        && header.unusual_colors.is_none()
        && header.width.max(header.height) <= limits.effective_image_edge_pixels()
        && bytes <= limits.image_bytes
}

/// An animation is sent unchanged or rejected, because a single frame would be another image.
fn check_animation(header: &ImageHeader, bytes: usize, limits: &AttachmentLimits) -> Result<(), RejectionReason> {
    let why = if header.width.max(header.height) > AttachmentLimits::MAX_IMAGE_EDGE_PIXELS {
        format!("one of its edges is longer than {} pixels", AttachmentLimits::MAX_IMAGE_EDGE_PIXELS)
    } else if bytes > limits.image_bytes {
        format!("larger than {}", rejection_reason::format_bytes(limits.image_bytes))
    } else {
        return Ok(());
    };
    Err(RejectionReason::too_large(format!(
        "the image is animated and {why}; resizing would remove the animation, so resize it yourself or attach frames"
    )))
}

/// Warnings about visible changes.
fn change_warnings(header: &ImageHeader, made: &encode::EncodedImage, was_too_large: bool) -> Vec<AttachmentWarning> {
    let mut warnings = Vec::new();
    let upright = {
        use image::metadata::Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
        match header.orientation {
            Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH => (header.height, header.width),
            _ => (header.width, header.height),
        }
    };
    let is_smaller = upright != (made.width, made.height);
    if is_smaller {
        let (width, height) = upright;
        let message = format!("resized from {width} × {height} to {} × {} pixels", made.width, made.height);
        warnings.push(AttachmentWarning::new("shrunk", message));
    }
    if let Some(colors) = header.unusual_colors {
        warnings.push(AttachmentWarning::new("converted", format!("converted from {colors} to standard colors")));
    }
    if made.image_type != header.image_type {
        let (was, is) = (image_type_name(header.image_type), image_type_name(made.image_type));
        warnings.push(AttachmentWarning::new("converted", format!("converted from {was} to {is}")));
    }
    if made.is_visibly_lossy || was_too_large && !is_smaller && made.image_type == ImageType::Jpeg {
        warnings.push(AttachmentWarning::new("compressed", "sent with less detail because it was too large"));
    }
    warnings
}

fn image_type_name(form: ImageType) -> &'static str {
    match form {
        ImageType::Png => "PNG",
        ImageType::Jpeg => "JPEG",
        ImageType::Gif => "GIF",
        ImageType::WebP => "WebP",
    }
}
