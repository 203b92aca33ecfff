//! Finds images in a line of a transcript. Knows nothing of files.

use std::io::{self, Write};
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::WireText;

/// The block that replaces an image.
const IMAGE_REMOVED_BLOCK: &str = r#"{"type":"text","text":"[This image was removed from the conversation.]"}"#;
/// The block that replaces a document.
const DOCUMENT_REMOVED_BLOCK: &str = r#"{"type":"text","text":"[This document was removed from the conversation.]"}"#;

/// Maximum nesting of blocks: a tool result contains blocks, and those contain none.
const MAX_BLOCK_DEPTH: usize = 2;

/// An image, or a document that is not text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ImageBlock {
    byte_range: Range<usize>,
    replacement: &'static str,
}

/// The stored form of a message, or of a message that was folded into a turn.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(rename = "type", borrow)]
    kind: WireText<'a>,
    #[serde(rename = "isSidechain", default)]
    is_sidechain: bool,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(borrow, default)]
    attachment: Option<Attachment<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Attachment<'a> {
    #[serde(rename = "type", borrow)]
    kind: WireText<'a>,
    #[serde(borrow, default)]
    prompt: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: WireText<'a>,
    #[serde(borrow, default)]
    source: Option<Source<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<WireText<'a>>,
}

/// The images of a line, in order.
pub(super) fn find_images(line: &[u8]) -> Vec<ImageBlock> {
    let mut found = Vec::new();
    let Ok(text) = std::str::from_utf8(line) else { return found };
    // Most lines are skipped without being parsed.
    if !text.contains("\"image\"") && !text.contains("\"document\"") {
        return found;
    }
    let Ok(record) = serde_json::from_str::<Record<'_>>(text) else { return found };
    let blocks = match (&*record.kind, record.message, record.attachment) {
        _ if record.is_sidechain => None,
        ("user", Some(message), _) => message.content,
        ("attachment", _, Some(attachment)) if &*attachment.kind == "queued_command" => attachment.prompt,
        _ => None,
    };
    if let Some(blocks) = blocks {
        collect_images(text, blocks, MAX_BLOCK_DEPTH, &mut found);
    }
    found
}

fn collect_images(line: &str, blocks: &RawValue, depth: usize, found: &mut Vec<ImageBlock>) {
    // Plain text is stored as a string.
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(blocks.get()) else { return };
    for raw in blocks {
        let Ok(block) = serde_json::from_str::<Block<'_>>(raw.get()) else { continue };
        let is_text = || block.source.as_ref().and_then(|source| source.kind.as_deref()) == Some("text");
        let instead = match (&*block.kind, block.content) {
            ("image", _) => IMAGE_REMOVED_BLOCK,
            ("document", _) if !is_text() => DOCUMENT_REMOVED_BLOCK,
            ("tool_result", Some(inner)) if depth > 1 => {
                collect_images(line, inner, depth - 1, found);
                continue;
            }
            _ => continue,
        };
        found.extend(byte_range_of(line, raw.get()).map(|at| ImageBlock { byte_range: at, replacement: instead }));
    }
}

/// The byte range of a parsed part within its line.
fn byte_range_of(line: &str, part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (line.get(start..end)? == part).then_some(start..end)
}

/// Writes the line with text blocks in place of images; everything else is unchanged.
pub(super) fn write_without_images(line: &[u8], images: &[ImageBlock], out: &mut impl Write) -> io::Result<()> {
    let mut copied = 0;
    for ImageBlock { byte_range: at, replacement: instead } in images {
        out.write_all(line.get(copied..at.start).unwrap_or_default())?;
        out.write_all(instead.as_bytes())?;
        copied = at.end;
    }
    out.write_all(line.get(copied..).unwrap_or_default())
}
