//! Diagnostics of a message's attachments, without private data.

use serde::Serialize;

use crate::{AttachmentErrorCode, AttachmentPlan, AttachmentPlanError, AttachmentSummary};

/// Counts, kinds, sizes and codes of a message's attachments, for people outside of the conversation. No field can
/// contain a name, a path or contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentDiagnostics {
    /// Number of attachments.
    pub files: usize,
    /// Images that can be sent.
    pub images: usize,
    /// PDF documents that can be sent.
    pub pdfs: usize,
    /// Texts that can be sent.
    pub texts: usize,
    /// References that can be sent.
    pub references: usize,
    /// Bytes of accepted attachments, as sent.
    pub sent_bytes: usize,
    /// Bytes of rejected attachments, as received.
    #[serde(rename = "refusedBytes")]
    pub rejected_bytes: usize,
    /// Codes of warnings, in the order of the attachments.
    pub warnings: Vec<&'static str>,
    /// Codes of rejections, in the order of the attachments.
    #[serde(rename = "codes")]
    pub error_codes: Vec<AttachmentErrorCode>,
}

impl AttachmentPlan {
    /// Diagnostics of this plan.
    pub fn diagnostics(&self) -> AttachmentDiagnostics {
        AttachmentDiagnostics::from_summaries(&self.summaries())
    }
}

impl AttachmentPlanError {
    /// Diagnostics of this rejection.
    pub fn diagnostics(&self) -> AttachmentDiagnostics {
        AttachmentDiagnostics::from_summaries(&self.summaries)
    }
}

impl AttachmentDiagnostics {
    fn from_summaries(files: &[AttachmentSummary]) -> Self {
        let mut diagnostics = Self { files: files.len(), ..Self::default() };
        for file in files {
            let bytes = file.bytes.unwrap_or_default();
            diagnostics.warnings.extend(file.warnings.iter().map(|warning| warning.kind));
            if let Some(code) = file.code {
                diagnostics.error_codes.push(code);
                diagnostics.rejected_bytes += bytes;
                continue;
            }
            diagnostics.sent_bytes += bytes;
            match file.content_type {
                Some("application/pdf") => diagnostics.pdfs += 1,
                Some("text/plain") => diagnostics.texts += 1,
                Some(_) => diagnostics.images += 1,
                None => diagnostics.references += 1,
            }
        }
        diagnostics
    }
}
