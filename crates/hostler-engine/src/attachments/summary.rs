//! Summaries of attachment plans, for clients and for the `_meta` of accepted messages.

use hostler_attachments::{AttachmentDisposition, AttachmentError, AttachmentPlanError, AttachmentSummary};
use serde::Serialize;

/// The plan for a message's attachments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachmentPlanSummary {
    /// Whether the message would be accepted.
    pub ok: bool,
    /// The reason that concerns the whole message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// All files in the user's order; empty if the message was rejected before they were checked.
    pub files: Vec<AttachmentSummary>,
}

/// The result for an attachment, as in the accepted message.
#[derive(Serialize)]
pub(super) struct EchoedAttachment<'a> {
    #[serde(flatten)]
    pub(super) summary: &'a AttachmentSummary,
    /// The variant that is sent instead of the original.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<SentVariant>,
}

/// A variant, by the URI of its contents.
#[derive(Serialize)]
pub(super) struct SentVariant {
    pub(super) uri: String,
}

/// A file that could not be planned.
pub(super) fn refused_file(refusal: AttachmentError) -> Option<AttachmentSummary> {
    AttachmentPlanError::from(refusal).summaries.pop()
}

/// A file that could be sent, but is withheld because another one cannot.
pub(super) fn withheld_file(mut summary: AttachmentSummary) -> AttachmentSummary {
    if summary.decision == AttachmentDisposition::Send {
        summary.decision = AttachmentDisposition::WouldSend;
    }
    summary
}
