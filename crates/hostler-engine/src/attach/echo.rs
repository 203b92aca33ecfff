//! An accepted message as everybody sees it: contents by their names, and what became of each attachment.

use std::sync::Arc;

use ahp_types::state::{Message, MessageAttachment, MessageResourceAttachment};
use hostler_attachments::{Plan, Planned};
use hostler_store::Blob;
use serde_json::json;

use super::blocks::{BLOCKS, NamedBlock, uri};
use super::resolve::Echo;
use super::summary::{Sent, Shown};
use super::{meta_mut, say};
use crate::transcript::named_content_uri;

/// Rewrites a message by its plan. Returns what has to be kept for it.
pub(super) fn rewrite(message: &mut Message, echoes: Vec<Echo>, plan: &Plan) -> Vec<Blob> {
    let (blocks, mut blobs): (Vec<_>, Vec<_>) = plan.blocks().iter().map(NamedBlock::of).unzip();
    let attached = message.attachments.take().unwrap_or_default();
    let files = plan.files.iter().zip(plan.summaries());
    let mut shown = Vec::with_capacity(attached.len());
    for ((attachment, echo), (file, summary)) in attached.into_iter().zip(echoes).zip(files) {
        let (mut attachment, sent) = match echo {
            Echo::AsSent => (attachment, None),
            Echo::Through(turn) => (through(attachment, turn), None),
            Echo::Kept => {
                let (original, sent) = (original(file), NamedBlock::of(&file.block).1);
                let variant = (original.hash() != sent.hash()).then(|| Sent { uri: uri(&sent) });
                let kept = kept(attachment, &original);
                blobs.push(original);
                (kept, variant)
            }
        };
        if let Some(meta) = meta_mut(&mut attachment) {
            say(meta, serde_json::to_value(Shown { summary: &summary, sent }).ok());
        }
        shown.push(attachment);
    }
    message.attachments = Some(shown);
    say(&mut message.meta, Some(json!({ BLOCKS: blocks })));
    blobs.sort_by(|a, b| a.hash().cmp(b.hash()));
    blobs.dedup_by(|a, b| a.hash() == b.hash());
    blobs
}

/// Contents as they were received.
fn original(file: &Planned) -> Blob {
    match &file.original {
        Some(original) => Blob::new(original.media_type, Arc::clone(&original.data)),
        None => NamedBlock::of(&file.block).1,
    }
}

/// Contents that arrived with the message, or were read from the client, belong to this host from now on.
fn kept(attachment: MessageAttachment, original: &Blob) -> MessageAttachment {
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

fn through(attachment: MessageAttachment, turn: Option<String>) -> MessageAttachment {
    match attachment {
        MessageAttachment::Chat(mut chat) => {
            chat.end_turn = turn;
            MessageAttachment::Chat(chat)
        }
        other => other,
    }
}
