use serde::Serialize;

use crate::{AttachmentErrorCode, AttachmentPlan, AttachmentPlanError, AttachmentSummary};

/// What can be told of a message's attachments to people who are not part of the conversation: counts, kinds, sizes, codes. It
/// has no field that could hold a name, a path or contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentDiagnostics {
    /// All of them.
    pub files: usize,
    /// Pictures that can be sent.
    pub images: usize,
    /// PDF documents that can be sent.
    pub pdfs: usize,
    /// Texts that can be sent.
    pub texts: usize,
    /// Places that can be sent.
    pub references: usize,
    /// Bytes of what can be sent, as they are sent.
    pub sent_bytes: usize,
    /// Bytes of what cannot, as they were received.
    #[serde(rename = "refusedBytes")]
    pub rejected_bytes: usize,
    /// The kinds of warnings, in the order of the files.
    pub warnings: Vec<&'static str>,
    /// Why files are refused, in the order of the files.
    #[serde(rename = "codes")]
    pub error_codes: Vec<AttachmentErrorCode>,
}

impl AttachmentPlan {
    /// What may be told of it.
    pub fn diagnostics(&self) -> AttachmentDiagnostics {
        AttachmentDiagnostics::from_summaries(&self.summaries())
    }
}

impl AttachmentPlanError {
    /// What may be told of it.
    pub fn diagnostics(&self) -> AttachmentDiagnostics {
        AttachmentDiagnostics::from_summaries(&self.summaries)
    }
}

impl AttachmentDiagnostics {
    fn from_summaries(files: &[AttachmentSummary]) -> Self {
        let mut told = Self { files: files.len(), ..Self::default() };
        for file in files {
            let bytes = file.bytes.unwrap_or_default();
            told.warnings.extend(file.warnings.iter().map(|warning| warning.kind));
            if let Some(code) = file.code {
                told.error_codes.push(code);
                told.rejected_bytes += bytes;
                continue;
            }
            told.sent_bytes += bytes;
            match file.content_type {
                Some("application/pdf") => told.pdfs += 1,
                Some("text/plain") => told.texts += 1,
                Some(_) => told.images += 1,
                None => told.references += 1,
            }
        }
        told
    }
}
