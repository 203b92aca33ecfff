//! Unit tests of removing images from a transcript.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::os::unix::fs::PermissionsExt as _;

use super::*;

const IMAGE: &str = r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aQ=="}}"#;
const PDF: &str =
    r#"{"source": {"type":"base64","media_type":"application/pdf","data":"JQ=="}, "type" : "document","title":"x"}"#;
const TEXT: &str = r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"é"}}"#;
const REMOVED_IMAGE: &str = r#"{"type":"text","text":"[This image was removed from the conversation.]"}"#;
const REMOVED_DOCUMENT: &str = r#"{"type":"text","text":"[This document was removed from the conversation.]"}"#;

/// A transcript with every kind of line, and the given replacements of images.
fn transcript(image: &str, pdf: &str, last: &str) -> String {
    [
        r#"{"type":"queue-operation","operation":"enqueue"}"#.to_owned(),
        format!(
            r#"{{"z":1, "type":"user","isSidechain":false,"message":{{"role":"user","content":[{{"type":"text","text":"é 🦀 \u00e9"}},{image},{TEXT},{pdf}]}},"uuid":"u"}}"#
        ),
        format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":[{{"type":"text","text":"x"}},{image}]}}]}},"toolUseResult":{{"type":"image"}}}}"#
        ),
        // Not a message of this conversation, or of an unknown kind.
        format!(r#"{{"type":"user","isSidechain":true,"message":{{"content":[{IMAGE}]}}}}"#),
        format!(r#"{{"type":"api-request-blob","message":{{"content":[{IMAGE}]}}}}"#),
        format!(r#"{{"type":"from-the-future","body":[{IMAGE}]"#),
        r#"{"type":"user","message":{"content":"an \"image\" in text"}}"#.to_owned(),
        format!(r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"ok"}},{IMAGE}]}}}}"#),
        format!(r#"{{"type":"attachment","attachment":{{"type":"queued_command","prompt":[{{"type":"text","text":"w"}},{last}]}}}}"#),
        r#"{"type":"last-prompt","lastPr"#.to_owned(),
    ]
    .join("\n")
}

#[test]
fn images_are_replaced_and_everything_else_is_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.jsonl");
    for (which, expected, count) in [
        (ImageSelection::All, transcript(REMOVED_IMAGE, REMOVED_DOCUMENT, REMOVED_IMAGE), 4),
        (ImageSelection::Last, transcript(IMAGE, PDF, REMOVED_IMAGE), 1),
    ] {
        std::fs::write(&path, transcript(IMAGE, PDF, IMAGE)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(rewrite_transcript(&path, which).unwrap(), count, "{which:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected, "{which:?}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file remains");
    }
}

#[test]
fn transcript_without_images_is_not_rewritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.jsonl");
    std::fs::write(&path, transcript(REMOVED_IMAGE, REMOVED_DOCUMENT, REMOVED_IMAGE)).unwrap();
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(rewrite_transcript(&path, ImageSelection::All).unwrap(), 0);
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert_eq!(
        rewrite_transcript(&directory.path().join("none.jsonl"), ImageSelection::All).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}
