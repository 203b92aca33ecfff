//! The attachments that a conversation carries already: every request to the provider sends them again.

use ahp_types::StringOrMarkdown;
use ahp_types::actions::SessionMetaChangedAction;
use ahp_types::state::{ChatState, Message, ResponsePart, SessionState, Turn};
use hostler_attachments::{AttachmentErrorCode, AttachmentLimits, ConversationSize};
use hostler_driver::ImageSelection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::blocks::{BlockRef, message_blocks};
use super::{ChatView, HOSTLER_META_KEY};
use crate::sessions::action_mapper::{COMPACTION_NOTICE_PREFIX, TurnErrorDetails};
use crate::sessions::turn_storage::EvictedTurns;

/// The key, below `hostler` in the session's `_meta`, of the images that were removed from the conversation.
const REMOVED_IMAGES_META_KEY: &str = "removedImages";

/// The former name of that key, in stored sessions.
const FORMER_REMOVED_IMAGES_META_KEY: &str = "droppedImages";

/// Maximum number of such entries.
const MAX_REMOVED_IMAGES_ENTRIES: usize = 64;

/// Images that were removed from the conversation: those of the last message with images up to a turn, or all up to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemovedImages {
    #[serde(alias = "through_turn", alias = "through")]
    through_turn: String,
    all: bool,
}

fn removed_images(session: &SessionState) -> Vec<RemovedImages> {
    session.meta.as_ref().and_then(|meta| meta.get(HOSTLER_META_KEY)).map(removed_images_of).unwrap_or_default()
}

fn removed_images_of(hostler: &Value) -> Vec<RemovedImages> {
    let noted = hostler.get(REMOVED_IMAGES_META_KEY).or_else(|| hostler.get(FORMER_REMOVED_IMAGES_META_KEY));
    noted.and_then(|noted| Vec::deserialize(noted).ok()).unwrap_or_default()
}

/// The session's `_meta` after images were removed from its conversation.
pub(crate) fn images_removed_action(
    session: &SessionState,
    chat: &ChatState,
    which: ImageSelection,
) -> SessionMetaChangedAction {
    let all = which == ImageSelection::All;
    let mut noted = if all { Vec::new() } else { removed_images(session) };
    noted.extend(chat.turns.last().map(|turn| RemovedImages { through_turn: turn.id.clone(), all }));
    noted.drain(..noted.len().saturating_sub(MAX_REMOVED_IMAGES_ENTRIES));
    let mut meta = session.meta.clone().unwrap_or_default();
    let mut hostler = meta.get(HOSTLER_META_KEY).and_then(Value::as_object).cloned().unwrap_or_default();
    hostler.remove(FORMER_REMOVED_IMAGES_META_KEY);
    hostler.insert(REMOVED_IMAGES_META_KEY.to_owned(), json!(noted));
    meta.insert(HOSTLER_META_KEY.to_owned(), hostler.into());
    SessionMetaChangedAction { meta: Some(meta) }
}

/// What the messages of completed turns add to each request, as far as the agent still sends them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CarriedAttachments(Vec<AttachmentWeight>);

impl CarriedAttachments {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a completed turn.
    pub(crate) fn add_turn(&mut self, session: &SessionState, turn: &Turn) {
        self.add_without_removed(&removed_images(session), turn);
    }

    fn add_without_removed(&mut self, notes: &[RemovedImages], turn: &Turn) {
        let weights = &mut self.0;
        if was_compacted(turn) {
            weights.clear();
        } else if !was_never_sent(turn) {
            weights.extend(Some(message_weight(&turn.message)).filter(|weight| *weight != AttachmentWeight::default()));
        }
        for note in notes.iter().filter(|note| note.through_turn == turn.id) {
            let with_images = weights.iter_mut().rev().filter(|weight| weight.images > 0);
            for weight in with_images.take(if note.all { usize::MAX } else { 1 }) {
                (weight.images, weight.image_bytes) = (0, 0);
            }
        }
    }
}

