//! Decodes UTF-8 that arrives in chunks.

/// Incremental decoder. An incomplete character is held until its rest arrives; invalid bytes become U+FFFD, exactly as
/// if all bytes had arrived at once.
#[derive(Debug, Default)]
pub(crate) struct Utf8Decoder {
    /// An incomplete character: at most three bytes.
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

    /// Handles the end of the input.
    pub(crate) fn finish(&mut self, text: &mut String) {
        if !std::mem::take(&mut self.incomplete).is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Appends the decoded text, and returns an incomplete character at the end.
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
