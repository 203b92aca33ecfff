use hostler_attachments::{AttachmentDisposition, AttachmentError, AttachmentPlanError, AttachmentSummary};
use serde::Serialize;

/// What would become of a message's attachments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachmentPlanSummary {
    /// Whether the message would be taken.
    pub ok: bool,
    /// What stands in the way of the message as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Every file, in the user's order; none where the message was refused before they were looked at.
    pub files: Vec<AttachmentSummary>,
}

/// What becomes of an attachment, as the accepted message says it.
#[derive(Serialize)]
pub(super) struct EchoedAttachment<'a> {
    #[serde(flatten)]
    pub(super) summary: &'a AttachmentSummary,
    /// What is sent in the place of the original.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<SentVariant>,
}

/// A variant, by the name of its contents.
#[derive(Serialize)]
pub(super) struct SentVariant {
    pub(super) uri: String,
}

/// A file that could not even be planned.
pub(super) fn refused_file(refusal: AttachmentError) -> Option<AttachmentSummary> {
    AttachmentPlanError::from(refusal).summaries.pop()
}

/// A file that could be sent, but another one cannot.
pub(super) fn withheld_file(mut summary: AttachmentSummary) -> AttachmentSummary {
    if summary.decision == AttachmentDisposition::Send {
        summary.decision = AttachmentDisposition::WouldSend;
    }
    summary
}
