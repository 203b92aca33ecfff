//! Where pictures stand in a line of a transcript. Knows nothing of files.

use std::io::{self, Write};
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::WireText;

/// What stands in a picture's place.
const IMAGE_REMOVED_BLOCK: &str =
    r#"{"type":"text","text":"[A picture was here. It was removed from the conversation.]"}"#;
/// What stands in a document's place.
const DOCUMENT_REMOVED_BLOCK: &str =
    r#"{"type":"text","text":"[A document was here. It was removed from the conversation.]"}"#;

/// How deep blocks stand in blocks: a tool's result holds blocks, and no block of it holds others.
const MAX_BLOCK_DEPTH: usize = 2;

/// A picture, or a document that is not text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ImageBlock {
    byte_range: Range<usize>,
    replacement: &'static str,
}

/// What a message, or one that was folded into a turn, is stored as.
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

/// The pictures of a line, in their order.
pub(super) fn find_images(line: &[u8]) -> Vec<ImageBlock> {
    let mut found = Vec::new();
    let Ok(text) = std::str::from_utf8(line) else { return found };
    // Most lines are let pass without being read.
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
    // Words alone are stored as a string.
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

/// Where a part that was read out of a line stands in it.
fn byte_range_of(line: &str, part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (line.get(start..end)? == part).then_some(start..end)
}

/// The line with words in the pictures' places; everything else as it is.
pub(super) fn write_without_images(line: &[u8], pictures: &[ImageBlock], out: &mut impl Write) -> io::Result<()> {
    let mut copied = 0;
    for ImageBlock { byte_range: at, replacement: instead } in pictures {
        out.write_all(line.get(copied..at.start).unwrap_or_default())?;
        out.write_all(instead.as_bytes())?;
        copied = at.end;
    }
    out.write_all(line.get(copied..).unwrap_or_default())
}
