use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::{
    AttachmentBlock, AttachmentDisposition, AttachmentSummary, DisplayName, FileReference, VariantKey, references,
};

/// Every file of a message, and what becomes of it. Exists only if all of them can be sent.
#[derive(Debug, Clone)]
pub struct AttachmentPlan {
    /// In the user's order.
    pub attachments: Vec<PlannedAttachment>,
}

/// One file that will be sent.
#[derive(Debug, Clone)]
pub struct PlannedAttachment {
    /// What it is called.
    pub name: DisplayName,
    /// What it is.
    pub kind: AttachmentKind,
    /// What was received, where that was contents. To be kept, so that the message can be sent again.
    pub original: Option<OriginalContent>,
    /// The name of what was made of the original, where something was.
    pub variant: Option<VariantKey>,
    /// What the agent is given, if it is given this file alone. [`Plan::blocks`] joins places that follow each other.
    pub block: AttachmentBlock,
    /// What a person could notice and should know.
    pub warnings: Vec<AttachmentWarning>,
    /// What the block of a place is written from.
    pub(crate) reference: Option<FileReference>,
}

/// What an attachment turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachmentKind {
    /// A picture, with its width and height as it is sent.
    Image {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// A PDF document.
    Pdf {
        /// How many pages it has.
        pages: usize,
    },
    /// Text.
    Text,
    /// Something that the agent is told the place of.
    Reference,
}

/// Contents as they were received.
#[derive(Clone, PartialEq, Eq)]
pub struct OriginalContent {
    /// What they are, by their own bytes.
    pub media_type: &'static str,
    /// The contents.
    pub data: Arc<[u8]>,
}

// Contents are people's own.
impl fmt::Debug for OriginalContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Original({}, {} bytes)", self.media_type, self.data.len())
    }
}

/// Something that a person could notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachmentWarning {
    /// For programs: `shrunk`, `converted`, `compressed`, `trimmed`, `mislabelled`, `decoded`, `empty`.
    pub kind: &'static str,
    /// For a person.
    #[serde(rename = "sentence")]
    pub message: String,
}

impl AttachmentWarning {
    pub(crate) fn new(kind: &'static str, sentence: impl Into<String>) -> Self {
        Self { kind, message: sentence.into() }
    }
}

impl AttachmentPlan {
    /// What the agent is given, in the user's order. Files, directories and selections that follow each other are one block.
    pub fn blocks(&self) -> Vec<AttachmentBlock> {
        let of_places = |file: &PlannedAttachment| file.reference.is_some();
        let runs = self.attachments.chunk_by(|one, next| of_places(one) && of_places(next));
        runs.map(|run| match run {
            [file] => file.block.clone(),
            places => references::build_block(places.iter().filter_map(|file| file.reference.as_ref())),
        })
        .collect()
    }

    /// What becomes of each file, for clients.
    pub fn summaries(&self) -> Vec<AttachmentSummary> {
        self.attachments.iter().map(|file| AttachmentSummary::from_planned(file, AttachmentDisposition::Send)).collect()
    }
}

impl PlannedAttachment {
    /// How many pictures it is.
    pub(crate) fn image_count(&self) -> usize {
        usize::from(matches!(self.kind, AttachmentKind::Image { .. }))
    }
}
