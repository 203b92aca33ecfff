//! Renders a chat as text: messages and responses, turn by turn.

use ahp_types::state::{
    ChatState, Message, MessageAttachment, MessageKind, ResponsePart, ToolCallState, TurnState, UsageInfo,
};

use crate::attachments::{FilePlanResponse, format_size};
use crate::console::{TextStyle, to_one_line};
use crate::turn::tool_error_text;

/// Text of one style; it ends a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StyledText {
    pub(super) text: String,
    pub(super) style: TextStyle,
}

/// Renders the whole chat below a heading.
pub(super) fn render_transcript(heading: &str, chat: &ChatState, reasoning: bool) -> Vec<StyledText> {
    let mut writer = TranscriptWriter { blocks: Vec::new(), reasoning };
    writer.write(heading, TextStyle::Bold);
    for (index, turn) in chat.turns.iter().enumerate() {
        let end = match turn.state {
            TurnState::Complete => "",
            TurnState::Cancelled => "canceled",
            TurnState::Error => "failed",
        };
        let details = [turn.started_at.as_deref().unwrap_or_default(), end];
        writer.write_turn(index + 1, &details, &turn.message, &turn.response_parts, turn.usage.as_ref());
    }
    if let Some(turn) = &chat.active_turn {
        let details = [turn.started_at.as_str(), "working"];
        writer.write_turn(chat.turns.len() + 1, &details, &turn.message, &turn.response_parts, turn.usage.as_ref());
    }
    writer.blocks
}

struct TranscriptWriter {
    blocks: Vec<StyledText>,
    reasoning: bool,
}

impl TranscriptWriter {
    fn write_turn(
        &mut self,
        number: usize,
        details: &[&str],
        message: &Message,
        parts: &[ResponsePart],
        usage: Option<&UsageInfo>,
    ) {
        let details =
            details.iter().filter(|detail| !detail.is_empty()).map(|detail| format!(" · {}", to_one_line(detail)));
        let heading = format!("\nTurn {number}{}", details.collect::<String>());
        self.write(heading, TextStyle::Dim);
        self.write_message(message);
        for part in parts {
            self.write_part(part);
        }
        if let Some(usage) = usage.and_then(format_usage) {
            self.write(usage, TextStyle::Dim);
        }
    }

    /// Writes the message as a quotation so that it differs from the response.
    fn write_message(&mut self, message: &Message) {
        let label = match &message.origin.kind {
            MessageKind::User => "",
            MessageKind::Agent => "(agent) ",
            MessageKind::Tool => "(tool) ",
            MessageKind::Automation => "(automation) ",
            MessageKind::SystemNotification => "(system) ",
            MessageKind::Unknown(_) => "(unknown) ",
        };
        let lines: Vec<_> = message.text.lines().map(|line| format!("> {label}{line}")).collect();
        self.write(lines.join("\n"), TextStyle::Bold);
        for attachment in message.attachments.iter().flatten() {
            self.write(format_attachment(attachment), TextStyle::Dim);
        }
    }

    fn write_part(&mut self, part: &ResponsePart) {
        match part {
            ResponsePart::Markdown(part) => self.write(part.content.trim_end(), TextStyle::Plain),
            ResponsePart::Reasoning(part) if self.reasoning => {
                let lines: Vec<_> = part.content.trim_end().lines().map(|line| format!("~ {line}")).collect();
                self.write(lines.join("\n"), TextStyle::Dim);
            }
            ResponsePart::ToolCall(part) => self.write(format_tool_call(&part.tool_call), TextStyle::Dim),
            ResponsePart::SystemNotification(part) => self.write(to_one_line(part.content.as_text()), TextStyle::Dim),
            ResponsePart::Error(part) => self.write(format!("✗ {}", to_one_line(&part.error.message)), TextStyle::Red),
            ResponsePart::Reasoning(_)
            | ResponsePart::ContentRef(_)
            | ResponsePart::InputRequest(_)
            | ResponsePart::Unknown(_) => {}
        }
    }

