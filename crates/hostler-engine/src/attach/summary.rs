use hostler_attachments::{Decision, Refusal, Rejection, Summary};
use serde::Serialize;

/// What would become of a message's attachments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanSummary {
    /// Whether the message would be taken.
    pub ok: bool,
    /// What stands in the way of the message as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Every file, in the user's order; none where the message was refused before they were looked at.
    pub files: Vec<Summary>,
}

/// What becomes of an attachment, as the accepted message says it.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    #[serde(flatten)]
    pub(super) summary: &'a Summary,
    /// What is sent in the place of the original.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<Sent>,
}

/// A variant, by the name of its contents.
#[derive(Serialize)]
pub(super) struct Sent {
    pub(super) uri: String,
}

/// A file that could not even be planned.
pub(super) fn refused(refusal: Refusal) -> Option<Summary> {
    Rejection::from(refusal).files.pop()
}

/// A file that could be sent, but another one cannot.
pub(super) fn held_back(mut summary: Summary) -> Summary {
    if summary.decision == Decision::Send {
        summary.decision = Decision::WouldSend;
    }
    summary
}
