//! Errors of planning: a code, a display name and a message for each rejected attachment.

use crate::{AttachmentSummary, DisplayName};

/// Why an attachment is rejected, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachmentErrorCode {
    /// An attachment, or all of them together, exceed the host's size limit.
    TooLarge,
    /// No agent supports this type.
    TypeUnsupported,
    /// The message's model does not support this type.
    ModelUnsupported,
    /// The contents are damaged or do not match their declaration.
    Corrupt,
    /// The image must be reduced, and that failed.
    OptimizationFailed,
    /// Stored contents of an earlier message are missing.
    ArtifactMissing,
    /// The path is outside of the granted roots.
    PathUnsafe,
    /// The message, or the conversation with it, exceeds the limit of the agent or its provider.
    PayloadTooLarge,
    /// The model's provider rejected it.
    ProviderRejected,
    /// It could not be fetched, or not be sent to the agent.
    TransportFailed,
}

impl AttachmentErrorCode {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "attachment_too_large",
            Self::TypeUnsupported => "attachment_type_unsupported",
            Self::ModelUnsupported => "attachment_model_unsupported",
            Self::Corrupt => "attachment_corrupt",
            Self::OptimizationFailed => "attachment_optimization_failed",
            Self::ArtifactMissing => "attachment_artifact_missing",
            Self::PathUnsafe => "attachment_path_unsafe",
            Self::PayloadTooLarge => "attachment_payload_too_large",
            Self::ProviderRejected => "attachment_provider_rejected",
            Self::TransportFailed => "attachment_transport_failed",
        }
    }

    /// Whether sending the same message again may succeed.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::TransportFailed)
    }
}

/// One rejected attachment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct AttachmentError {
    /// Code for programs.
    pub code: AttachmentErrorCode,
    /// Display name.
    pub name: DisplayName,
    /// Message for a person, with what to do about it. Contains no contents and no path.
    pub message: String,
}

/// The plan failed and nothing is sent: all rejected attachments in the user's order, and summaries of all attachments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", join_messages(.errors))]
pub struct AttachmentPlanError {
    /// Never empty.
    pub errors: Vec<AttachmentError>,
    /// All attachments in the user's order. Empty if the message was rejected before planning.
    pub summaries: Vec<AttachmentSummary>,
}

impl From<AttachmentError> for AttachmentPlanError {
    fn from(refusal: AttachmentError) -> Self {
        Self { summaries: vec![AttachmentSummary::from_error(&refusal, None)], errors: vec![refusal] }
    }
}

fn join_messages(refusals: &[AttachmentError]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl serde::Serialize for AttachmentErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
