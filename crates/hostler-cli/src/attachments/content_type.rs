//! Guesses the content type of an attached file by its name, then by its contents.

use std::path::Path;

/// Content types by file extension. They are a hint for clients that display the attachment: the host detects the
/// type by the contents.
const EXTENSION_CONTENT_TYPES: [(&str, &str); 24] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("heic", "image/heic"),
    ("svg", "image/svg+xml"),
    ("pdf", "application/pdf"),
    ("json", "application/json"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("html", "text/html"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("md", "text/markdown"),
];

/// Guesses by the name first, then by whether the contents are text.
pub(super) fn guess_content_type(name: &Path, contents: &[u8]) -> &'static str {
    let extension = name.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    let known = extension.and_then(|extension| EXTENSION_CONTENT_TYPES.iter().find(|(known, _)| *known == extension));
    match known {
        Some((_, content_type)) => content_type,
        None if std::str::from_utf8(contents).is_ok() => "text/plain",
        None => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_type_is_guessed_by_name_then_by_contents() {
        for (name, contents, expected) in [
            ("shot.png", &b""[..], "image/png"),
            ("SHOT.JPG", b"", "image/jpeg"),
            ("a.tar.gz", b"", "application/gzip"),
            ("main.rs", b"fn main() {}", "text/plain"),
            ("Makefile", b"", "text/plain"),
            ("core", b"\x7f\xff", "application/octet-stream"),
            (".png", b"x", "text/plain"),
        ] {
            assert_eq!(guess_content_type(Path::new(name), contents), expected, "{name}");
        }
    }
}
