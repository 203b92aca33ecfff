//! The host's attachment plan, printed before the message is sent and again beside the message afterwards.

use hostler_attachments::AttachmentErrorCode;
use serde::{Deserialize, Serialize};

use crate::console::{Console, TextStyle, to_one_line};

/// The answer to `hostler/planAttachments`.
#[derive(Debug, Deserialize)]
pub(crate) struct AttachmentPlanResponse {
    /// Whether all attachments can be sent.
    pub(crate) ok: bool,
    /// Why the message as a whole cannot be sent.
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) files: Vec<FilePlanResponse>,
}

/// Plan for one attachment. Fields that are newer than this client are passed through in JSON output.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FilePlanResponse {
    pub(crate) label: String,
    decision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", alias = "sentence")]
    message: Option<String>,
    warnings: Vec<FilePlanWarning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<u64>,
    #[serde(flatten)]
    unknown_fields: serde_json::Map<String, serde_json::Value>,
}

/// Visible change to an attachment, such as a reduced image.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct FilePlanWarning {
    kind: String,
    // Stored messages have the former name.
    #[serde(alias = "sentence")]
    message: String,
}

#[derive(Serialize)]
struct AttachmentJsonLine<'a> {
    attachment: &'a FilePlanResponse,
}

impl AttachmentPlanResponse {
    /// Returns the code of the first refused attachment.
    pub(crate) fn refusal_code(&self) -> Option<&str> {
        self.files.iter().find_map(|file| file.code.as_deref())
    }

    /// Prints each file as a line of JSON.
    pub(crate) fn print_json(&self, console: &mut Console) -> std::io::Result<()> {
        for attachment in &self.files {
            let line = serde_json::to_string(&AttachmentJsonLine { attachment }).map_err(std::io::Error::other)?;
            console.write_out(&format!("{line}\n"))?;
        }
        Ok(())
    }

    /// Prints warnings about files that are sent, and the reasons why others are not.
    pub(crate) fn print_notices(&self, console: &mut Console) {
        for file in &self.files {
            let label = to_one_line(&file.label);
            for warning in file.warnings() {
                console.write_note(&format!("{label}: {warning}"), TextStyle::Yellow);
            }
            if let Some(why) = file.refusal_reason() {
                console.write_note(&format!("✗ {label}: {why}"), TextStyle::Red);
            }
        }
    }
}

impl FilePlanResponse {
    pub(super) fn new_refused(label: String, code: AttachmentErrorCode, message: String) -> Self {
        let (decision, code) = ("reject".to_owned(), Some(code.as_str().to_owned()));
        Self { label, decision, code, message: Some(message), ..Self::default() }
    }

    /// Returns why the file is not sent.
    fn refusal_reason(&self) -> Option<String> {
        let why = self.message.as_deref().or(self.code.as_deref())?;
        Some(to_one_line(why))
    }

    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.warnings.iter().map(|warning| match to_one_line(&warning.message) {
            message if message.is_empty() => to_one_line(&warning.kind),
            message => message,
        })
    }

    /// Describes type and size briefly.
    pub(crate) fn describe(&self) -> Vec<String> {
        let edges = self.width.zip(self.height).map(|(width, height)| format!("{width} × {height}"));
        let pages = self.pages.map(|pages| if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages") });
        let facts = [self.content_type.as_deref().map(to_one_line), edges, pages, self.bytes.map(format_size)];
        facts.into_iter().flatten().collect()
    }
}

/// Formats a size for people.
pub(crate) fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let (mut tenths, mut unit) = (bytes.saturating_mul(10) / 1024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        tenth => format!("{}.{tenth} {name}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (10 << 20, "10 MiB"),
            (3_932_160, "3.7 MiB"),
            (2 << 30, "2 GiB"),
        ] {
            assert_eq!(format_size(bytes), expected);
        }
    }
}
