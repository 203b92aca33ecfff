//! Detects the type of contents by their bytes, before anything is decoded.

mod byte_reader;
mod claimed_type;
mod gif;
mod image_header;
mod jpeg;
mod other_formats;
mod png;
mod webp;

pub(crate) use image_header::ImageHeader;

use crate::rejection_reason::RejectionReason;
use crate::text_decoding::DecodedText;
use crate::{AttachmentLimits, AttachmentWarning, ImageType, rejection_reason, text_decoding};

/// Contents of a supported type, by their headers.
#[derive(Debug)]
pub(crate) enum ProbedContent {
    Image(ImageHeader),
    Pdf,
    Text(DecodedText),
}

/// Probes contents. The name and the declared type are only compared with the detected type.
pub(crate) fn probe_content(
    bytes: &[u8],
    name: &str,
    declared: Option<&str>,
    limits: &AttachmentLimits,
) -> Result<(ProbedContent, Option<AttachmentWarning>), RejectionReason> {
    let claims = claimed_type::claimed_types(name, declared);
    if let Some(form) = detect_image_type(bytes) {
        let header = probe_image(bytes, form, limits)?;
        return Ok((ProbedContent::Image(header), claimed_type::mismatch_warning(claims, form.media_type())));
    }
    if bytes.starts_with(PDF_MAGIC) {
        other_formats::reject_zip_tail(bytes)?;
        return Ok((ProbedContent::Pdf, claimed_type::mismatch_warning(claims, "application/pdf")));
    }
    match text_decoding::decode_text(bytes) {
        Ok(text) => match claims.into_iter().flatten().find(|claim| claim.is_image_or_pdf()) {
            Some(claim) => Err(claimed_type::not_the_claimed_type(claim)),
            None => Ok((ProbedContent::Text(text), None)),
        },
        Err(fault) => Err(match claims.into_iter().flatten().next() {
            Some(claim) if claim.is_image_or_pdf() => claimed_type::not_the_claimed_type(claim),
            _ => other_formats::unsupported_type(bytes).unwrap_or(fault),
        }),
    }
}

const PDF_MAGIC: &[u8] = b"%PDF-";

fn detect_image_type(bytes: &[u8]) -> Option<ImageType> {
    if bytes.starts_with(png::MAGIC) {
        Some(ImageType::Png)
    } else if bytes.starts_with(jpeg::MAGIC) {
        Some(ImageType::Jpeg)
    } else if gif::MAGIC.iter().any(|magic| bytes.starts_with(magic)) {
        Some(ImageType::Gif)
    } else if webp::is_webp(bytes) {
        Some(ImageType::WebP)
    } else {
        None
    }
}

fn probe_image(bytes: &[u8], form: ImageType, limits: &AttachmentLimits) -> Result<ImageHeader, RejectionReason> {
    let header = match form {
        ImageType::Png => png::probe(bytes),
        ImageType::Jpeg => jpeg::probe(bytes),
        ImageType::Gif => gif::probe(bytes),
        ImageType::WebP => webp::probe(bytes),
    };
    let header = header.ok_or_else(|| {
        RejectionReason::corrupt("the image is damaged or incomplete; save it again and attach the new file")
    })?;
    if header.width == 0 || header.height == 0 {
        return Err(RejectionReason::corrupt("the image has no pixels; save it again and attach the new file"));
    }
    other_formats::reject_polyglot_image(bytes, &header)?;
    if header.decoded_pixels() > limits.image_pixels {
        return Err(RejectionReason::too_large(format!(
            "the image has {} × {} pixels, more than the maximum of {} million; reduce its size",
            header.width,
            header.height,
            limits.image_pixels.checked_mul(4).map_or(0, |most| most / header.bytes_per_pixel.max(4)) / 1_000_000
        )));
    }
    Ok(header)
}

/// A warning if data after the end of an image are not sent.
pub(crate) fn trailing_data_warning(header: &ImageHeader, bytes: &[u8]) -> Option<AttachmentWarning> {
    let behind = bytes.len().saturating_sub(header.end_offset);
    (behind > 0).then(|| {
        AttachmentWarning::new(
            "trimmed",
            format!(
                "{} after the end of the image are not sent (possibly a video or another image)",
                rejection_reason::format_bytes(behind)
            ),
        )
    })
}
