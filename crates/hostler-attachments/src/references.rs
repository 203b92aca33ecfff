//! Files, directories and selections that the agent is told the place of.

use std::fmt::Write as _;
use std::path::Path;

use crate::{Block, Reference, ReferenceKind, Selection};

/// Begins every such block, so that no name can stand at the beginning of what the agent reads.
const HEAD: &str =
    "The user attached references to the places below. They may or may not be relevant to the message.\n";

/// One block for all of them.
pub(crate) fn block<'a>(references: impl IntoIterator<Item = &'a Reference>) -> Block {
    let mut text = HEAD.to_owned();
    for reference in references {
        list(&mut text, reference);
    }
    Block::References(text.into())
}

fn list(text: &mut String, Reference { path, kind, selection }: &Reference) {
    let kind = match (kind, selection) {
        (ReferenceKind::Directory, _) => "directory",
        (ReferenceKind::File, None) => "file",
        (ReferenceKind::File, Some(_)) => "selection in the file",
    };
    text.push_str("\n* ");
    text.push_str(kind);
    text.push(' ');
    text.push_str(&quoted(path));
    if let Some(selection) = selection {
        select(text, selection);
    }
}

fn select(text: &mut String, Selection { first_line, last_line, text: selected }: &Selection) {
    // Writing to a string cannot fail.
    let _ = if first_line == last_line {
        write!(text, ", line {first_line}")
    } else {
        write!(text, ", lines {first_line} to {last_line}")
    };
    if let Some(selected) = selected {
        let fence = fence(selected);
        let end = if selected.ends_with('\n') { "" } else { "\n" };
        let _ = write!(text, ":\n{fence}\n{selected}{end}{fence}");
    }
}

/// As JSON writes a string, so that a name stays on its line and within its quotes.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy()).to_string()
}

/// Longer than any run of backticks in the text, which therefore cannot end it.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}
