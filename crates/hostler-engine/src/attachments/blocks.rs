//! The content blocks of an accepted message: referenced in its `_meta`, loaded when it is sent.

use std::sync::Arc;

use ahp_types::state::Message;
use hostler_attachments::{AttachmentBlock, AttachmentErrorCode, DisplayName, ImageType};
use hostler_store::{Blob, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HOSTLER_META_KEY, message_attachments};
use crate::sessions::action_mapper::{TurnErrorDetails, content_hash, content_uri};

/// The key below `hostler` in a message's `_meta`.
pub(super) const BLOCKS_META_KEY: &str = "blocks";

/// A reference to a block's contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum BlockRef {
    /// An image.
    Image { uri: String, content_type: String, bytes: usize },
    /// A PDF document.
    Pdf { uri: String, title: String, bytes: usize },
    /// Text with a title.
    Text { uri: String, title: String, bytes: usize },
    /// References to files.
    References { uri: String, bytes: usize },
}

impl BlockRef {
    /// The reference to a block, and the contents to store.
    pub(super) fn from_block(block: &AttachmentBlock) -> (Self, Blob) {
        let text = |text: &Arc<str>| Blob::new("text/plain", Arc::<[u8]>::from(Arc::clone(text)));
        let blob = match block {
            AttachmentBlock::Image { image_type: media_type, data } => {
                Blob::new(media_type.media_type(), Arc::clone(data))
            }
            AttachmentBlock::Pdf { data, .. } => Blob::new("application/pdf", Arc::clone(data)),
            AttachmentBlock::Text { text: contents, .. } | AttachmentBlock::References(contents) => text(contents),
        };
        let (uri, bytes) = (uri(&blob), blob.body().len());
        let named = match block {
            AttachmentBlock::Image { image_type: media_type, .. } => {
                Self::Image { uri, content_type: media_type.media_type().to_owned(), bytes }
            }
            AttachmentBlock::Pdf { title, .. } => Self::Pdf { uri, title: title.to_string(), bytes },
            AttachmentBlock::Text { title, .. } => Self::Text { uri, title: title.to_string(), bytes },
            AttachmentBlock::References(_) => Self::References { uri, bytes },
        };
        (named, blob)
    }

    fn content_uri(&self) -> &str {
        match self {
            Self::Image { uri, .. } | Self::Pdf { uri, .. } | Self::Text { uri, .. } | Self::References { uri, .. } => {
                uri
            }
        }
    }

    /// The block with these contents; `None` if they do not match.
    fn to_block(&self, contents: &[u8]) -> Option<AttachmentBlock> {
        let text = || std::str::from_utf8(contents).ok().map(Arc::<str>::from);
        Some(match self {
            Self::Image { content_type, .. } => {
                let types = [ImageType::Png, ImageType::Jpeg, ImageType::Gif, ImageType::WebP];
                let media_type = types.into_iter().find(|kind| kind.media_type() == content_type)?;
                AttachmentBlock::Image { image_type: media_type, data: contents.into() }
            }
            Self::Pdf { title, .. } => AttachmentBlock::Pdf { title: DisplayName::new(title), data: contents.into() },
            Self::Text { title, .. } => AttachmentBlock::Text { title: DisplayName::new(title), text: text()? },
            Self::References { .. } => AttachmentBlock::References(text()?),
        })
    }
}

/// The URI of contents.
pub(super) fn uri(blob: &Blob) -> String {
    content_uri(blob)
}

/// Whether a message has blocks after its text.
pub(crate) fn has_blocks(message: &Message) -> bool {
    !message_attachments(message).is_empty()
}

/// The blocks after a message's text. Only prepared messages have attachments, and only the list in `_meta` counts.
pub(crate) fn message_blocks(message: &Message) -> Vec<BlockRef> {
    if !has_blocks(message) {
        return Vec::new();
    }
    let said = message
        .meta
        .as_ref()
        .and_then(|meta| meta.get(HOSTLER_META_KEY))
        .and_then(|hostler| hostler.get(BLOCKS_META_KEY));
    said.and_then(Value::as_array).into_iter().flatten().filter_map(|named| BlockRef::deserialize(named).ok()).collect()
}

/// Loads the contents of blocks.
pub(crate) async fn load_blocks(store: &Store, blocks: &[BlockRef]) -> Result<Vec<AttachmentBlock>, TurnErrorDetails> {
    let mut loaded = Vec::with_capacity(blocks.len());
    for named in blocks {
        let hash = content_hash(named.content_uri()).unwrap_or_default();
        let blob = store.blob(hash).await.map_err(|error| TurnErrorDetails {
            error_type: "store".to_owned(),
            message: format!("The attachments of this message cannot be read: {error}. Resume the turn to try again."),
            stderr: None,
        })?;
        let block = blob.and_then(|blob| named.to_block(blob.body())).ok_or_else(missing_blob_failure)?;
        loaded.push(block);
    }
    Ok(loaded)
}

fn missing_blob_failure() -> TurnErrorDetails {
    TurnErrorDetails {
        error_type: AttachmentErrorCode::ArtifactMissing.as_str().to_owned(),
        message: "A file of this message is no longer stored on the host. Attach it again in a new message.".to_owned(),
        stderr: None,
    }
}
