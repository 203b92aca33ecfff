//! Files on the host's machine that a message names: only within the session's directories.

use std::path::{Path, PathBuf};

use ahp_types::state::{SessionState, TextSelection};
use hostler_attachments::{AttachmentErrorCode, AttachmentSource, FileReference, FileReferenceKind, LineSelection};
use hostler_files::{FileError, FileKind, Roots};
use url::Url;

use crate::resources::SessionRoots;
use crate::sessions::action_mapper::truncate_at_char;

/// Maximum size of a selection that is sent as text; the agent can read the rest itself.
const MAX_SELECTION_BYTES: usize = 64 * 1024;

/// Why a file is rejected, without its label.
pub(super) type RefusalReason = (AttachmentErrorCode, String);

/// The directories whose files a message of this session may name; the host's own files are excluded.
pub(super) fn attachment_roots(session: &SessionState, places: &SessionRoots) -> Roots {
    let uris = session.working_directories.iter().flatten();
    let directories = uris.filter_map(|uri| Url::parse(uri).ok()?.to_file_path().ok());
    let roots = Roots::new(directories.filter(|directory| places.check(directory).is_ok()));
    places.resolved_private_paths().into_iter().fold(roots, Roots::excluding)
}

/// The path of a `file:` URI.
pub(super) fn file_path(uri: &Url) -> Option<PathBuf> {
    uri.to_file_path().ok()
}

/// Loads a file: images and PDF documents are sent as contents, other files as paths. Blocks.
pub(super) fn load_source(
    roots: &Roots,
    path: &Path,
    selection: Option<&TextSelection>,
    most: usize,
) -> Result<AttachmentSource, RefusalReason> {
    let opened = roots.open(path).map_err(refusal_reason)?;
    let found = opened.resolved().clone();
    let reference =
        |kind, selection| AttachmentSource::Reference(FileReference { path: found.path.clone(), kind, selection });
    if found.kind == FileKind::Directory {
        return Ok(reference(FileReferenceKind::Directory, None));
    }
    let contents = match opened.read(most as u64) {
        Ok(contents) => contents,
        // Too large to send, but the agent can read the file itself.
        Err(FileError::TooLarge(_)) => Vec::new(),
        Err(error) => return Err(refusal_reason(error)),
    };
    if is_image_or_pdf(&contents) {
        return Ok(AttachmentSource::Bytes(contents.into()));
    }
    Ok(reference(FileReferenceKind::File, selection.map(|selection| resolve_selection(selection, &contents))))
}

fn resolve_selection(selection: &TextSelection, contents: &[u8]) -> LineSelection {
    let line = |line: i64| u64::try_from(line).unwrap_or_default();
    let (first, last) = (line(selection.range.start.line), line(selection.range.end.line));
    let last = last.max(first);
    let count = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
    let text = std::str::from_utf8(contents).ok().map(|text| {
        let lines = text.split_inclusive('\n').skip(usize::try_from(first).unwrap_or(usize::MAX)).take(count);
        truncate_at_char(&lines.collect::<String>(), MAX_SELECTION_BYTES).to_owned()
    });
    LineSelection {
        first_line: first.saturating_add(1),
        last_line: last.saturating_add(1),
        text: text.filter(|text| !text.is_empty()),
    }
}

/// Detects the type by the bytes, not by the name.
fn is_image_or_pdf(contents: &[u8]) -> bool {
    let webp = contents.starts_with(b"RIFF") && contents.get(8..12) == Some(b"WEBP");
    let begins: [&[u8]; 5] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"%PDF-"];
    webp || begins.iter().any(|magic| contents.starts_with(magic))
}

fn refusal_reason(error: FileError) -> RefusalReason {
    let (code, sentence) = match error {
        FileError::Private => (AttachmentErrorCode::PathUnsafe, FileError::Private.to_string()),
        FileError::Outside => {
            let way_out = "add its directory to the session, or attach the file's contents";
            return (AttachmentErrorCode::PathUnsafe, format!("{}; {way_out}", FileError::Outside));
        }
        FileError::NotFound => (AttachmentErrorCode::ArtifactMissing, FileError::NotFound.to_string()),
        FileError::Special | FileError::WrongKind => (AttachmentErrorCode::TypeUnsupported, error.to_string()),
        FileError::TooLarge(_) => (AttachmentErrorCode::TooLarge, error.to_string()),
        FileError::Changed => (AttachmentErrorCode::TransportFailed, format!("{error}; send the message again")),
        // The error's own text may contain the path.
        FileError::Io(error) => (AttachmentErrorCode::TransportFailed, format!("it cannot be read: {}", error.kind())),
        other => (AttachmentErrorCode::TransportFailed, other.to_string()),
    };
    (code, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ahp_types::state::{TextPosition, TextRange};

    fn lines(first: i64, last: i64) -> TextSelection {
        let at = |line| TextPosition { line, character: 0 };
        TextSelection { range: TextRange { start: at(first), end: at(last) } }
    }

    #[test]
    fn selection_uses_whole_lines_counted_from_one() {
        let text = |selection: &TextSelection| resolve_selection(selection, b"one\ntwo\nthree").text;
        assert_eq!(text(&lines(1, 2)).as_deref(), Some("two\nthree"));
        assert_eq!(text(&lines(2, 0)).as_deref(), Some("three"), "backwards");
        assert_eq!(text(&lines(7, i64::MAX)), None, "behind the end");
        assert_eq!(text(&lines(-3, 0)).as_deref(), Some("one\n"));
        let two = resolve_selection(&lines(1, 2), b"");
        assert_eq!((two.first_line, two.last_line, two.text), (2, 3, None));
        assert_eq!(resolve_selection(&lines(0, 0), b"\xff\xfe").text, None, "no text");
        let long = resolve_selection(&lines(0, 0), "ü".repeat(MAX_SELECTION_BYTES).as_bytes()).text.unwrap();
        assert!(long.len() <= MAX_SELECTION_BYTES);
    }

    #[test]
    fn images_and_pdfs_are_detected_by_their_bytes() {
        for contents in
            [&b"\x89PNG\r\n\x1a\nx"[..], b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 ", b"%PDF-1.7"]
        {
            assert!(is_image_or_pdf(contents));
        }
        for contents in [&b""[..], b"RIFF\0\0\0\0WAVE", b"\x89PNG", b"text"] {
            assert!(!is_image_or_pdf(contents));
        }
    }
}
