//! Detects unsupported types and polyglot files.

use super::ImageHeader;
use crate::rejection_reason::{ATTACH_PATH_HINT, RejectionReason};

/// How far into a file PDF readers look for its magic number.
const PDF_MAGIC_SEARCH_BYTES: usize = 1024;
/// Size of the end record of a ZIP archive, without its comment.
const ZIP_END_RECORD_BYTES: usize = 22;
const MAX_ZIP_COMMENT_BYTES: usize = 65_535;

/// Rejects an image that other programs open as another type; such a file is likely malicious.
pub(super) fn reject_polyglot_image(bytes: &[u8], header: &ImageHeader) -> Result<(), RejectionReason> {
    let head = bytes.get(..PDF_MAGIC_SEARCH_BYTES).unwrap_or(bytes);
    let behind = bytes.get(header.end_offset..).unwrap_or_default();
    let is_pdf = contains_bytes(head, super::PDF_MAGIC) || contains_bytes(behind, super::PDF_MAGIC);
    // Cameras append videos and further images, which are not sent; programs and HTML are suspicious.
    let strange = infer::get(behind).is_some_and(|kind| {
        !matches!(
            kind.matcher_type(),
            infer::MatcherType::Image | infer::MatcherType::Video | infer::MatcherType::Audio
        )
    });
    if is_pdf || strange {
        return Err(polyglot_file());
    }
    reject_zip_tail(bytes)
}

/// Rejects a file that ends as a ZIP archive, because archives are read from their end.
pub(super) fn reject_zip_tail(bytes: &[u8]) -> Result<(), RejectionReason> {
    let tail =
        bytes.get(bytes.len().saturating_sub(ZIP_END_RECORD_BYTES + MAX_ZIP_COMMENT_BYTES)..).unwrap_or_default();
    let is_end = |at: usize| {
        let record = tail.get(at..at + ZIP_END_RECORD_BYTES)?;
        let [.., low, high] = record else { return None };
        let comment = usize::from(u16::from_le_bytes([*low, *high]));
        (record.starts_with(b"PK\x05\x06") && at + ZIP_END_RECORD_BYTES + comment == tail.len()).then_some(())
    };
    if (0..tail.len()).any(|at| tail.get(at) == Some(&b'P') && is_end(at).is_some()) {
        return Err(polyglot_file());
    }
    Ok(())
}

fn polyglot_file() -> RejectionReason {
    RejectionReason::corrupt(
        "the file is of two types at once, which can hide contents; save it again and attach the new file",
    )
}

/// A rejection for a known unsupported type.
pub(super) fn unsupported_type(bytes: &[u8]) -> Option<RejectionReason> {
    let kind = infer::get(bytes)?;
    let what = match kind.matcher_type() {
        infer::MatcherType::Image => {
            return Some(RejectionReason::unsupported_type(
                "the image format is not supported; save it as PNG or JPEG and attach the new file",
            ));
        }
        infer::MatcherType::Archive => "an archive",
        infer::MatcherType::Audio => "an audio file",
        infer::MatcherType::Video => "a video",
        infer::MatcherType::App => "a program",
        infer::MatcherType::Doc => "an office document",
        infer::MatcherType::Book => "an e-book",
        infer::MatcherType::Font => "a font",
        _ => return None,
    };
    Some(RejectionReason::unsupported_type(format!("the file is {what}, which cannot be sent; {ATTACH_PATH_HINT}")))
}

fn contains_bytes(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
