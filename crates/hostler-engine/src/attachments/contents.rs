use hostler_store::Blob;

/// What a dispatch's message names, on its way into the store together with the acceptance. Only the engine's own
/// preparation fills it, so that no message is accepted whose attachments nobody has looked at.
#[derive(Debug, Clone, Default)]
pub struct AttachmentContents {
    blobs: Vec<Blob>,
    is_prepared: bool,
}

impl AttachmentContents {
    pub(super) fn prepared(blobs: Vec<Blob>) -> Self {
        Self { blobs, is_prepared: true }
    }

    /// Whether the message's attachments have been looked at.
    pub(crate) fn is_prepared(&self) -> bool {
        self.is_prepared
    }

    /// What is to be kept.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = Blob> + '_ {
        self.blobs.iter().cloned()
    }
}
