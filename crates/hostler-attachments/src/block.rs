use std::fmt;
use std::sync::Arc;

use crate::DisplayName;

/// Something that goes to the agent behind the words of a message. Never printed: its `Debug` shows kinds and sizes.
#[derive(Clone, PartialEq, Eq)]
pub enum AttachmentBlock {
    /// A picture.
    Image {
        /// Its form.
        image_type: ImageType,
        /// The file.
        data: Arc<[u8]>,
    },
    /// A PDF document.
    Pdf {
        /// What it is called.
        title: DisplayName,
        /// The file.
        data: Arc<[u8]>,
    },
    /// Text that belongs to a name: a file's, or what a client calls it.
    Text {
        /// What it is called.
        title: DisplayName,
        /// The text.
        text: Arc<str>,
    },
    /// Files, directories and selections that are named and not sent, as the model reads it.
    References(Arc<str>),
}

/// The forms of pictures that models take.
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
    /// `image/png` and the like.
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
    /// How many bytes of contents it carries.
    pub fn content_bytes(&self) -> usize {
        match self {
            Self::Image { data, .. } | Self::Pdf { data, .. } => data.len(),
            Self::Text { text, .. } | Self::References(text) => text.len(),
        }
    }

    /// The form of its contents; places have none.
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