/// The images and bytes of a chat's completed turns, as far as the agent still sends them.
pub(crate) fn attachment_history(session: &SessionState, chat: &ChatState, past: &EvictedTurns) -> ConversationSize {
    let notes = removed_images(session);
    let mut carried = past.carried_attachments.clone();
    for turn in &chat.turns {
        carried.add_without_removed(&notes, turn);
    }
    carried.0.iter().fold(ConversationSize::default(), add)
}

/// The same including the running turn, because a message that is accepted now follows it.
pub(crate) fn attachment_history_with_active_turn(view: &ChatView) -> ConversationSize {
    let before = attachment_history(&view.session, &view.chat, &view.evicted_turns);
    view.chat.active_turn.as_ref().map_or(before, |turn| add(before, &message_weight(&turn.message)))
}

/// Checks whether a message fits after what the conversation carries.
pub(crate) fn check_fits(
    message: &Message,
    history: ConversationSize,
    limits: &AttachmentLimits,
) -> Result<(), TurnErrorDetails> {
    let whole = add(history, &message_weight(message));
    if whole.images <= limits.images_per_request && whole.bytes <= limits.request_bytes {
        return Ok(());
    }
    Err(TurnErrorDetails {
        error_type: AttachmentErrorCode::PayloadTooLarge.as_str().to_owned(),
        message: format!(
            "With this message, the conversation would contain {} images and {} bytes of files; the limits are {} and {}. \
             Compact the conversation, remove its images, or start a new session.",
            whole.images, whole.bytes, limits.images_per_request, limits.request_bytes
        ),
        stderr: None,
    })
}

/// The size that a message's blocks add to a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttachmentWeight {
    images: usize,
    image_bytes: usize,
    other_bytes: usize,
}

fn add(history: ConversationSize, weight: &AttachmentWeight) -> ConversationSize {
    ConversationSize {
        images: history.images + weight.images,
        bytes: history.bytes + weight.image_bytes + weight.other_bytes,
    }
}

fn message_weight(message: &Message) -> AttachmentWeight {
    let mut weight = AttachmentWeight::default();
    for block in message_blocks(message) {
        match block {
            BlockRef::Image { bytes, .. } => {
                weight.images += 1;
                weight.image_bytes += base64_length(bytes);
            }
            BlockRef::Pdf { bytes, .. } => weight.other_bytes += base64_length(bytes),
            BlockRef::Text { bytes, .. } | BlockRef::References { bytes, .. } => weight.other_bytes += bytes,
        }
    }
    weight
}

fn base64_length(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// After a compaction the agent no longer sends earlier contents.
fn was_compacted(turn: &Turn) -> bool {
    turn.response_parts.iter().any(|part| match part {
        ResponsePart::SystemNotification(note) => match &note.content {
            StringOrMarkdown::Plain(text) => text.starts_with(COMPACTION_NOTICE_PREFIX),
            _ => false,
        },
        _ => false,
    })
}

/// The agent never received the message, because the host could not send its attachments.
fn was_never_sent(turn: &Turn) -> bool {
    let codes = [AttachmentErrorCode::PayloadTooLarge, AttachmentErrorCode::ArtifactMissing];
    match turn.response_parts.last() {
        Some(ResponsePart::Error(part)) => codes.iter().any(|code| part.error.error_type == code.as_str()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_images_are_read_under_current_and_former_names() {
        for hostler in [
            json!({"removedImages": [{"throughTurn": "t1", "all": true}]}),
            json!({"droppedImages": [{"through_turn": "t1", "all": true}]}),
            json!({"droppedImages": [{"through": "t1", "all": true}]}),
        ] {
            let removed = removed_images_of(&hostler);
            assert_eq!((removed.len(), &*removed[0].through_turn, removed[0].all), (1, "t1", true), "{hostler}");
            assert_eq!(json!(removed), json!([{"throughTurn": "t1", "all": true}]));
        }
    }
}
