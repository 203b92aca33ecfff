//! The list entry of a conversation, from the head and the tail of its transcript.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::wire::WireText;

use super::metadata::{TranscriptMetadata, to_single_line};
use super::{lines, message_tags};

/// How much of each end of a file is read. No metadata record is longer.
const END_READ_BYTES: u64 = 64 * 1024;

/// How much of the start is read if the first prompt does not fit into that, as with an image.
pub(super) const MAX_HEAD_READ_BYTES: u64 = 4 * 1024 * 1024;

/// The list entry of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationListing {
    /// The first prompt.
    pub first_prompt: Option<String>,
    /// The working directory at its start.
    pub working_directory: Option<String>,
    /// When it was started, as the agent wrote it (RFC 3339).
    pub created: Option<String>,
    /// Whether it belongs to a sub-agent and is no conversation with a person.
    pub is_sidechain: bool,
    /// Whether it contains any record.
    pub has_records: bool,
    /// Metadata of the whole conversation.
    pub metadata: TranscriptMetadata,
}

impl ConversationListing {
    /// Reads both ends of a file.
    pub(super) fn read(file: &File, size: u64) -> io::Result<Self> {
        let mut listing = Self::from_head(&read_range(file, 0, END_READ_BYTES)?);
        if size > END_READ_BYTES {
            if listing.first_prompt.is_none() || listing.working_directory.is_none() {
                listing = Self::from_head(&read_range(file, 0, MAX_HEAD_READ_BYTES)?);
            }
            let tail = read_range(file, size - END_READ_BYTES, END_READ_BYTES)?;
            listing.metadata.read_lines(&tail);
        }
        Ok(listing)
    }

    /// From the first bytes of a transcript. The last line may be partial; it is skipped unless it is a complete
    /// record.
    pub fn from_head(head: &[u8]) -> Self {
        let mut outline = Self::default();
        let mut command = None;
        // Some editors put a byte order mark at the start.
        let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
        for (at, line) in lines::split_lines(head).enumerate() {
            if !outline.is_complete()
                && let Ok(line) = serde_json::from_slice::<ListedRecord<'_>>(line)
            {
                outline.read_record(&line, at == 0, &mut command);
            }
            outline.metadata.read_line(line);
        }
        outline.first_prompt = outline.first_prompt.or(command);
        outline
    }

    /// Its title for display. `None` if it contains no message.
    pub fn title(&self) -> Option<&str> {
        let TranscriptMetadata { custom_title: title, ai_title: own_title, last_prompt, summary, tag: _ } =
            &self.metadata;
        [title, own_title, last_prompt, summary, &self.first_prompt]
            .into_iter()
            .find_map(|name| name.as_deref().filter(|name| !name.trim().is_empty()))
    }

    /// Whether only metadata records can still change it.
    fn is_complete(&self) -> bool {
        self.first_prompt.is_some() && self.working_directory.is_some() && self.created.is_some()
    }

    fn read_record(&mut self, line: &ListedRecord<'_>, first: bool, command: &mut Option<String>) {
        self.has_records = true;
        self.is_sidechain |= first && line.sidechain == Some(true);
        let or = |slot: &mut Option<String>, value: &Option<WireText<'_>>| {
            if slot.is_none() {
                *slot = value.as_ref().filter(|value| !value.is_empty()).map(|value| value.to_string());
            }
        };
        or(&mut self.working_directory, &line.cwd);
        or(&mut self.created, &line.timestamp);
        let hidden = line.meta == Some(true) || line.summary_of_all == Some(true);
        if &*line.label != "user" || hidden || self.first_prompt.is_some() {
            return;
        }
        let texts =
            line.message.as_ref().and_then(|message| message.content).map(|content| message_texts(content.get()));
        for text in texts.unwrap_or_default() {
            if let Some(name) = message_tags::slash_command(&text) {
                command.get_or_insert_with(|| to_single_line(name));
            } else if let Some(typed) = message_tags::shell_command(&text) {
                self.first_prompt = Some(to_single_line(&format!("! {}", typed.trim())));
            } else if !text.trim().is_empty() && !is_agent_generated(&text) {
                self.first_prompt = Some(to_single_line(&text));
            }
            if self.first_prompt.is_some() {
                return;
            }
        }
    }
}

fn read_range(mut file: &File, from: u64, longest: u64) -> io::Result<Vec<u8>> {
    // Not filled with zeros first, which takes as long as reading.
    let mut bytes = Vec::with_capacity(usize::try_from(longest).unwrap_or_default());
    file.seek(SeekFrom::Start(from))?;
    file.take(longest).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[derive(Deserialize)]
struct ListedRecord<'a> {
    #[serde(rename = "type", borrow)]
    label: WireText<'a>,
    #[serde(rename = "isSidechain", default)]
    sidechain: Option<bool>,
    #[serde(rename = "isMeta", default)]
    meta: Option<bool>,
    #[serde(rename = "isCompactSummary", default)]
    summary_of_all: Option<bool>,
    #[serde(borrow, default)]
    cwd: Option<WireText<'a>>,
    #[serde(borrow, default)]
    timestamp: Option<WireText<'a>>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// The texts of a message, unless it contains tool results.
fn message_texts(content: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, default)]
        text: Option<WireText<'a>>,
        #[serde(default)]
        tool_use_id: Option<IgnoredAny>,
    }
    if let Ok(WireText(text)) = serde_json::from_str(content) {
        return vec![text.into_owned()];
    }
    let blocks: Vec<Block<'_>> = serde_json::from_str(content).unwrap_or_default();
    if blocks.iter().any(|block| block.tool_use_id.is_some()) {
        return Vec::new();
    }
    blocks.into_iter().filter_map(|block| block.text).map(|text| text.0.into_owned()).collect()
}

