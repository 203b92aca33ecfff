//! What a conversation carries already: every further request to the provider carries it again.

use ahp_types::StringOrMarkdown;
use ahp_types::actions::SessionMetaChangedAction;
use ahp_types::state::{ChatState, Message, ResponsePart, SessionState, Turn};
use hostler_attachments::{Code, History, Limits};
use hostler_driver::Images;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::blocks::{NamedBlock, blocks_of};
use super::{HOSTLER, View};
use crate::past::Past;
use crate::transcript::{COMPACTED, Failure};

/// The key below `hostler` in the session's `_meta` that says which pictures were taken out of the conversation.
const DROPPED: &str = "droppedImages";

/// How many such notes are kept.
const MAX_DROPPED: usize = 64;

/// Pictures were taken out of the conversation: those of the last message up to a turn that had any, or all up to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    through: String,
    all: bool,
}

fn notes(session: &SessionState) -> Vec<Note> {
    let noted = session.meta.as_ref().and_then(|meta| meta.get(HOSTLER)).and_then(|hostler| hostler.get(DROPPED));
    noted.and_then(|noted| Vec::deserialize(noted).ok()).unwrap_or_default()
}

/// The session's `_meta` after pictures were taken out of its conversation.
pub(crate) fn pictures_dropped(session: &SessionState, chat: &ChatState, which: Images) -> SessionMetaChangedAction {
    let all = which == Images::All;
    let mut noted = if all { Vec::new() } else { notes(session) };
    noted.extend(chat.turns.last().map(|turn| Note { through: turn.id.clone(), all }));
    noted.drain(..noted.len().saturating_sub(MAX_DROPPED));
    let mut meta = session.meta.clone().unwrap_or_default();
    let mut hostler = meta.get(HOSTLER).and_then(Value::as_object).cloned().unwrap_or_default();
    hostler.insert(DROPPED.to_owned(), json!(noted));
    meta.insert(HOSTLER.to_owned(), hostler.into());
    SessionMetaChangedAction { meta: Some(meta) }
}

/// What the messages of turns that have ended add to each request, as far as the agent still sends them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Carried(Vec<Weight>);

impl Carried {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Another turn has ended.
    pub(crate) fn add(&mut self, session: &SessionState, turn: &Turn) {
        self.add_noted(&notes(session), turn);
    }

    fn add_noted(&mut self, notes: &[Note], turn: &Turn) {
        let kept = &mut self.0;
        if was_compacted(turn) {
            kept.clear();
        } else if !was_held_back(turn) {
            kept.extend(Some(weight(&turn.message)).filter(|weight| *weight != Weight::default()));
        }
        for note in notes.iter().filter(|note| note.through == turn.id) {
            let pictures = kept.iter_mut().rev().filter(|weight| weight.images > 0);
            for weight in pictures.take(if note.all { usize::MAX } else { 1 }) {
                (weight.images, weight.image_bytes) = (0, 0);
            }
        }
    }
}

/// The pictures and bytes of a chat's ended turns, as far as the agent still sends them.
pub(crate) fn history(session: &SessionState, chat: &ChatState, past: &Past) -> History {
    let notes = notes(session);
    let mut carried = past.carried.clone();
    for turn in &chat.turns {
        carried.add_noted(&notes, turn);
    }
    carried.0.iter().fold(History::default(), add)
}

/// The same with what the running turn brings: what is accepted now comes after it.
pub(crate) fn history_with_running_turn(view: &View) -> History {
    let before = history(&view.session, &view.chat, &view.past);
    view.chat.active_turn.as_ref().map_or(before, |turn| add(before, &weight(&turn.message)))
}

/// Whether a message can still be sent behind what the conversation carries.
pub(crate) fn still_fits(message: &Message, history: History, limits: &Limits) -> Result<(), Failure> {
    let whole = add(history, &weight(message));
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

/// What a message's blocks add to a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Weight {
    images: usize,
    image_bytes: usize,
    other_bytes: usize,
}

fn add(history: History, weight: &Weight) -> History {
    History { images: history.images + weight.images, bytes: history.bytes + weight.image_bytes + weight.other_bytes }
}

fn weight(message: &Message) -> Weight {
    let mut weight = Weight::default();
    for block in blocks_of(message) {
        match block {
            NamedBlock::Image { bytes, .. } => {
                weight.images += 1;
                weight.image_bytes += base64_length(bytes);
            }
            NamedBlock::Pdf { bytes, .. } => weight.other_bytes += base64_length(bytes),
            NamedBlock::Text { bytes, .. } | NamedBlock::References { bytes, .. } => weight.other_bytes += bytes,
        }
    }
    weight
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
