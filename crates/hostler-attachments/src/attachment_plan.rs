//! The attachment plan: what happens to each attachment of a message. A plan exists only if all attachments can be
//! sent.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::{
    AttachmentBlock, AttachmentDisposition, AttachmentSummary, DisplayName, FileReference, VariantKey, references,
};

/// All attachments of a message, each with its outcome. Exists only if all of them can be sent.
#[derive(Debug, Clone)]
pub struct AttachmentPlan {
    /// In the user's order.
    pub attachments: Vec<PlannedAttachment>,
}

/// One attachment that will be sent.
#[derive(Debug, Clone)]
pub struct PlannedAttachment {
    /// Display name.
    pub name: DisplayName,
    /// Detected kind.
    pub kind: AttachmentKind,
    /// The received contents, if there are any. The caller stores them, so that the message can be sent again.
    pub original: Option<OriginalContent>,
    /// Key of the variant, if the original was changed.
    pub variant: Option<VariantKey>,
    /// The block for the agent, if this attachment is sent alone. [`AttachmentPlan::blocks`] merges adjacent
    /// references.
    pub block: AttachmentBlock,
    /// Changes that a person should know about.
    pub warnings: Vec<AttachmentWarning>,
    /// The reference that the block is built from.
    pub(crate) reference: Option<FileReference>,
}

/// Kind of an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachmentKind {
    /// An image, with the dimensions that are sent.
    Image {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// A PDF document.
    Pdf {
        /// Number of pages.
        pages: usize,
    },
    /// Text.
    Text,
    /// A file, directory or selection that the agent receives as a path.
    Reference,
}

/// Contents as received.
#[derive(Clone, PartialEq, Eq)]
pub struct OriginalContent {
    /// Detected media type.
    pub media_type: &'static str,
    /// The contents.
    pub data: Arc<[u8]>,
}

// Contents are private, so only their size is shown.
impl fmt::Debug for OriginalContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Original({}, {} bytes)", self.media_type, self.data.len())
    }
}

/// A change that a person could notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachmentWarning {
    /// Code for programs: `shrunk`, `converted`, `compressed`, `trimmed`, `mislabelled`, `decoded`, `empty`.
    pub kind: &'static str,
    /// Message for a person.
    pub message: String,
}

impl AttachmentWarning {
    pub(crate) fn new(kind: &'static str, sentence: impl Into<String>) -> Self {
        Self { kind, message: sentence.into() }
    }
}

impl AttachmentPlan {
    /// The blocks for the agent, in the user's order. Adjacent files, directories and selections are one block.
    pub fn blocks(&self) -> Vec<AttachmentBlock> {
        let of_places = |file: &PlannedAttachment| file.reference.is_some();
        let runs = self.attachments.chunk_by(|one, next| of_places(one) && of_places(next));
        runs.map(|run| match run {
            [file] => file.block.clone(),
            places => references::build_block(places.iter().filter_map(|file| file.reference.as_ref())),
        })
        .collect()
    }

    /// Summaries of all attachments, for clients.
    pub fn summaries(&self) -> Vec<AttachmentSummary> {
        self.attachments.iter().map(|file| AttachmentSummary::from_planned(file, AttachmentDisposition::Send)).collect()
    }
}

impl PlannedAttachment {
    /// Number of images.
    pub(crate) fn image_count(&self) -> usize {
        usize::from(matches!(self.kind, AttachmentKind::Image { .. }))
    }
}
