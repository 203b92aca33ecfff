//! Attachments of messages: from a client's attachment to the agent's content blocks.
//!
//! Attachments are resolved, planned in a blocking thread and replaced by references before the actor receives the
//! message. Contents come from the message itself, the store, the working directories, or the client (by a
//! host-to-client request). Each attachment of an accepted message states in `_meta.hostler` what happened to it, and
//! the message's own `_meta.hostler` lists the *blocks* for the agent, by the hashes of their contents. Contents are
//! committed together with the accepted message and are read back from the store whenever the message is sent: at once,
//! from the queue, as a steer, or again after a resume.
//!
//! **Architecture Invariant:** a message without attachments never comes here.

mod blocks;
mod chat_excerpt;
mod client_files;
mod contents;
mod draft;
mod history;
mod host_files;
mod pixel_budget;
mod prepare;
mod published_message;
mod rejection;
mod resolve;
mod summary;
mod vision;

use ahp_types::StateAction;
use ahp_types::common::JsonObject;
use ahp_types::state::{AnnotationsState, ChatState, Message, MessageAttachment, SessionState};
use hostler_attachments::AttachmentLimits;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Semaphore;

use crate::sessions::turn_storage::EvictedTurns;

pub(crate) use self::blocks::{has_blocks, load_blocks, message_blocks};
pub use self::client_files::{
    ClientDirectoryEntry, ClientFileError, ClientFileReader, DirectoryListing, NoClientFiles,
};
pub use self::contents::AttachmentContents;
pub(crate) use self::draft::referenced_hashes as named_in_draft;
use self::history::attachment_history_with_active_turn;
pub(crate) use self::history::{CarriedAttachments, attachment_history, check_fits, images_removed_action};
use self::pixel_budget::PixelBudget;
pub use self::rejection::AttachmentRejection;
pub use self::summary::AttachmentPlanSummary;

/// The host's own key in the `_meta` of messages, attachments and sessions.
const HOSTLER_META_KEY: &str = "hostler";

/// Maximum number of messages whose attachments are planned at the same time.
const MAX_CONCURRENT_ATTACHMENT_PLANS: usize = 2;

/// The limits of the host's work on attachments.
pub(crate) struct AttachmentService {
    /// Limits on the attachments of one message.
    limits: AttachmentLimits,
    /// Limits how many messages have their attachments planned at the same time: each can take much memory.
    plan_slots: Semaphore,
    /// Limits how many decoded pixels they hold at the same time.
    pixel_budget: Arc<PixelBudget>,
}

impl AttachmentService {
    pub(crate) fn new(limits: AttachmentLimits) -> Self {
        let pixel_budget = PixelBudget::new(limits.image_pixels);
        Self { limits, plan_slots: Semaphore::new(MAX_CONCURRENT_ATTACHMENT_PLANS), pixel_budget }
    }

    /// Limits on the attachments of one message.
    pub(crate) fn limits(&self) -> &AttachmentLimits {
        &self.limits
    }

    /// The peak of decoded pixels since the start, and their limit.
    pub(crate) fn peak_pixels(&self) -> (u32, u32) {
        self.pixel_budget.peak()
    }
}

/// The state of a session and one of its chats at one moment.
#[derive(Debug, Clone)]
pub(crate) struct ChatView {
    pub(crate) session: Arc<SessionState>,
    pub(crate) chat: Arc<ChatState>,
    /// The chat's evicted turns.
    pub(crate) evicted_turns: EvictedTurns,
    pub(crate) annotations: Arc<AnnotationsState>,
}

/// The message of an action.
fn action_message(action: &StateAction) -> Option<&Message> {
    match action {
        StateAction::ChatTurnStarted(action) => Some(&action.message),
        StateAction::ChatPendingMessageSet(action) => Some(&action.message),
        StateAction::ChatDraftChanged(action) => action.draft.as_ref(),
        _ => None,
    }
}

fn action_message_mut(action: &mut StateAction) -> Option<&mut Message> {
    match action {
        StateAction::ChatTurnStarted(action) => Some(&mut action.message),
        StateAction::ChatPendingMessageSet(action) => Some(&mut action.message),
        StateAction::ChatDraftChanged(action) => action.draft.as_mut(),
        _ => None,
    }
}

/// The attachments of a message.
pub(crate) fn message_attachments(message: &Message) -> &[MessageAttachment] {
    message.attachments.as_deref().unwrap_or_default()
}

/// Whether an action's message has attachments.
pub(crate) fn has_attachments(action: &StateAction) -> bool {
    action_message(action).is_some_and(|message| !message_attachments(message).is_empty())
}

/// Removes inline contents from an action, so that it can be echoed even if it is rejected.
pub(crate) fn strip_contents(action: &mut StateAction) {
    let attached = action_message_mut(action).and_then(|message| message.attachments.as_mut());
    for attachment in attached.into_iter().flatten() {
        match attachment {
            MessageAttachment::EmbeddedResource(embedded) => embedded.data = String::new(),
            // The contents of unknown attachments cannot be located.
            MessageAttachment::Unknown(unknown) => {
                let kind = unknown.get("type").filter(|kind| kind.is_string()).cloned();
                *unknown = Value::Object(kind.map(|kind| ("type".to_owned(), kind)).into_iter().collect());
            }
            _ => {}
        }
    }
}

/// The client's label of an attachment.
pub(crate) fn attachment_label(attachment: &MessageAttachment) -> &str {
    match attachment {
        MessageAttachment::Simple(simple) => &simple.label,
        MessageAttachment::EmbeddedResource(embedded) => &embedded.label,
        MessageAttachment::Resource(resource) => &resource.label,
        MessageAttachment::Annotations(annotations) => &annotations.label,
        MessageAttachment::Chat(chat) => &chat.label,
        MessageAttachment::Unknown(unknown) => unknown.get("label").and_then(Value::as_str).unwrap_or_default(),
    }
}

fn attachment_meta_mut(attachment: &mut MessageAttachment) -> Option<&mut Option<JsonObject>> {
    match attachment {
        MessageAttachment::Simple(simple) => Some(&mut simple.meta),
        MessageAttachment::EmbeddedResource(embedded) => Some(&mut embedded.meta),
        MessageAttachment::Resource(resource) => Some(&mut resource.meta),
        MessageAttachment::Annotations(annotations) => Some(&mut annotations.meta),
        MessageAttachment::Chat(chat) => Some(&mut chat.meta),
        MessageAttachment::Unknown(_) => None,
    }
}

/// Sets the value under the host's own key, or removes it with `None`.
fn set_hostler_meta(meta: &mut Option<JsonObject>, what: Option<Value>) {
    match what {
        Some(what) => drop(meta.get_or_insert_default().insert(HOSTLER_META_KEY.to_owned(), what)),
        None => {
            if let Some(meta) = meta {
                meta.remove(HOSTLER_META_KEY);
            }
            meta.take_if(|meta| meta.is_empty());
        }
    }
}
