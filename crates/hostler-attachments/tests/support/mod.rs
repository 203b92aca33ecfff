//! Builds valid and invalid files of every kind, and plans them.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

pub(crate) mod gif;
pub(crate) mod jpeg;
pub(crate) mod pdf;
pub(crate) mod png;
pub(crate) mod webp;

use std::io::Cursor;

use base64::Engine as _;
use hostler_attachments::{
    AttachmentError, AttachmentErrorCode, AttachmentLimits, AttachmentPlan, AttachmentPlanError, AttachmentSource,
    ConversationSize, PlannedAttachment, ReceivedAttachment, plan_attachments,
};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

/// A file with a name and no declared type.
pub(crate) fn file(name: &str, bytes: impl Into<Vec<u8>>) -> ReceivedAttachment {
    ReceivedAttachment::new(name, AttachmentSource::Bytes(bytes.into().into()))
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(crate) fn plan_all(items: Vec<ReceivedAttachment>) -> Result<AttachmentPlan, AttachmentPlanError> {
    plan_attachments(items, &AttachmentLimits::default(), ConversationSize::default())
}

pub(crate) fn plan_within(
    item: ReceivedAttachment,
    limits: &AttachmentLimits,
) -> Result<PlannedAttachment, AttachmentError> {
    match plan_attachments(vec![item], limits, ConversationSize::default()) {
        Ok(mut plan) => Ok(plan.attachments.remove(0)),
        Err(mut rejection) => Err(rejection.errors.remove(0)),
    }
}

/// Plans one attachment that must be accepted.
#[track_caller]
pub(crate) fn sent(item: ReceivedAttachment) -> PlannedAttachment {
    plan_within(item, &AttachmentLimits::default()).unwrap()
}

/// The code and message of one attachment that must be rejected.
#[track_caller]
pub(crate) fn refused(item: ReceivedAttachment) -> (AttachmentErrorCode, String) {
    let refusal = plan_within(item, &AttachmentLimits::default()).unwrap_err();
    (refusal.code, refusal.message)
}

/// The codes of its warnings.
pub(crate) fn warnings(file: &PlannedAttachment) -> Vec<&'static str> {
    file.warnings.iter().map(|warning| warning.kind).collect()
}

pub(crate) fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

/// A gradient, which encoders cannot reduce to nothing.
pub(crate) fn gradient(width: u32, height: u32) -> DynamicImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([(x % 256) as u8, (y % 256) as u8, ((x + y) % 256) as u8])).into()
}

/// A gradient that becomes more transparent to the right.
pub(crate) fn veiled(width: u32, height: u32) -> DynamicImage {
    RgbaImage::from_fn(width, height, |x, y| Rgba([x as u8, y as u8, 7, (x * 255 / width) as u8])).into()
}

/// Pixels that cannot be compressed; the same ones every time.
pub(crate) fn noise(width: u32, height: u32, alpha: bool) -> DynamicImage {
    let mut state = 0x2545_f491_u32;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    let mut image = RgbaImage::from_fn(width, height, |_, _| Rgba(random()));
    if alpha {
        return image.into();
    }
    image.pixels_mut().for_each(|pixel| pixel.0[3] = 255);
    DynamicImage::ImageRgb8(DynamicImage::from(image).into_rgb8())
}

/// The position of a byte sequence in a file.
pub(crate) fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Metadata as cameras write them: an orientation and a location.
pub(crate) fn exif(orientation: u8) -> Vec<u8> {
    let mut exif = b"II*\0\x08\0\0\0\x02\0".to_vec();
    exif.extend([0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0]);
    // A description, whose text follows the table.
    exif.extend([0x0e, 0x01, 2, 0, 22, 0, 0, 0, 38, 0, 0, 0]);
    exif.extend([0; 4]);
    exif.extend(b"GPS 52.5200N 13.4050E\0");
    exif
}
