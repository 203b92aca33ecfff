//! Metadata records of a conversation. They may appear anywhere in its transcript, and the last of each kind applies.

use serde::Deserialize;

use crate::wire::WireText;

use super::lines;

/// Maximum length of a title: more than clients may write.
const MAX_TITLE_CHARS: usize = 1024;

/// Maximum length of other text in a list.
const MAX_LISTED_TEXT_CHARS: usize = 200;

/// How metadata records start, in every build: the agent itself searches for the same prefixes.
const METADATA_TYPES: [&[u8]; 5] = [b"custom-title\"", b"ai-title\"", b"last-prompt\"", b"summary\"", b"tag\""];

/// The metadata of a conversation. `None`: no record was seen; an empty value removes an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptMetadata {
    /// The title that a person set.
    pub custom_title: Option<String>,
    /// The title that the agent generated.
    pub ai_title: Option<String>,
    /// The last prompt, if the agent notes it.
    pub last_prompt: Option<String>,
    /// The title of an older build.
    pub summary: Option<String>,
    /// Its tag.
    pub tag: Option<String>,
}

impl TranscriptMetadata {
    /// Reads the metadata in a piece of a transcript. Its first and last line may be partial and are then skipped.
    pub fn read_lines(&mut self, piece: &[u8]) {
        lines::split_lines(piece).for_each(|line| self.read_line(line));
    }

    /// Reads a line, if it is a metadata record.
    pub(super) fn read_line(&mut self, line: &[u8]) {
        // Most lines are messages or bookkeeping; few are parsed.
        let is_note = line
            .strip_prefix(b"{\"type\":\"")
            .is_some_and(|rest| METADATA_TYPES.iter().any(|note| rest.starts_with(note)));
        let Some(note) = is_note.then(|| serde_json::from_slice::<MetadataRecord<'_>>(line).ok()).flatten() else {
            return;
        };
        let (slot, value) = match &*note.label {
            "custom-title" => (&mut self.custom_title, &note.custom_title),
            "ai-title" => (&mut self.ai_title, &note.ai_title),
            "last-prompt" => (&mut self.last_prompt, &note.last_prompt),
            "summary" => (&mut self.summary, &note.summary),
            "tag" => (&mut self.tag, &note.tag),
            _ => return,
        };
        let value = value.as_deref().unwrap_or_default();
        // Titles and tags that a person set remain unchanged: they may have been set here.
        let is_name = matches!(&*note.label, "custom-title" | "tag");
        *slot = Some(if is_name { clean_title(value) } else { to_single_line(value) });
    }
}

#[derive(Deserialize)]
struct MetadataRecord<'a> {
    #[serde(rename = "type", borrow)]
    label: WireText<'a>,
    #[serde(rename = "customTitle", borrow, default)]
    custom_title: Option<WireText<'a>>,
    #[serde(rename = "aiTitle", borrow, default)]
    ai_title: Option<WireText<'a>>,
    #[serde(rename = "lastPrompt", borrow, default)]
    last_prompt: Option<WireText<'a>>,
    #[serde(borrow, default)]
    summary: Option<WireText<'a>>,
    #[serde(borrow, default)]
    tag: Option<WireText<'a>>,
}

/// A title, truncated only if it is absurdly long.
fn clean_title(text: &str) -> String {
    text.trim().chars().take(MAX_TITLE_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// On one line, truncated.
pub(super) fn to_single_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_LISTED_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(piece: &str) -> TranscriptMetadata {
        let mut metadata = TranscriptMetadata::default();
        metadata.read_lines(piece.as_bytes());
        metadata
    }

    #[test]
    fn custom_title_is_unchanged() {
        let name = format!("two  spaces and {}", "much text ".repeat(30)).trim_end().to_owned();
        let line = format!(r#"{{"type":"custom-title","customTitle":{}}}"#, serde_json::json!(name));
        assert_eq!(metadata(&line).custom_title.as_deref(), Some(&*name));
        let line = r#"{"type":"custom-title","customTitle":" a\nb "}"#;
        assert_eq!(metadata(line).custom_title.as_deref(), Some("a b"));
    }

    #[test]
    fn removed_tag_differs_from_an_unseen_one() {
        let [on, off] = [r#"{"type":"tag","tag":"x"}"#, r#"{"type":"tag","tag":""}"#];
        let cut = r#"{"type":"tag","tag":"cut o"#;
        for (piece, tag) in [
            (on.to_owned(), Some("x")),
            (off.to_owned(), Some("")),
            (cut.to_owned(), None),
            (format!("{on}\n{cut}"), Some("x")),
            (format!("{on}\n{off}"), Some("")),
            (format!("{off}\n{on}"), Some("x")),
        ] {
            assert_eq!(metadata(&piece).tag.as_deref(), tag, "{piece}");
        }
    }
}
