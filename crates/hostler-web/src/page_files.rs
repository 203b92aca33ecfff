//! The built files of the page, and their properties by file name.

use bytes::Bytes;
use rust_embed::Embed;

#[derive(Embed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct EmbeddedDist;

/// A file of the page. Its compressed copies are files of their own, named `….br` and `….gz`.
#[derive(Debug, Clone)]
pub struct PageFile {
    /// Its path below the page's directory, with `/` as separator.
    pub path: String,
    /// Its content.
    pub content: Bytes,
    /// Hash of the content.
    pub hash: [u8; 32],
}

/// The files embedded in this binary; none if the page was not built before it. A debug binary reads the current build
/// output.
pub(crate) fn load_embedded() -> impl Iterator<Item = PageFile> {
    EmbeddedDist::iter().filter_map(|path| {
        let file = EmbeddedDist::get(&path)?;
        let content = match file.data {
            std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
        };
        Some(PageFile { path: path.into_owned(), content, hash: file.metadata.sha256_hash() })
    })
}

/// The media type of a file, by its extension.
pub(crate) fn media_type(path: &str) -> &'static str {
    let end = path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |(_, end)| end);
    match end {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

/// Whether the name changes with the content, so that caches never revalidate it: Vite puts such files into a directory
/// of their own, with a hash of eight characters before the extension.
pub(crate) fn is_hashed(path: &str) -> bool {
    let Some(name) = path.strip_prefix("assets/") else { return false };
    let hash = name.rsplit_once('.').and_then(|(stem, _)| stem.get(stem.len().checked_sub(9)?..));
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-');
    hash.and_then(|hash| hash.strip_prefix('-')).is_some_and(|hash| hash.chars().all(is_sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_derived_from_extensions() {
        for (path, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("assets/index-Ab3_x-9Z.js", "text/javascript; charset=utf-8"),
            ("assets/a.b.css", "text/css; charset=utf-8"),
            ("icon.svg", "image/svg+xml"),
            ("icon-512.png", "image/png"),
            ("hostler.webmanifest", "application/manifest+json"),
            ("assets/inter-12345678.woff2", "font/woff2"),
            ("about.json", "application/json"),
            ("favicon.ico", "image/x-icon"),
            ("LICENSE", "application/octet-stream"),
            ("v1.2/LICENSE", "application/octet-stream"),
        ] {
            assert_eq!(media_type(path), expected, "{path}");
        }
    }

    #[test]
    fn only_hashed_names_are_immutable() {
        for path in ["assets/index-Ab3_x-9Z.js", "assets/a-b-DeadBeef.woff2", "assets/index--_-_-_-_.css"] {
            assert!(is_hashed(path), "{path}");
        }
        for path in ["index.html", "index-Ab3_x-9Z.js", "assets/index.js", "assets/a-short.js", "assets/äöüß-.js"] {
            assert!(!is_hashed(path), "{path}");
        }
    }
}