    fn write(&mut self, text: impl Into<String>, style: TextStyle) {
        let text = text.into();
        if !text.is_empty() {
            self.blocks.push(StyledText { text, style });
        }
    }
}

/// Formats an attachment: name, type and warnings.
fn format_attachment(attachment: &MessageAttachment) -> String {
    let (label, kind, bytes, meta) = match attachment {
        MessageAttachment::EmbeddedResource(it) => (&it.label, Some(&it.content_type), None, &it.meta),
        MessageAttachment::Resource(it) => {
            let kind = it.content_type.as_ref().or(it.display_kind.as_ref());
            (&it.label, kind, it.size_hint.and_then(|bytes| u64::try_from(bytes).ok()), &it.meta)
        }
        MessageAttachment::Simple(it) => (&it.label, it.display_kind.as_ref(), None, &it.meta),
        MessageAttachment::Annotations(it) => (&it.label, it.display_kind.as_ref(), None, &it.meta),
        MessageAttachment::Chat(it) => (&it.label, it.display_kind.as_ref(), None, &it.meta),
        MessageAttachment::Unknown(_) => return String::new(),
    };
    // The host's metadata is more exact than the client's.
    let plan = meta.as_ref().and_then(|meta| meta.get("hostler"));
    let plan = plan.and_then(|plan| serde_json::from_value::<FilePlanResponse>(plan.clone()).ok()).unwrap_or_default();
    let mut details = plan.describe();
    if details.is_empty() {
        details.extend(kind.map(|kind| to_one_line(kind)).into_iter().chain(bytes.map(format_size)));
    }
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    let warnings: String = plan.warnings().map(|warning| format!("\n  ! {warning}")).collect();
    format!("+ {}{details}{warnings}", to_one_line(label))
}

/// Formats a call in one line: what it did, or why it did not run.
fn format_tool_call(call: &ToolCallState) -> String {
    let (mark, name, what) = match call {
        ToolCallState::Completed(call) if call.success => {
            ("•", &call.display_name, call.past_tense_message.as_text().to_owned())
        }
        ToolCallState::Completed(call) => {
            let reason = tool_error_text(call.error.as_ref()).unwrap_or_else(|| call.past_tense_message.as_text());
            ("✗", &call.display_name, format!("failed: {reason}"))
        }
        ToolCallState::Cancelled(call) => {
            let reason = call.reason_message.as_ref().map_or("", |reason| reason.as_text());
            ("✗", &call.display_name, format!("denied: {reason}"))
        }
        ToolCallState::PendingConfirmation(call) => {
            ("?", &call.display_name, format!("waiting for approval: {}", call.invocation_message.as_text()))
        }
        ToolCallState::Running(call) => ("…", &call.display_name, call.invocation_message.as_text().to_owned()),
        ToolCallState::AuthRequired(call) => ("?", &call.display_name, "waiting for a sign-in".to_owned()),
        ToolCallState::PendingResultConfirmation(call) => {
            ("?", &call.display_name, "result waiting for approval".to_owned())
        }
        ToolCallState::Streaming(call) => ("…", &call.display_name, String::new()),
        ToolCallState::Unknown(_) => return String::new(),
    };
    let what = to_one_line(&what);
    format!("{mark} {}: {what}", to_one_line(name)).trim_end_matches([':', ' ']).to_owned()
}

