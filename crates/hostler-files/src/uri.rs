//! `file:` URIs. This parser is stricter than a general one: characters that others normalize (a backslash, a line
//! break, a drive letter) would name another file.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use url::Url;

use crate::FileError;

/// Length limit of a URI: the longest path, completely percent-encoded.
const MAX_URI_BYTES: usize = 3 * 4096;

/// The absolute local path of a `file:` URI.
///
/// # Errors
/// If the text is not such a URI, or no file can have the name.
pub fn file_uri_to_path(uri: &str) -> Result<PathBuf, FileError> {
    let (scheme, rest) = uri.split_once(':').ok_or(FileError::InvalidName("not a URI; use file:///path"))?;
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(FileError::InvalidName("unsupported URI scheme; use file:///path"));
    }
    if uri.len() > MAX_URI_BYTES {
        return Err(FileError::InvalidName("the URI is too long"));
    }
    if rest.contains(['?', '#']) {
        return Err(FileError::InvalidName("a file URI has no query and no fragment; percent-encode ? and #"));
    }
    if rest.chars().any(|c| c.is_control() || matches!(c, ' ' | '\\')) {
        return Err(FileError::InvalidName("the URI contains a character that must be percent-encoded"));
    }
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(rest) => {
            let slash = rest.find('/').ok_or(FileError::InvalidName("the URI has no path"))?;
            let (host, path) = rest.split_at(slash);
            if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
                return Err(FileError::InvalidName("the URI has the host name of another machine"));
            }
            path
        }
    };
    if !path.starts_with('/') {
        return Err(FileError::InvalidName("the URI's path is not absolute"));
    }
    Ok(PathBuf::from(OsString::from_vec(percent_decode(path)?)))
}

/// Decodes the bytes of a path.
fn percent_decode(path: &str) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut letters = path.bytes();
    while let Some(letter) = letters.next() {
        if letter != b'%' {
            bytes.push(letter);
            continue;
        }
        let mut digit = || letters.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(FileError::InvalidName("% must be followed by two hexadecimal digits"));
        };
        match u8::try_from(high * 16 + low) {
            Ok(0) => return Err(FileError::InvalidName("a file name must not contain a null byte")),
            Ok(b'/') => return Err(FileError::InvalidName("a file name must not contain a slash")),
            Ok(byte) => bytes.push(byte),
            Err(_) => return Err(FileError::InvalidName("% must be followed by two hexadecimal digits")),
        }
    }
    Ok(bytes)
}

/// The URI of an absolute path.
///
/// # Errors
/// If the path is not absolute.
pub fn path_to_file_uri(path: &Path) -> Result<String, FileError> {
    Url::from_file_path(path).map(String::from).map_err(|()| FileError::InvalidName("the path is not absolute"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn local_file_uris_become_paths() {
        let long = format!("/{}", "x".repeat(300));
        for (uri, path) in [
            ("file:///a/b", &b"/a/b"[..]),
            ("FILE:///a", b"/a"),
            ("file://localhost/a", b"/a"),
            ("file://LocalHost/a", b"/a"),
            ("file:/a", b"/a"),
            ("file:///", b"/"),
            ("file:///a%20b%3f%23", b"/a b?#"),
            ("file:///%C3%BC", "/ü".as_bytes()),
            ("file:///ü", "/ü".as_bytes()),
            ("file:///%ff%FE", b"/\xff\xfe"),
            ("file:///a%5cb", b"/a\\b"),
            ("file:///a%0Ab", b"/a\nb"),
            ("file:///C:/x", b"/C:/x"),
            ("file:///a./b../", b"/a./b../"),
            // Encoded twice, decoded once.
            ("file:///%252e%252e/x", b"/%2e%2e/x"),
            // The kernel resolves `..`.
            ("file:///a/../b", b"/a/../b"),
            ("file:///a/%2e%2E/b", b"/a/../b"),
            ("file:////a", b"//a"),
            (&format!("file://{long}"), long.as_bytes()),
        ] {
            assert_eq!(file_uri_to_path(uri).unwrap().as_os_str().as_bytes(), path, "{uri}");
        }
    }

    #[test]
    fn other_uris_are_refused() {
        for uri in [
            "",
            "/etc/passwd",
            "file",
            "file:",
            "file:a",
            "file://",
            "file://host/a",
            "file://127.0.0.1/a",
            "file://localhost.example/a",
            "file://user@/a",
            "file:///a?b",
            "file:///a#b",
            "file:///a b",
            "file:///a\\b",
            "file:///a\nb",
            "file:///a\0",
            "file:///a%00b",
            "file:///a%2fb",
            "file:///a%2Fb",
            "file:///a%",
            "file:///a%4",
            "file:///a%zz",
            "file:///%é0",
            "http://localhost/a",
            "vscode-remote:///a",
            "ahp-content:/x",
        ] {
            assert!(matches!(file_uri_to_path(uri), Err(FileError::InvalidName(_))), "{uri:?}");
        }
        assert!(file_uri_to_path(&format!("file:///{}", "x".repeat(MAX_URI_BYTES))).is_err());
    }

    #[test]
    fn path_to_uri_round_trips() {
        for path in [&b"/a b/c?d#e%41\\f"[..], b"/\xff\n\xfe", "/ü/日本".as_bytes(), b"/C:/x", b"/"] {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            assert_eq!(file_uri_to_path(&path_to_file_uri(path).unwrap()).unwrap(), path);
        }
        assert!(path_to_file_uri(Path::new("relative")).is_err());
    }
}
