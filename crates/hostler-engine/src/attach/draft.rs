//! What somebody is still writing: kept by reference like everything else, but neither planned nor refused for what it is.

use std::collections::BTreeSet;

use ahp_types::state::{Message, MessageAttachment, MessageResourceAttachment};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_attachments::{Code, Limits, Refusal, Title};
use hostler_store::Blob;

use super::blocks::uri;
use super::resolve::said_briefly;
use super::{label, meta_mut, say};
use crate::transcript::content_hash;

/// What contents are whose kind nobody has looked at.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Rewrites a draft so that it names contents. Returns what has to be kept for it.
pub(super) fn rewrite(message: &mut Message, limits: &Limits) -> Result<Vec<Blob>, Vec<Refusal>> {
    let (mut blobs, mut refusals, mut total) = (Vec::new(), Vec::new(), 0);
    say(&mut message.meta, None);
    for attachment in message.attachments.iter_mut().flatten() {
        let (name, mut data) = (Title::new(label(attachment)), String::new());
        if let Some(meta) = meta_mut(attachment) {
            say(meta, None);
        }
        if let MessageAttachment::EmbeddedResource(embedded) = attachment {
            data = std::mem::take(&mut embedded.data);
        }
        if let Err((code, sentence)) = said_briefly(attachment) {
            refusals.push(Refusal { code, name, sentence });
            continue;
        }
        let MessageAttachment::EmbeddedResource(embedded) = attachment else { continue };
        let refuse = |code, sentence: &str| Refusal { code, name: name.clone(), sentence: sentence.to_owned() };
        let Ok(data) = STANDARD.decode(data) else {
            refusals.push(refuse(Code::Corrupt, "its contents are not proper base64"));
            continue;
        };
        total += data.len();
        if data.len() > limits.file_bytes || total > limits.total_bytes {
            refusals.push(refuse(Code::TooLarge, "the draft would bring more than this host takes"));
            continue;
        }
        let blob = Blob::new(UNKNOWN_TYPE, data);
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

/// The hashes of contents that a draft names already, each once.
pub(crate) fn named(message: &Message) -> BTreeSet<String> {
    let attached = message.attachments.iter().flatten();
    attached
        .filter_map(|attachment| match attachment {
            MessageAttachment::Resource(resource) => content_hash(&resource.uri).map(str::to_owned),
            _ => None,
        })
        .collect()
}
