//! Notes about a whole conversation. They stand anywhere in its transcript, and the last of each kind counts.

use serde::Deserialize;

use crate::wire::WireText;

use super::lines;

/// How many characters of a name are kept: more than clients may write.
const MAX_TITLE_CHARS: usize = 1024;

/// How many characters of somebody's words a list shows.
const MAX_LISTED_TEXT_CHARS: usize = 200;

/// How notes begin, in every build: the agent itself looks for nothing else.
const METADATA_TYPES: [&[u8]; 5] = [b"custom-title\"", b"ai-title\"", b"last-prompt\"", b"summary\"", b"tag\""];

/// What notes say. `None` is one that was not seen; an empty one takes back what was said before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptMetadata {
    /// The title that somebody gave it.
    pub custom_title: Option<String>,
    /// The title that the agent gave it.
    pub ai_title: Option<String>,
    /// What was said last, where the agent notes it.
    pub last_prompt: Option<String>,
    /// An older build's words for it.
    pub summary: Option<String>,
    /// Its tag.
    pub tag: Option<String>,
}

impl TranscriptMetadata {
    /// Those in a piece of a transcript. Its first and its last line may be pieces themselves, which say nothing.
    pub fn from_bytes(piece: &[u8]) -> Self {
        let mut notes = Self::default();
        lines::split_lines(piece).for_each(|line| notes.read_line(line));
        notes
    }

    /// Takes a line, if it is a note.
    pub(super) fn read_line(&mut self, line: &[u8]) {
        // Most lines are somebody's words or the agent's bookkeeping; few are worth being read.
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
        // What people have called it is kept as they wrote it: they may have done so here.
        let is_name = matches!(&*note.label, "custom-title" | "tag");
        *slot = Some(if is_name { clean_title(value) } else { to_single_line(value) });
    }

    /// These, and behind them others.
    #[must_use]
    pub(super) fn merged_with(&self, later: &Self) -> Self {
        let last = |later: &Option<String>, earlier: &Option<String>| later.as_ref().or(earlier.as_ref()).cloned();
        Self {
            custom_title: last(&later.custom_title, &self.custom_title),
            ai_title: last(&later.ai_title, &self.ai_title),
            last_prompt: last(&later.last_prompt, &self.last_prompt),
            summary: last(&later.summary, &self.summary),
            tag: last(&later.tag, &self.tag),
        }
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

/// A name, whole unless it is absurdly long.
fn clean_title(text: &str) -> String {
    text.trim().chars().take(MAX_TITLE_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// On one line, and not too long.
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

    #[test]
    fn a_name_is_kept_as_it_was_written() {
        let name = format!("two  spaces and {}", "many words ".repeat(30)).trim_end().to_owned();
        let note = serde_json::json!({ "customTitle": name });
        let line = note.to_string().replacen('{', r#"{"type":"custom-title","#, 1);
        assert_eq!(TranscriptMetadata::from_bytes(line.as_bytes()).custom_title.as_deref(), Some(&*name));
        let line = br#"{"type":"custom-title","customTitle":" a\nb "}"#;
        assert_eq!(TranscriptMetadata::from_bytes(line).custom_title.as_deref(), Some("a b"));
    }

    #[test]
    fn a_tag_that_was_taken_away_is_not_one_that_was_never_seen() {
        let [on, off] = [r#"{"type":"tag","tag":"x"}"#, r#"{"type":"tag","tag":""}"#]
            .map(|line| TranscriptMetadata::from_bytes(line.as_bytes()));
        let unseen = TranscriptMetadata::from_bytes(b"{\"type\":\"tag\",\"tag\":\"cut o");
        assert_eq!([&on, &off, &unseen].map(|notes| notes.tag.as_deref()), [Some("x"), Some(""), None]);
        assert_eq!(on.merged_with(&unseen), on);
        assert_eq!(on.merged_with(&off), off);
        assert_eq!(off.merged_with(&on), on);
    }
}
