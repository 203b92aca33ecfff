//! What a conversation carries already: every further request to the provider carries it again.

use ahp_types::StringOrMarkdown;
use ahp_types::state::{ChatState, Message, ResponsePart, Turn};
use hostler_attachments::{Code, History, Limits};

use super::blocks::{NamedBlock, blocks_of};
use crate::transcript::{COMPACTED, Failure};

/// The pictures and bytes of a chat's ended turns, as far as the agent still sends them.
pub(crate) fn history(chat: &ChatState) -> History {
    let kept = chat.turns.iter().rev().take_while(|turn| !was_compacted(turn));
    kept.filter(|turn| !was_held_back(turn)).map(|turn| weight(&turn.message)).fold(History::default(), sum)
}

/// The same with what the running turn brings: what is accepted now comes after it.
pub(crate) fn history_with_running_turn(chat: &ChatState) -> History {
    let running = chat.active_turn.as_ref().map(|turn| weight(&turn.message));
    sum(history(chat), running.unwrap_or_default())
}

/// Whether a message can still be sent behind what the conversation carries.
pub(crate) fn still_fits(message: &Message, history: History, limits: &Limits) -> Result<(), Failure> {
    let whole = sum(history, weight(message));
    if whole.images <= limits.images && whole.bytes <= limits.request_bytes {
        return Ok(());
    }
    Err(Failure {
        error_type: Code::PayloadTooLarge.as_str().to_owned(),
        message: format!(
            "With this message the conversation would carry {} pictures and {} bytes of files; at most {} and {} can be \
             sent. Compact the conversation, drop its pictures, or begin a new session.",
            whole.images, whole.bytes, limits.images, limits.request_bytes
        ),
        stderr: None,
    })
}

fn sum(a: History, b: History) -> History {
    History { images: a.images + b.images, bytes: a.bytes + b.bytes }
}

/// What a message's blocks add to a request.
fn weight(message: &Message) -> History {
    let blocks = blocks_of(message);
    blocks
        .iter()
        .map(|block| match block {
            NamedBlock::Image { bytes, .. } => History { images: 1, bytes: base64_length(*bytes) },
            NamedBlock::Pdf { bytes, .. } => History { images: 0, bytes: base64_length(*bytes) },
            NamedBlock::Text { bytes, .. } | NamedBlock::References { bytes, .. } => {
                History { images: 0, bytes: *bytes }
            }
        })
        .fold(History::default(), sum)
}

fn base64_length(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// After a compaction the agent no longer sends what was said before it.
fn was_compacted(turn: &Turn) -> bool {
    turn.response_parts.iter().any(|part| match part {
        ResponsePart::SystemNotification(note) => match &note.content {
            StringOrMarkdown::Plain(text) => text.starts_with(COMPACTED),
            _ => false,
        },
        _ => false,
    })
}

/// The agent never got its message: this host could not send what is attached.
fn was_held_back(turn: &Turn) -> bool {
    let codes = [Code::PayloadTooLarge, Code::ArtifactMissing];
    match turn.response_parts.last() {
        Some(ResponsePart::Error(part)) => codes.iter().any(|code| part.error.error_type == code.as_str()),
        _ => false,
    }
}
