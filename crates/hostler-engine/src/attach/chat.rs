//! Another chat as an attachment: what was said in it, up to a turn that is over.

use ahp_types::StringOrMarkdown;
use ahp_types::state::{ChatState, ResponsePart, ToolCallState, Turn};
use hostler_attachments::Title;

use super::{attachments, label};
use crate::transcript::beginning;

/// The most of a chat that is attached. What was said last is kept.
const MAX_TRANSCRIPT: usize = 256 * 1024;

/// The most of one turn.
const MAX_TURN: usize = 64 * 1024;

const LEFT_OUT: &str = "(Earlier turns are left out.)\n\n";

/// A chat up to a turn.
pub(super) struct Excerpt {
    /// The last turn of it; none if no turn is over.
    pub(super) end_turn: Option<String>,
    /// What was said.
    pub(super) text: String,
}

/// Writes a chat down up to a turn, or up to its last one. `None` if that turn is not there or not over.
pub(super) fn excerpt(chat: &ChatState, end_turn: Option<&str>) -> Option<Excerpt> {
    let turns = match end_turn {
        Some(id) => {
            let last = chat.turns.iter().position(|turn| turn.id == id)?;
            chat.turns.get(..=last)?
        }
        None => &chat.turns,
    };
    let mut written: Vec<String> = Vec::new();
    let (mut size, mut whole) = (0, true);
    for turn in turns.iter().rev() {
        let turn = write(turn);
        size += turn.len();
        if size > MAX_TRANSCRIPT {
            whole = false;
            break;
        }
        written.push(turn);
    }
    let mut text = if whole { String::new() } else { LEFT_OUT.to_owned() };
    text.extend(written.into_iter().rev());
    Some(Excerpt { end_turn: turns.last().map(|turn| turn.id.clone()), text })
}

fn write(turn: &Turn) -> String {
    let mut text = format!("User: {}\n", turn.message.text);
    // Only their names: an attached chat is not looked into further.
    for attachment in attachments(&turn.message) {
        text.push_str(&format!("(attached: {})\n", Title::new(label(attachment))));
    }
    text.push('\n');
    for part in &turn.response_parts {
        match part {
            ResponsePart::Markdown(part) => text.push_str(&format!("Agent: {}\n\n", part.content)),
            ResponsePart::ToolCall(part) => text.push_str(&format!("(tool: {})\n\n", tool(&part.tool_call))),
            ResponsePart::SystemNotification(part) => match &part.content {
                StringOrMarkdown::Plain(note) | StringOrMarkdown::Markdown { markdown: note } => {
                    text.push_str(&format!("({note})\n\n"));
                }
            },
            ResponsePart::Error(part) => text.push_str(&format!("(failed: {})\n\n", part.error.message)),
            _ => {}
        }
    }
    if text.len() > MAX_TURN {
        text = format!("{}…\n\n", beginning(&text, MAX_TURN));
    }
    text
}

fn tool(call: &ToolCallState) -> &str {
    match call {
        ToolCallState::Completed(call) => &call.display_name,
        ToolCallState::Cancelled(call) => &call.display_name,
        _ => "unfinished",
    }
}
