//! Text from bytes that come in pieces.

/// Makes text of bytes. A character whose rest has not come yet is held; what is no text becomes U+FFFD, exactly as if all
/// bytes had come at once.
#[derive(Debug, Default)]
pub(crate) struct Utf8Decoder {
    /// The beginning of a character: at most three bytes.
    incomplete: Vec<u8>,
}

impl Utf8Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8], text: &mut String) {
        if self.incomplete.is_empty() {
            self.incomplete = decode_utf8(bytes, text).to_vec();
        } else {
            let joined = [std::mem::take(&mut self.incomplete).as_slice(), bytes].concat();
            self.incomplete = decode_utf8(&joined, text).to_vec();
        }
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self, text: &mut String) {
        if !std::mem::take(&mut self.incomplete).is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Appends what can be read, and gives back the beginning of a character at the end.
fn decode_utf8<'a>(mut bytes: &'a [u8], text: &mut String) -> &'a [u8] {
    loop {
        let error = match std::str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                return &[];
            }
            Err(error) => error,
        };
        let (valid, rest) = bytes.split_at_checked(error.valid_up_to()).unwrap_or((bytes, &[]));
        text.push_str(&String::from_utf8_lossy(valid));
        let Some(bad) = error.error_len() else { return rest };
        text.push(char::REPLACEMENT_CHARACTER);
        bytes = rest.get(bad..).unwrap_or_default();
    }
}
