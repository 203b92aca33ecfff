//! Another chat as an attachment: its text up to a completed turn.

use ahp_types::StringOrMarkdown;
use ahp_types::state::{ResponsePart, ToolCallState, Turn};
use hostler_attachments::DisplayName;
use hostler_store::TurnPageLimits;

use super::{ChatView, attachment_label, message_attachments};
use crate::host::Host;
use crate::sessions::action_mapper::truncate_at_char;
use crate::sessions::paging::parse_stored_turn;
use crate::{EngineError, uri};

/// Maximum size of an excerpt. The most recent turns are kept.
const MAX_EXCERPT_BYTES: usize = 256 * 1024;

/// Maximum size of one turn.
const MAX_EXCERPT_TURN_BYTES: usize = 64 * 1024;

const OMITTED_TURNS_NOTE: &str = "(Earlier turns are omitted.)\n\n";

/// A chat up to a turn.
pub(super) struct ChatExcerpt {
    /// The id of the last included turn; `None` if no turn is complete.
    pub(super) end_turn: Option<String>,
    /// The text.
    pub(super) text: String,
}

/// Collects a chat's text from its end, until the excerpt is full.
#[derive(Default)]
struct ExcerptWriter {
    turns: Vec<String>,
    size: usize,
    end_turn: Option<String>,
    is_full: bool,
}

impl ExcerptWriter {
    /// Adds a turn before those that were added already.
    fn add(&mut self, turn: &Turn) {
        self.end_turn.get_or_insert_with(|| turn.id.clone());
        let turn = format_turn(turn);
        self.size += turn.len();
        self.is_full |= self.size > MAX_EXCERPT_BYTES;
        if !self.is_full {
            self.turns.push(turn);
        }
    }

    fn finish(self) -> ChatExcerpt {
        let mut text = if self.is_full { OMITTED_TURNS_NOTE.to_owned() } else { String::new() };
        text.extend(self.turns.into_iter().rev());
        ChatExcerpt { end_turn: self.end_turn, text }
    }
}

impl Host {
    /// Formats a chat up to a turn, or up to its last one; evicted turns are read as far as they fit. `None` if that
    /// turn does not exist or is not complete.
    pub(super) async fn chat_excerpt(
        &self,
        view: &ChatView,
        end_turn: Option<&str>,
    ) -> Result<Option<ChatExcerpt>, EngineError> {
        let ChatView { chat, evicted_turns: past, .. } = view;
        let (turns, mut until) = match end_turn {
            None => (&*chat.turns, past.count),
            Some(id) => match chat.turns.iter().position(|turn| turn.id == id) {
                Some(last) => (chat.turns.get(..=last).unwrap_or_default(), past.count),
                None => match self.find_evicted_turn(view, id).await? {
                    Some(last) => (&[][..], last + 1),
                    None => return Ok(None),
                },
            },
        };
        let mut writing = ExcerptWriter::default();
        turns.iter().rev().for_each(|turn| writing.add(turn));
        while !writing.is_full && until > 0 {
            self.wait_until_imported(&chat.resource, until - 1).await?;
            let page = TurnPageLimits { max_turns: 64, max_bytes: MAX_EXCERPT_BYTES, from_end: true };
            let stored = self.store.load_turns(&chat.resource, 0..until, page).await?;
            if stored.is_empty() {
                break;
            }
            until -= stored.len().min(until);
            for turn in stored.iter().rev() {
                writing.add(&parse_stored_turn(turn));
            }
        }
        Ok(Some(writing.finish()))
    }

    /// The position of an evicted turn of a chat.
    async fn find_evicted_turn(&self, view: &ChatView, id: &str) -> Result<Option<usize>, EngineError> {
        let Some(session) = uri::session_of(&view.chat.resource).filter(|_| view.evicted_turns.count > 0) else {
            return Ok(None);
        };
        let mut found = self.store.find_turn(&session, id).await?;
        if found.is_none() && self.external.unimported_count(&view.chat.resource) > 0 {
            // The turn may not be imported yet.
            self.wait_until_imported(&view.chat.resource, 0).await?;
            found = self.store.find_turn(&session, id).await?;
        }
        let here = |(chat, place): &(String, usize)| *chat == view.chat.resource && *place < view.evicted_turns.count;
        Ok(found.filter(here).map(|(_, place)| place))
    }
}

fn format_turn(turn: &Turn) -> String {
    let mut text = format!("User: {}\n", turn.message.text);
    // Labels only: attachments of an attached chat are not resolved.
    for attachment in message_attachments(&turn.message) {
        text.push_str(&format!("(attached: {})\n", DisplayName::new(attachment_label(attachment))));
    }
    text.push('\n');
    for part in &turn.response_parts {
        match part {
            ResponsePart::Markdown(part) => text.push_str(&format!("Agent: {}\n\n", part.content)),
            ResponsePart::ToolCall(part) => text.push_str(&format!("(tool: {})\n\n", tool_name(&part.tool_call))),
            ResponsePart::SystemNotification(part) => match &part.content {
                StringOrMarkdown::Plain(note) | StringOrMarkdown::Markdown { markdown: note } => {
                    text.push_str(&format!("({note})\n\n"));
                }
            },
            ResponsePart::Error(part) => text.push_str(&format!("(failed: {})\n\n", part.error.message)),
            _ => {}
        }
    }
    if text.len() > MAX_EXCERPT_TURN_BYTES {
        text = format!("{}…\n\n", truncate_at_char(&text, MAX_EXCERPT_TURN_BYTES));
    }
    text
}

fn tool_name(call: &ToolCallState) -> &str {
    match call {
        ToolCallState::Completed(call) => &call.display_name,
        ToolCallState::Cancelled(call) => &call.display_name,
        _ => "unfinished",
    }
}
