//! What a name and a declared type say of contents.

use crate::Warning;
use crate::fault::Fault;

/// A kind of file that is known by the ends of names and by media types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    media_type: &'static str,
    shown: &'static str,
}

const KNOWN: [(&str, &[&str], &str); 7] = [
    ("image/png", &["png", "apng"], "a PNG picture"),
    ("image/jpeg", &["jpg", "jpeg", "jpe", "jfif"], "a JPEG picture"),
    ("image/gif", &["gif"], "a GIF picture"),
    ("image/webp", &["webp"], "a WebP picture"),
    ("application/pdf", &["pdf"], "a PDF document"),
    ("text/plain", &["txt"], "text"),
    ("text/markdown", &["md"], "text"),
];

/// By the name and by the declared type, where they say something that is known here.
pub(super) fn claims(name: &str, declared: Option<&str>) -> [Option<Claim>; 2] {
    let end = name.rsplit_once('.').map(|(_, end)| end.trim());
    let by_name = end.and_then(|end| find(|_, ends| ends.iter().any(|known| known.eq_ignore_ascii_case(end))));
    let declared = declared.and_then(|declared| declared.split(';').next()).map(str::trim);
    // Not a proper name, but a common one.
    let declared =
        declared.map(|declared| if declared.eq_ignore_ascii_case("image/jpg") { "image/jpeg" } else { declared });
    let by_type = declared.and_then(|declared| find(|known, _| known.eq_ignore_ascii_case(declared)));
    [by_name, by_type]
}

fn find(is_it: impl Fn(&str, &[&str]) -> bool) -> Option<Claim> {
    let (media_type, _, shown) = KNOWN.iter().find(|(media_type, ends, _)| is_it(media_type, ends))?;
    Some(Claim { media_type, shown })
}

impl Claim {
    pub(super) fn is_picture_or_document(self) -> bool {
        !self.media_type.starts_with("text/")
    }
}

/// What a person should know if the file is something else than it is called.
pub(super) fn mismatch(claims: [Option<Claim>; 2], found: &str) -> Option<Warning> {
    let claim = claims.into_iter().flatten().find(|claim| claim.media_type != found)?;
    let found = find(|media_type, _| media_type == found)?;
    Some(Warning::new(
        "mislabelled",
        format!("it is called {} but is {}, and is sent as that", claim.shown, found.shown),
    ))
}

/// The file is none of the kinds that can be looked into, although it is called one.
pub(super) fn broken(claim: Claim) -> Fault {
    Fault::corrupt(format!("it is called {} but is not one; save it again and attach that", claim.shown))
}
