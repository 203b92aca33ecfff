//! Decodes base64 contents from the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::rejection_reason::RejectionReason;

/// Decodes canonical base64 only: padded, without white space, unused bits zero.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, RejectionReason> {
    STANDARD.decode(text).map_err(|_| {
        RejectionReason::corrupt(
            "the contents are not canonical base64 (padded, no whitespace, no extra bits); send the file again",
        )
    })
}

/// Maximum size of the decoded contents, computed without decoding.
pub(crate) fn decoded_size(text: &str) -> usize {
    let padding = text.bytes().rev().take(2).filter(|byte| *byte == b'=').count();
    (text.len().div_ceil(4) * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_base64_is_accepted() {
        for (text, expected) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo")] {
            assert_eq!(decode(text).unwrap(), expected.as_bytes());
            assert_eq!(decoded_size(text), expected.len());
        }
        for text in ["Zg", "Zg=", "Zh==", "Zm9v\n", " Zm9v", "Zm9v====", "Zm-_", "Z", "data:text/plain;base64,Zg=="] {
            assert!(decode(text).is_err(), "{text:?}");
        }
    }
}
