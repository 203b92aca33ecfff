//! Summaries of attachments, for clients.

use serde::Serialize;

use crate::{AttachmentError, AttachmentErrorCode, AttachmentKind, AttachmentWarning, DisplayName, PlannedAttachment};

/// Outcome of one attachment, for clients: in a rejection, in a dry run, and beside the sent message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentSummary {
    /// Display name.
    pub label: DisplayName,
    /// Whether it is sent.
    pub decision: AttachmentDisposition,
    /// Code of the rejection, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<AttachmentErrorCode>,
    /// Message of the rejection, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Changes that a person should know about.
    pub warnings: Vec<AttachmentWarning>,
    /// Media type that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<&'static str>,
    /// Bytes that are sent; of a rejected attachment, bytes that were received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// Width of a sent image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Height of a sent image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Pages of a PDF document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<usize>,
}

/// Whether an attachment is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AttachmentDisposition {
    /// It is sent with its message.
    Send,
    /// It could be sent, but another attachment of the message is rejected.
    WouldSend,
    /// It is rejected.
    Reject,
}

impl AttachmentSummary {
    pub(crate) fn from_planned(file: &PlannedAttachment, decision: AttachmentDisposition) -> Self {
        let (mut width, mut height, mut pages) = (None, None, None);
        match file.kind {
            AttachmentKind::Image { width: w, height: h } => (width, height) = (Some(w), Some(h)),
            AttachmentKind::Pdf { pages: count } => pages = Some(count),
            AttachmentKind::Text | AttachmentKind::Reference => {}
        }
        Self {
            label: file.name.clone(),
            decision,
            code: None,
            message: None,
            warnings: file.warnings.clone(),
            content_type: file.block.content_type(),
            bytes: Some(file.block.content_bytes()),
            width,
            height,
            pages,
        }
    }

    pub(crate) fn from_error(refusal: &AttachmentError, received: Option<usize>) -> Self {
        Self {
            label: refusal.name.clone(),
            decision: AttachmentDisposition::Reject,
            code: Some(refusal.code),
            message: Some(refusal.message.clone()),
            warnings: Vec::new(),
            content_type: None,
            bytes: received,
            width: None,
            height: None,
            pages: None,
        }
    }
}
