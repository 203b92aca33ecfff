//! The type that a file name and a declared media type claim.

use crate::AttachmentWarning;
use crate::rejection_reason::RejectionReason;

/// A type, known by file extensions and media types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClaimedType {
    media_type: &'static str,
    description: &'static str,
}

const KNOWN_TYPES: [(&str, &[&str], &str); 7] = [
    ("image/png", &["png", "apng"], "a PNG image"),
    ("image/jpeg", &["jpg", "jpeg", "jpe", "jfif"], "a JPEG image"),
    ("image/gif", &["gif"], "a GIF image"),
    ("image/webp", &["webp"], "a WebP image"),
    ("application/pdf", &["pdf"], "a PDF document"),
    ("text/plain", &["txt"], "text"),
    ("text/markdown", &["md"], "text"),
];

/// The types claimed by the name and by the declared media type, if they are known.
pub(super) fn claimed_types(name: &str, declared: Option<&str>) -> [Option<ClaimedType>; 2] {
    let end = name.rsplit_once('.').map(|(_, end)| end.trim());
    let by_name =
        end.and_then(|end| find_known_type(|_, ends| ends.iter().any(|known| known.eq_ignore_ascii_case(end))));
    let declared = declared.and_then(|declared| declared.split(';').next()).map(str::trim);
    // Not a registered media type, but a common one.
    let declared =
        declared.map(|declared| if declared.eq_ignore_ascii_case("image/jpg") { "image/jpeg" } else { declared });
    let by_type = declared.and_then(|declared| find_known_type(|known, _| known.eq_ignore_ascii_case(declared)));
    [by_name, by_type]
}

fn find_known_type(is_it: impl Fn(&str, &[&str]) -> bool) -> Option<ClaimedType> {
    let (media_type, _, shown) = KNOWN_TYPES.iter().find(|(media_type, ends, _)| is_it(media_type, ends))?;
    Some(ClaimedType { media_type, description: shown })
}

impl ClaimedType {
    pub(super) fn is_image_or_pdf(self) -> bool {
        !self.media_type.starts_with("text/")
    }
}

/// A warning if the detected type differs from the claimed one.
pub(super) fn mismatch_warning(claims: [Option<ClaimedType>; 2], found: &str) -> Option<AttachmentWarning> {
    let claim = claims.into_iter().flatten().find(|claim| claim.media_type != found)?;
    let found = find_known_type(|media_type, _| media_type == found)?;
    Some(AttachmentWarning::new(
        "mislabelled",
        format!("the file is labeled as {} but is {}, and is sent as such", claim.description, found.description),
    ))
}

/// The error for contents of no supported type that are named or declared as one.
pub(super) fn not_the_claimed_type(claim: ClaimedType) -> RejectionReason {
    RejectionReason::corrupt(format!(
        "the file is labeled as {} but is not one; save it again and attach the new file",
        claim.description
    ))
}
