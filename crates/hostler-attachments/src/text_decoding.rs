//! Decodes text in encodings that are recognizable: UTF-8, and UTF-16 with a byte order mark.

use crate::rejection_reason::{ATTACH_PATH_HINT, RejectionReason};

const UTF8_BOM: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF16_LE_BOM: &[u8] = &[0xff, 0xfe];
const UTF16_BE_BOM: &[u8] = &[0xfe, 0xff];

/// Decoded text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecodedText {
    pub(crate) text: String,
    /// Whether it was converted from UTF-16; removing a byte order mark alone does not count.
    pub(crate) from_utf16: bool,
}

/// Decodes the bytes. Line ends are unchanged.
pub(crate) fn decode_text(bytes: &[u8]) -> Result<DecodedText, RejectionReason> {
    let (text, from_utf16) = if let Some(rest) = bytes.strip_prefix(UTF16_LE_BOM) {
        (decode_utf16(rest, u16::from_le_bytes)?, true)
    } else if let Some(rest) = bytes.strip_prefix(UTF16_BE_BOM) {
        (decode_utf16(rest, u16::from_be_bytes)?, true)
    } else {
        (decode_utf8(bytes.strip_prefix(UTF8_BOM).unwrap_or(bytes))?, false)
    };
    if text.contains('\0') {
        return Err(binary_content());
    }
    Ok(DecodedText { text, from_utf16 })
}

fn decode_utf8(bytes: &[u8]) -> Result<String, RejectionReason> {
    if bytes.contains(&0) {
        return Err(binary_content());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| {
        RejectionReason::unsupported_type(format!(
            "the file is neither UTF-8 text nor a supported type; save it as UTF-8 if it is text, or {ATTACH_PATH_HINT}"
        ))
    })?;
    Ok(text.to_owned())
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, RejectionReason> {
    let (units, []) = bytes.as_chunks::<2>() else { return Err(invalid_utf16()) };
    char::decode_utf16(units.iter().map(|pair| unit(*pair))).collect::<Result<_, _>>().map_err(|_| invalid_utf16())
}

fn invalid_utf16() -> RejectionReason {
    RejectionReason::corrupt(
        "the file starts like UTF-16 text but is not valid; save it as UTF-8 and attach the new file",
    )
}

fn binary_content() -> RejectionReason {
    RejectionReason::unsupported_type(format!("the file is binary and of an unsupported type; {ATTACH_PATH_HINT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> (String, bool) {
        let DecodedText { text, from_utf16 } = decode_text(bytes).unwrap();
        (text, from_utf16)
    }

    #[test]
    fn utf8_and_utf16_with_a_byte_order_mark_are_decoded() {
        assert_eq!(text(b""), (String::new(), false));
        assert_eq!(text("a\r\nb ü\n".as_bytes()), ("a\r\nb ü\n".to_owned(), false));
        assert_eq!(text(b"\xef\xbb\xbfx"), ("x".to_owned(), false));
        assert_eq!(text(b"\xff\xfeh\0\xfc\0\r\0\n\0"), ("hü\r\n".to_owned(), true));
        assert_eq!(text(b"\xfe\xff\0h\xd8\x3d\xde\x00"), ("h😀".to_owned(), true));
    }

    #[test]
    fn contents_that_are_not_text_are_rejected() {
        for bytes in
            [&b"a\0b"[..], b"\xff\xfea\0\0\0", b"\xff\xfe\0\0a\0\0\0", b"caf\xe9", b"\xff\xfea", b"\xff\xfe\0\xd8"]
        {
            assert!(decode_text(bytes).is_err(), "{bytes:?}");
        }
    }
}
