//! Builds the block of files, directories and selections that the agent receives as paths.

use std::fmt::Write as _;
use std::path::Path;

use crate::{AttachmentBlock, FileReference, FileReferenceKind, LineSelection};

/// Starts every such block, so that no name is at the beginning of the text.
const REFERENCES_PREAMBLE: &str =
    "The user attached references to the places below. They may or may not be relevant to the message.\n";

/// One block for all references.
pub(crate) fn build_block<'a>(references: impl IntoIterator<Item = &'a FileReference>) -> AttachmentBlock {
    let mut text = REFERENCES_PREAMBLE.to_owned();
    for reference in references {
        write_reference(&mut text, reference);
    }
    AttachmentBlock::References(text.into())
}

fn write_reference(text: &mut String, FileReference { path, kind, selection }: &FileReference) {
    let kind = match (kind, selection) {
        (FileReferenceKind::Directory, _) => "directory",
        (FileReferenceKind::File, None) => "file",
        (FileReferenceKind::File, Some(_)) => "selection in the file",
    };
    text.push_str("\n* ");
    text.push_str(kind);
    text.push(' ');
    text.push_str(&quote_path(path));
    if let Some(selection) = selection {
        write_selection(text, selection);
    }
}

fn write_selection(text: &mut String, LineSelection { first_line, last_line, text: selected }: &LineSelection) {
    // Writing to a string cannot fail.
    let _ = if first_line == last_line {
        write!(text, ", line {first_line}")
    } else {
        write!(text, ", lines {first_line} to {last_line}")
    };
    if let Some(selected) = selected {
        let fence = code_fence(selected);
        let end = if selected.ends_with('\n') { "" } else { "\n" };
        let _ = write!(text, ":\n{fence}\n{selected}{end}{fence}");
    }
}

/// Quotes a path as a JSON string, so that it stays on its line and within its quotes.
fn quote_path(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy()).to_string()
}

/// A fence longer than any run of backticks in the text, so that the text cannot close it.
fn code_fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}
