use serde::Serialize;

use crate::{Code, Kind, Planned, Refusal, Title, Warning};

/// What becomes of one file, for clients: in a rejection, in a dry run, and beside the message that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// What it is called.
    pub label: Title,
    /// Whether it is sent.
    pub decision: Decision,
    /// Why not, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Why not, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// What a person could notice and should know.
    pub warnings: Vec<Warning>,
    /// The form in which it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<&'static str>,
    /// How many bytes of contents are sent; of a refused file, how many were received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// Of a picture, as it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Of a picture, as it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Of a PDF document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<usize>,
}

/// Whether a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// It is sent with its message.
    Send,
    /// It could be sent, but another file of the message cannot.
    WouldSend,
    /// It stands in the way.
    Refuse,
}

impl Summary {
    pub(crate) fn planned(file: &Planned, decision: Decision) -> Self {
        let (mut width, mut height, mut pages) = (None, None, None);
        match file.kind {
            Kind::Image { width: w, height: h } => (width, height) = (Some(w), Some(h)),
            Kind::Pdf { pages: count } => pages = Some(count),
            Kind::Text | Kind::Reference => {}
        }
        Self {
            label: file.name.clone(),
            decision,
            code: None,
            sentence: None,
            warnings: file.warnings.clone(),
            content_type: file.block.content_type(),
            bytes: Some(file.block.size()),
            width,
            height,
            pages,
        }
    }

    pub(crate) fn refused(refusal: &Refusal, received: Option<usize>) -> Self {
        Self {
            label: refusal.name.clone(),
            decision: Decision::Refuse,
            code: Some(refusal.code),
            sentence: Some(refusal.sentence.clone()),
            warnings: Vec::new(),
            content_type: None,
            bytes: received,
            width: None,
            height: None,
            pages: None,
        }
    }
}