fn format_usage(usage: &UsageInfo) -> Option<String> {
    let tokens = |count: Option<i64>, what: &str| count.map(|count| format!("{count} {what}"));
    let counts = [
        tokens(usage.input_tokens, "tokens in"),
        tokens(usage.cache_read_tokens.filter(|count| *count > 0), "from the cache"),
        tokens(usage.output_tokens, "out"),
    ];
    let counts: Vec<_> = counts.into_iter().flatten().collect();
    let model = usage.model.as_deref().map(to_one_line).map(|model| format!(" · {model}")).unwrap_or_default();
    (!counts.is_empty()).then(|| format!("{}{model}", counts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chat() -> ChatState {
        let tool = |status: &str, extra: serde_json::Value| {
            let mut call = json!({ "status": status, "toolCallId": "t", "toolName": "Bash", "displayName": "Bash",
                "invocationMessage": "ls", "confirmed": "not-needed" });
            call.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({ "kind": "toolCall", "toolCall": call })
        };
        let first = json!({ "id": "t1", "startedAt": "2026-05-10T12:00:00.000Z", "state": "complete",
            "message": { "text": "two\nlines", "origin": { "kind": "user" }, "attachments": [
                { "type": "resource", "label": "shot.png", "uri": "ahp-content:/00", "sizeHint": 9_000_000,
                    "contentType": "image/png", "_meta": { "hostler": { "label": "shot.png", "decision": "send",
                    "contentType": "image/jpeg", "bytes": 204_800, "width": 1568, "height": 882,
                    "warnings": [{ "kind": "shrunk", "sentence": "it was made\nsmaller" }] } } },
                { "type": "resource", "label": "spec.pdf", "uri": "ahp-content:/01", "_meta": { "hostler": {
                    "contentType": "application/pdf", "bytes": 1024, "pages": 1, "warnings": [], "newer": 5 } } },
                { "type": "resource", "label": "src", "uri": "file:///src", "displayKind": "directory" },
                { "type": "resource", "label": "odd", "uri": "x:", "sizeHint": 12, "_meta": { "hostler": 5 } },
                { "type": "simple", "label": "a \u{7}word" },
                { "type": "newer" } ] },
            "usage": { "inputTokens": 12, "outputTokens": 3, "cacheReadTokens": 0, "model": "m-1" },
            "responseParts": [
                { "kind": "reasoning", "id": "r", "content": "hm" },
                tool("completed", json!({ "success": true, "pastTenseMessage": "Ran ls" })),
                tool("completed", json!({ "success": false, "pastTenseMessage": "", "error": { "message": "no\nls" } })),
                tool("cancelled", json!({ "reason": "denied", "reasonMessage": "not allowed" })),
                tool("newer", json!({})),
                { "kind": "markdown", "id": "m", "content": "# Hi\nyou\n" },
                { "kind": "sung", "tune": 1 },
            ] });
        let second = json!({ "id": "t2", "state": "error", "message": { "text": "again", "origin": { "kind": "agent" } },
            "responseParts": [{ "kind": "error", "error": { "errorType": "auth", "message": "no key" } }] });
        serde_json::from_value(json!({ "resource": "ahp-chat://c", "title": "", "status": 8,
            "modifiedAt": "2026-05-10T12:00:00.000Z", "turns": [first, second],
            "activeTurn": { "id": "t3", "startedAt": "2026-05-10T12:01:00.000Z", "responseParts": [],
                "message": { "text": "now", "origin": { "kind": "user" } } } }))
        .unwrap()
    }

    fn text(reasoning: bool) -> String {
        render_transcript("Heading", &chat(), reasoning)
            .into_iter()
            .map(|block| block.text)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn transcript_shows_messages_and_responses() {
        insta::assert_snapshot!(text(false), @r#"
        Heading

        Turn 1 · 2026-05-10T12:00:00.000Z
        > two
        > lines
        + shot.png (image/jpeg, 1568 × 882, 200 KiB)
          ! it was made smaller
        + spec.pdf (application/pdf, 1 page, 1 KiB)
        + src (directory)
        + odd (12 bytes)
        + a word
        • Bash: Ran ls
        ✗ Bash: failed: no ls
        ✗ Bash: denied: not allowed
        # Hi
        you
        12 tokens in, 3 out · m-1

        Turn 2 · failed
        > (agent) again
        ✗ no key

        Turn 3 · 2026-05-10T12:01:00.000Z · working
        > now
        "#);
    }

    #[test]
    fn reasoning_is_shown_only_on_request() {
        assert!(!text(false).contains("hm"));
        assert!(text(true).contains("\n~ hm\n"));
    }
}
