//! `AttachmentRejection`: why a message is rejected because of its attachments.

use hostler_attachments::AttachmentErrorCode;

/// Why a message is rejected because of its attachments. The text names every rejected file with its reason and code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AttachmentRejection {
    /// The first code.
    pub(super) code: AttachmentErrorCode,
    /// The message for a person.
    pub(super) message: String,
}

impl AttachmentRejection {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code.as_str()
    }
}