/// Whether the agent generated this text: `<tag>…`, or the notice of an interruption.
fn is_agent_generated(text: &str) -> bool {
    let text = text.trim_start();
    let tag = text.strip_prefix('<').and_then(|rest| rest.split_once('>')).is_some_and(|(tag, _)| {
        tag.starts_with(|c: char| c.is_ascii_lowercase())
            && tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ' ' | '=' | '"' | '\''))
    });
    tag || text.starts_with("[Request interrupted by user")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(lines: &[&str]) -> ConversationListing {
        ConversationListing::from_head(lines.join("\n").as_bytes())
    }

    const BEGIN: &str = r#"{"type":"user","uuid":"a","cwd":"/p","timestamp":"2026-01-02T03:04:05Z","message":{"content":[{"type":"text","text":"first\n  words"}]}}"#;

    #[test]
    fn listing_has_directory_time_and_first_prompt() {
        let outline = outline(&[r#"{"type":"queue-operation","timestamp":"2026-01-01T00:00:00Z"}"#, BEGIN]);
        assert_eq!(outline.working_directory.as_deref(), Some("/p"));
        assert_eq!(outline.created.as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(outline.title(), Some("first words"));
    }

    #[test]
    fn last_custom_title_takes_precedence() {
        let mut lines =
            vec![BEGIN, r#"{"type":"summary","summary":"old"}"#, r#"{"type":"last-prompt","lastPrompt":"last"}"#];
        assert_eq!(outline(&lines).title(), Some("last"));
        lines.push(r#"{"type":"ai-title","aiTitle":"own","sessionId":"s"}"#);
        assert_eq!(outline(&lines).title(), Some("own"));
        lines.push(r#"{"type":"custom-title","customTitle":"mine","sessionId":"s"}"#);
        lines.push(r#"{"type":"custom-title","customTitle":"mine at last","sessionId":"s"}"#);
        lines.push(BEGIN);
        assert_eq!(outline(&lines).title(), Some("mine at last"));
    }

    #[test]
    fn agent_generated_text_is_not_a_title() {
        let said = |content: &str| {
            outline(&[&format!(r#"{{"type":"user","uuid":"a","message":{{"content":{content}}}}}"#), BEGIN])
                .first_prompt
                .unwrap()
        };
        for content in [
            r#""<local-command-stdout>x</local-command-stdout>""#,
            r#""<ide_opened_file>/a</ide_opened_file>""#,
            r#""[Request interrupted by user]""#,
            r#"[{"type":"tool_result","tool_use_id":"t","content":"x"}]"#,
            r#""<command-name>/clear</command-name>""#,
            r#"[{"type":"image"}]"#,
            r#""  ""#,
        ] {
            assert_eq!(said(content), "first words", "{content}");
        }
        assert_eq!(said(r#""<bash-input>ls -l</bash-input>""#), "! ls -l");
        assert_eq!(said(r#""<3 this""#), "<3 this");
        // A command is better than no title.
        let command = r#"{"type":"user","uuid":"a","message":{"content":"<command-name>/review</command-name>"}}"#;
        assert_eq!(outline(&[command]).title(), Some("/review"));
        assert_eq!(outline(&[r#"{"type":"queue-operation"}"#]).title(), None);
    }

    #[test]
    fn long_prompt_is_truncated_at_a_character_boundary() {
        let line = format!(r#"{{"type":"user","uuid":"a","message":{{"content":"{}"}}}}"#, "é".repeat(500));
        let shown = outline(&[&line]).first_prompt.unwrap();
        assert!(shown.starts_with('é') && shown.ends_with('…') && shown.chars().count() < 500, "{shown}");
    }

    #[test]
    fn partial_and_invalid_lines_are_skipped() {
        let text = format!("{BEGIN}\n{{\"type\":\"custom-title\",\"customTitle\":\"x\"}}\n\u{0}noise\n");
        for cut in 0..text.len() {
            let _ = ConversationListing::from_head(&text.as_bytes()[..cut]);
        }
        let outline = ConversationListing::from_head(&text.as_bytes()[BEGIN.len() / 2..]);
        assert_eq!((outline.title(), outline.working_directory.as_deref()), (Some("x"), None));
    }

    #[test]
    fn sidechain_is_detected_by_its_first_line() {
        let side = BEGIN.replace(r#""uuid""#, r#""isSidechain":true,"uuid""#);
        assert!(outline(&[&side]).is_sidechain);
        assert!(!outline(&[BEGIN, &side]).is_sidechain);
    }
}
