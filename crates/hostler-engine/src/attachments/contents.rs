//! `AttachmentContents`: the contents that an accepted message refers to.

use hostler_store::Blob;

/// The contents that a dispatch's message refers to; they are stored together with its acceptance. Only the engine's
/// own preparation creates them, so that no message with unplanned attachments is accepted.
#[derive(Debug, Clone, Default)]
pub struct AttachmentContents {
    blobs: Vec<Blob>,
    is_prepared: bool,
}

impl AttachmentContents {
    pub(super) fn prepared(blobs: Vec<Blob>) -> Self {
        Self { blobs, is_prepared: true }
    }

    /// Whether the message's attachments were prepared.
    pub(crate) fn is_prepared(&self) -> bool {
        self.is_prepared
    }

    /// The contents to store.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = Blob> + '_ {
        self.blobs.iter().cloned()
    }
}
