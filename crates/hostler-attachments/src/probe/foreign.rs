//! Contents of other kinds, and contents that are of two kinds at once.

use super::Header;
use crate::fault::{BY_PATH, Fault};

/// How far into a file readers of PDF look for its beginning.
const PDF_REACH: usize = 1024;
/// The record at the end of a ZIP archive, without its comment.
const ZIP_END: usize = 22;
const ZIP_COMMENT: usize = 65_535;

/// A picture that is something else too, depending on who opens it, is no picture that anybody made in good faith.
pub(super) fn check_picture(bytes: &[u8], header: &Header) -> Result<(), Fault> {
    let head = bytes.get(..PDF_REACH).unwrap_or(bytes);
    let behind = bytes.get(header.end..).unwrap_or_default();
    let is_pdf = contains(head, super::PDF) || contains(behind, super::PDF);
    // Cameras put films and further pictures behind a picture. Those are left out; programs and pages are suspicious.
    let strange = infer::get(behind).is_some_and(|kind| {
        !matches!(
            kind.matcher_type(),
            infer::MatcherType::Image | infer::MatcherType::Video | infer::MatcherType::Audio
        )
    });
    if is_pdf || strange {
        return Err(two_kinds());
    }
    check_tail(bytes)
}

/// ZIP archives are read from their end, whatever they begin with.
pub(super) fn check_tail(bytes: &[u8]) -> Result<(), Fault> {
    let tail = bytes.get(bytes.len().saturating_sub(ZIP_END + ZIP_COMMENT)..).unwrap_or_default();
    let is_end = |at: usize| {
        let record = tail.get(at..at + ZIP_END)?;
        let [.., low, high] = record else { return None };
        let comment = usize::from(u16::from_le_bytes([*low, *high]));
        (record.starts_with(b"PK\x05\x06") && at + ZIP_END + comment == tail.len()).then_some(())
    };
    if (0..tail.len()).any(|at| tail.get(at) == Some(&b'P') && is_end(at).is_some()) {
        return Err(two_kinds());
    }
    Ok(())
}

fn two_kinds() -> Fault {
    Fault::corrupt("it is a file of two kinds at once, which is a way to hide something; save it again and attach that")
}

/// What is known of other kinds, in a sentence.
pub(super) fn unsupported(bytes: &[u8]) -> Option<Fault> {
    let kind = infer::get(bytes)?;
    let what = match kind.matcher_type() {
        infer::MatcherType::Image => {
            return Some(Fault::unsupported(
                "it is a picture of a kind that models do not take; save it as PNG or JPEG and attach that",
            ));
        }
        infer::MatcherType::Archive => "an archive",
        infer::MatcherType::Audio => "a sound",
        infer::MatcherType::Video => "a film",
        infer::MatcherType::App => "a program",
        infer::MatcherType::Doc => "an office document",
        infer::MatcherType::Book => "an electronic book",
        infer::MatcherType::Font => "a font",
        _ => return None,
    };
    Some(Fault::unsupported(format!("it is {what}, which cannot be sent; {BY_PATH}")))
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
