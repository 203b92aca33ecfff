use crate::{AttachmentSummary, DisplayName};

/// Why a file is not sent, as programs read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachmentErrorCode {
    /// A file, or all of them together, is larger than the host takes.
    TooLarge,
    /// No agent can be given this kind of file.
    TypeUnsupported,
    /// The model of this message cannot be given this kind of file.
    ModelUnsupported,
    /// The file is not what it says, or damaged.
    Corrupt,
    /// It would have to be made smaller, and that failed.
    OptimizationFailed,
    /// What an earlier message refers to is gone.
    ArtifactMissing,
    /// The path leads to where this session may not look.
    PathUnsafe,
    /// The whole message, or the conversation with it, would be more than the agent or its provider takes.
    PayloadTooLarge,
    /// The model's provider refused it.
    ProviderRejected,
    /// It could not be fetched, or not be written to the agent.
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

    /// Whether the same message may be taken another time.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::TransportFailed)
    }
}

/// One file that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct AttachmentError {
    /// Why, for programs.
    pub code: AttachmentErrorCode,
    /// Which file.
    pub name: DisplayName,
    /// Why, for a person, with what to do about it. Holds no contents and no path.
    pub message: String,
}

/// Nothing is sent: every file that stands in the way, in the user's order, and what would have become of the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", join_messages(.errors))]
pub struct AttachmentPlanError {
    /// Never empty.
    pub errors: Vec<AttachmentError>,
    /// Every file of the message, in the user's order. Empty where the message was refused before it was planned.
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
