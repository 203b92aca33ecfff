//! Rewrites an accepted message for clients: contents by reference, and what happened to each attachment.

use std::sync::Arc;

use ahp_types::state::{Message, MessageAttachment, MessageResourceAttachment};
use hostler_attachments::{AttachmentPlan, PlannedAttachment};
use hostler_store::Blob;
use serde_json::json;

use super::blocks::{BLOCKS_META_KEY, BlockRef, uri};
use super::resolve::AttachmentEcho;
use super::summary::{EchoedAttachment, SentVariant};
use super::{attachment_meta_mut, set_hostler_meta};
use crate::sessions::action_mapper::named_content_uri;

/// Rewrites a message according to its plan. Returns the contents to store.
pub(super) fn rewrite_message(message: &mut Message, echoes: Vec<AttachmentEcho>, plan: &AttachmentPlan) -> Vec<Blob> {
    let (blocks, mut blobs): (Vec<_>, Vec<_>) = plan.blocks().iter().map(BlockRef::from_block).unzip();
    let attached = message.attachments.take().unwrap_or_default();
    let files = plan.attachments.iter().zip(plan.summaries());
    let mut shown = Vec::with_capacity(attached.len());
    for ((attachment, echo), (file, summary)) in attached.into_iter().zip(echoes).zip(files) {
        let (mut attachment, sent) = match echo {
            AttachmentEcho::AsSent => (attachment, None),
            AttachmentEcho::WithEndTurn(turn) => (with_end_turn(attachment, turn), None),
            AttachmentEcho::Stored => {
                let (original, sent) = (original_blob(file), BlockRef::from_block(&file.block).1);
                let variant = (original.hash() != sent.hash()).then(|| SentVariant { uri: uri(&sent) });
                let stored = to_stored_resource(attachment, &original);
                blobs.push(original);
                (stored, variant)
            }
        };
        if let Some(meta) = attachment_meta_mut(&mut attachment) {
            set_hostler_meta(meta, serde_json::to_value(EchoedAttachment { summary: &summary, sent }).ok());
        }
        shown.push(attachment);
    }
    message.attachments = Some(shown);
    set_hostler_meta(&mut message.meta, Some(json!({ BLOCKS_META_KEY: blocks })));
    blobs.sort_by(|a, b| a.hash().cmp(b.hash()));
    blobs.dedup_by(|a, b| a.hash() == b.hash());
    blobs
}

/// Contents as received.
fn original_blob(file: &PlannedAttachment) -> Blob {
    match &file.original {
        Some(original) => Blob::new(original.media_type, Arc::clone(&original.data)),
        None => BlockRef::from_block(&file.block).1,
    }
}

/// Refers to contents that arrived with the message, or were read from the client, as resources of this host.
fn to_stored_resource(attachment: MessageAttachment, original: &Blob) -> MessageAttachment {
    let resource = |name: &str, label, range, display_kind, meta, selection| MessageResourceAttachment {
        label,
        range,
        display_kind,
        meta,
        uri: named_content_uri(original, name),
        size_hint: i64::try_from(original.body().len()).ok(),
        content_type: Some(original.content_type().to_owned()),
        nonce: None,
        selection,
    };
    MessageAttachment::Resource(match attachment {
        MessageAttachment::EmbeddedResource(a) => {
            resource(&a.label.clone(), a.label, a.range, a.display_kind, a.meta, a.selection)
        }
        MessageAttachment::Resource(a) => resource(&a.uri, a.label, a.range, a.display_kind, a.meta, a.selection),
        other => return other,
    })
}

fn with_end_turn(attachment: MessageAttachment, turn: Option<String>) -> MessageAttachment {
    match attachment {
        MessageAttachment::Chat(mut chat) => {
            chat.end_turn = turn;
            MessageAttachment::Chat(chat)
        }
        other => other,
    }
}
