//! Blocks that an agent receives for attachments, independent of a wire format. `messages_api` serializes them.

use std::fmt;
use std::sync::Arc;

use crate::DisplayName;

/// A block that follows the message's text. `Debug` shows only kinds and sizes.
#[derive(Clone, PartialEq, Eq)]
pub enum AttachmentBlock {
    /// An image.
    Image {
        /// Its format.
        image_type: ImageType,
        /// File contents.
        data: Arc<[u8]>,
    },
    /// A PDF document.
    Pdf {
        /// Display name.
        title: DisplayName,
        /// File contents.
        data: Arc<[u8]>,
    },
    /// Text with a name: that of a file, or one that a client chose.
    Text {
        /// Display name.
        title: DisplayName,
        /// The text.
        text: Arc<str>,
    },
    /// Files, directories and selections as paths, in the text that the model reads.
    References(Arc<str>),
}

/// Image formats that models accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageType {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    WebP,
}

impl ImageType {
    /// Media type such as `image/png`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

impl AttachmentBlock {
    /// Size of the contents in bytes.
    pub fn content_bytes(&self) -> usize {
        match self {
            Self::Image { data, .. } | Self::Pdf { data, .. } => data.len(),
            Self::Text { text, .. } | Self::References(text) => text.len(),
        }
    }

    /// Media type of the contents; `None` for references.
    pub fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::Image { image_type: media_type, .. } => Some(media_type.media_type()),
            Self::Pdf { .. } => Some("application/pdf"),
            Self::Text { .. } => Some("text/plain"),
            Self::References(_) => None,
        }
    }
}

impl fmt::Debug for AttachmentBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({}, {} bytes)", self.content_type().unwrap_or("references"), self.content_bytes())
    }
}
