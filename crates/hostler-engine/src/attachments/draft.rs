//! Drafts: their attachments are stored by reference, but neither planned nor checked for their type.

use std::collections::BTreeSet;

use ahp_types::state::{Message, MessageAttachment, MessageResourceAttachment};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_attachments::{AttachmentError, AttachmentErrorCode, AttachmentLimits, DisplayName};
use hostler_store::Blob;

use super::blocks::uri;
use super::resolve::check_attachment_size;
use super::{attachment_label, attachment_meta_mut, set_hostler_meta};
use crate::sessions::action_mapper::content_hash;

/// The media type of contents whose type is unknown.
const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

/// Replaces the contents of a draft by references. Returns the contents to store.
pub(super) fn rewrite_draft(
    message: &mut Message,
    limits: &AttachmentLimits,
) -> Result<Vec<Blob>, Vec<AttachmentError>> {
    let (mut blobs, mut refusals, mut total) = (Vec::new(), Vec::new(), 0);
    set_hostler_meta(&mut message.meta, None);
    for attachment in message.attachments.iter_mut().flatten() {
        let (name, mut data) = (DisplayName::new(attachment_label(attachment)), String::new());
        if let Some(meta) = attachment_meta_mut(attachment) {
            set_hostler_meta(meta, None);
        }
        if let MessageAttachment::EmbeddedResource(embedded) = attachment {
            data = std::mem::take(&mut embedded.data);
        }
        if let Err((code, sentence)) = check_attachment_size(attachment) {
            refusals.push(AttachmentError { code, name, message: sentence });
            continue;
        }
        let MessageAttachment::EmbeddedResource(embedded) = attachment else { continue };
        let refuse = |code, sentence: &str| AttachmentError { code, name: name.clone(), message: sentence.to_owned() };
        let Ok(data) = STANDARD.decode(data) else {
            refusals.push(refuse(AttachmentErrorCode::Corrupt, "its contents are not valid base64"));
            continue;
        };
        total += data.len();
        if data.len() > limits.file_bytes || total > limits.total_bytes {
            refusals.push(refuse(
                AttachmentErrorCode::TooLarge,
                "the attachments of the draft exceed the size limit of this host",
            ));
            continue;
        }
        let blob = Blob::new(DEFAULT_CONTENT_TYPE, data);
        *attachment = MessageAttachment::Resource(MessageResourceAttachment {
            label: std::mem::take(&mut embedded.label),
            range: embedded.range.take(),
            display_kind: embedded.display_kind.take(),
            meta: embedded.meta.take(),
            uri: uri(&blob),
            size_hint: i64::try_from(blob.body().len()).ok(),
            content_type: Some(std::mem::take(&mut embedded.content_type)),
            nonce: None,
            selection: embedded.selection.take(),
        });
        blobs.push(blob);
    }
    if refusals.is_empty() { Ok(blobs) } else { Err(refusals) }
}

/// The hashes that a draft refers to already, without duplicates.
pub(crate) fn referenced_hashes(message: &Message) -> BTreeSet<String> {
    let attached = message.attachments.iter().flatten();
    attached
        .filter_map(|attachment| match attachment {
            MessageAttachment::Resource(resource) => content_hash(&resource.uri).map(str::to_owned),
            _ => None,
        })
        .collect()
}
