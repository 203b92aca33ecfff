//! Why an attachment cannot be sent, before its name is added.

use crate::{AttachmentError, AttachmentErrorCode, DisplayName};

/// Advice for contents that cannot be sent.
pub(crate) const ATTACH_PATH_HINT: &str =
    "put it in the workspace and attach its path instead, so that the agent can open it";

/// A reason without a name. Its message contains only numbers and fixed text, never parts of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RejectionReason {
    code: AttachmentErrorCode,
    message: String,
}

impl RejectionReason {
    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self { code: AttachmentErrorCode::TooLarge, message: message.into() }
    }

    pub(crate) fn unsupported_type(message: impl Into<String>) -> Self {
        Self { code: AttachmentErrorCode::TypeUnsupported, message: message.into() }
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self { code: AttachmentErrorCode::Corrupt, message: message.into() }
    }

    pub(crate) fn optimization_failed(message: impl Into<String>) -> Self {
        Self { code: AttachmentErrorCode::OptimizationFailed, message: message.into() }
    }

    pub(crate) fn payload_too_large(message: impl Into<String>) -> Self {
        Self { code: AttachmentErrorCode::PayloadTooLarge, message: message.into() }
    }

    pub(crate) fn for_attachment(self, name: &DisplayName) -> AttachmentError {
        AttachmentError { code: self.code, name: name.clone(), message: self.message }
    }
}

/// Formats a size: `10 MiB`, `3.8 MiB`, `12 KiB`, `7 bytes`.
pub(crate) fn format_bytes(bytes: usize) -> String {
    let tenths = |unit: usize| {
        let tenths = bytes.saturating_mul(10).div_ceil(unit);
        if tenths.is_multiple_of(10) { format!("{}", tenths / 10) } else { format!("{}.{}", tenths / 10, tenths % 10) }
    };
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", tenths(1024)),
        _ => format!("{} MiB", tenths(1_048_576)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_with_units() {
        for (bytes, text) in [(0, "0 bytes"), (1023, "1023 bytes"), (12 << 10, "12 KiB"), (10 << 20, "10 MiB")] {
            assert_eq!(format_bytes(bytes), text);
        }
        assert_eq!(
            format_bytes(3_932_161),
            "3.8 MiB",
            "rounded up, or a limit and what is over it would read the same"
        );
    }
}
