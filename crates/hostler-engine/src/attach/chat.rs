//! Another chat as an attachment: what was said in it, up to a turn that is over.

use ahp_types::StringOrMarkdown;
use ahp_types::state::{ResponsePart, ToolCallState, Turn};
use hostler_attachments::Title;
use hostler_store::Page;

use super::{View, attachments, label};
use crate::host::Host;
use crate::paging::read;
use crate::transcript::beginning;
use crate::{EngineError, uri};

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

/// What was said in a chat, from its end on, as long as there is room.
#[derive(Default)]
struct Writing {
    written: Vec<String>,
    size: usize,
    end_turn: Option<String>,
    full: bool,
}

impl Writing {
    /// Writes down what was said before the rest.
    fn add(&mut self, turn: &Turn) {
        self.end_turn.get_or_insert_with(|| turn.id.clone());
        let turn = write(turn);
        self.size += turn.len();
        self.full |= self.size > MAX_TRANSCRIPT;
        if !self.full {
            self.written.push(turn);
        }
    }

    fn finish(self) -> Excerpt {
        let mut text = if self.full { LEFT_OUT.to_owned() } else { String::new() };
        text.extend(self.written.into_iter().rev());
        Excerpt { end_turn: self.end_turn, text }
    }
}

impl Host {
    /// Writes a chat down up to a turn, or up to its last one; turns that are not in memory are read as far as there is
    /// room for them. `None` if that turn is not there or not over.
    pub(super) async fn excerpt(&self, view: &View, end_turn: Option<&str>) -> Result<Option<Excerpt>, EngineError> {
        let View { chat, past, .. } = view;
        let (turns, mut until) = match end_turn {
            None => (&*chat.turns, past.turns),
            Some(id) => match chat.turns.iter().position(|turn| turn.id == id) {
                Some(last) => (chat.turns.get(..=last).unwrap_or_default(), past.turns),
                None => match self.turn_before_window(view, id).await? {
                    Some(last) => (&[][..], last + 1),
                    None => return Ok(None),
                },
            },
        };
        let mut writing = Writing::default();
        turns.iter().rev().for_each(|turn| writing.add(turn));
        while !writing.full && until > 0 {
            self.is_told(&chat.resource, until - 1).await?;
            let page = Page { turns: 64, bytes: MAX_TRANSCRIPT, newest: true };
            let stored = self.store.turns(&chat.resource, 0..until, page).await?;
            if stored.is_empty() {
                break;
            }
            until -= stored.len().min(until);
            for turn in stored.iter().rev() {
                writing.add(&read(turn));
            }
        }
        Ok(Some(writing.finish()))
    }

    /// The place of a turn of a chat that is not in memory.
    async fn turn_before_window(&self, view: &View, id: &str) -> Result<Option<usize>, EngineError> {
        let Some(session) = uri::session_of(&view.chat.resource).filter(|_| view.past.turns > 0) else {
            return Ok(None);
        };
        let mut found = self.store.turn(&session, id).await?;
        if found.is_none() && self.untold.of(&view.chat.resource) > 0 {
            // It may be one of those that are still to be taken in.
            self.is_told(&view.chat.resource, 0).await?;
            found = self.store.turn(&session, id).await?;
        }
        let here = |(chat, place): &(String, usize)| *chat == view.chat.resource && *place < view.past.turns;
        Ok(found.filter(here).map(|(_, place)| place))
    }
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
