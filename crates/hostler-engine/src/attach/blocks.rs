//! The blocks of an accepted message: named in its `_meta`, read back when it is sent.

use std::sync::Arc;

use ahp_types::state::Message;
use hostler_attachments::{Block, Code, ImageType, Title};
use hostler_store::{Blob, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HOSTLER, attachments};
use crate::transcript::{Failure, content_hash, content_uri};

/// The key below `hostler` in a message's `_meta`.
pub(super) const BLOCKS: &str = "blocks";

/// A block by its contents' name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum NamedBlock {
    /// A picture.
    Image { uri: String, content_type: String, bytes: usize },
    /// A PDF document.
    Pdf { uri: String, title: String, bytes: usize },
    /// Text with a title.
    Text { uri: String, title: String, bytes: usize },
    /// Places of files.
    References { uri: String, bytes: usize },
}

impl NamedBlock {
    /// Names a block; its contents are to be kept.
    pub(super) fn of(block: &Block) -> (Self, Blob) {
        let text = |text: &Arc<str>| Blob::new("text/plain", Arc::<[u8]>::from(Arc::clone(text)));
        let blob = match block {
            Block::Image { media_type, data } => Blob::new(media_type.media_type(), Arc::clone(data)),
            Block::Pdf { data, .. } => Blob::new("application/pdf", Arc::clone(data)),
            Block::Text { text: words, .. } | Block::References(words) => text(words),
        };
        let (uri, bytes) = (uri(&blob), blob.body().len());
        let named = match block {
            Block::Image { media_type, .. } => {
                Self::Image { uri, content_type: media_type.media_type().to_owned(), bytes }
            }
            Block::Pdf { title, .. } => Self::Pdf { uri, title: title.to_string(), bytes },
            Block::Text { title, .. } => Self::Text { uri, title: title.to_string(), bytes },
            Block::References(_) => Self::References { uri, bytes },
        };
        (named, blob)
    }

    fn uri(&self) -> &str {
        match self {
            Self::Image { uri, .. } | Self::Pdf { uri, .. } | Self::Text { uri, .. } | Self::References { uri, .. } => {
                uri
            }
        }
    }

    /// The block with these contents; nothing if they cannot be its.
    fn with(&self, contents: &[u8]) -> Option<Block> {
        let text = || std::str::from_utf8(contents).ok().map(Arc::<str>::from);
        Some(match self {
            Self::Image { content_type, .. } => {
                let types = [ImageType::Png, ImageType::Jpeg, ImageType::Gif, ImageType::WebP];
                let media_type = types.into_iter().find(|kind| kind.media_type() == content_type)?;
                Block::Image { media_type, data: contents.into() }
            }
            Self::Pdf { title, .. } => Block::Pdf { title: Title::new(title), data: contents.into() },
            Self::Text { title, .. } => Block::Text { title: Title::new(title), text: text()? },
            Self::References { .. } => Block::References(text()?),
        })
    }
}

/// The name of contents.
pub(super) fn uri(blob: &Blob) -> String {
    content_uri(blob)
}

/// Whether anything follows the words of a message.
pub(crate) fn has_blocks(message: &Message) -> bool {
    !attachments(message).is_empty()
}

/// What follows the words of a message. Only messages that were prepared have attachments, and only their list counts.
pub(crate) fn blocks_of(message: &Message) -> Vec<NamedBlock> {
    if !has_blocks(message) {
        return Vec::new();
    }
    let said = message.meta.as_ref().and_then(|meta| meta.get(HOSTLER)).and_then(|hostler| hostler.get(BLOCKS));
    said.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|named| NamedBlock::deserialize(named).ok())
        .collect()
}

/// Reads the contents of blocks back.
pub(crate) async fn load(store: &Store, blocks: &[NamedBlock]) -> Result<Vec<Block>, Failure> {
    let mut loaded = Vec::with_capacity(blocks.len());
    for named in blocks {
        let hash = content_hash(named.uri()).unwrap_or_default();
        let blob = store.blob(hash).await.map_err(|error| Failure {
            error_type: "store".to_owned(),
            message: format!("What is attached to this message cannot be read: {error}. Resume the turn to try again."),
            stderr: None,
        })?;
        let block = blob.and_then(|blob| named.with(blob.body())).ok_or_else(missing)?;
        loaded.push(block);
    }
    Ok(loaded)
}

fn missing() -> Failure {
    Failure {
        error_type: Code::ArtifactMissing.as_str().to_owned(),
        message: "A file of this message is no longer in the host's store. Attach it again in a new message."
            .to_owned(),
        stderr: None,
    }
}
