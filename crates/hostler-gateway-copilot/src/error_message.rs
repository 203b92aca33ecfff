//! Extracts a readable message from errors of GitHub and Copilot, which are not Messages API envelopes.

use serde::Deserialize;

/// Maximum length of an extracted message.
const MAX_MESSAGE_CHARS: usize = 200;

#[derive(Deserialize)]
struct ErrorFields {
    error_details: Option<ErrorDetails>,
    error: Option<ErrorDetails>,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ErrorDetails {
    Described { message: String },
    Named(String),
    Other(serde::de::IgnoredAny),
}

impl ErrorDetails {
    fn into_message(self) -> Option<String> {
        match self {
            Self::Described { message: sentence } | Self::Named(sentence) => Some(sentence),
            Self::Other(_) => None,
        }
    }
}

/// The message of an error of GitHub or Copilot: one line, without control characters, truncated.
pub(super) fn sentence(body: &[u8]) -> Option<String> {
    let sentence = match serde_json::from_slice::<ErrorFields>(body) {
        Ok(fields) => {
            let details = [fields.error_details, fields.error].into_iter().flatten();
            details.filter_map(ErrorDetails::into_message).next().or(fields.message)?
        }
        // Copilot also answers in plain text; HTML and other data are not readable messages.
        Err(_) => std::str::from_utf8(body)
            .ok()
            .filter(|text| !text.trim_start().starts_with(['<', '{', '[', '"']))?
            .to_owned(),
    };
    let line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE_CHARS).collect();
    let line = line.trim_end_matches('.');
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_extracted_from_all_error_formats() {
        for (body, expected) in [
            (r#"{"message":"Not Found","status":"404"}"#, Some("Not Found")),
            (
                r#"{"message":"a","error_details":{"message":"No access\n to  Copilot.","title":"x"}}"#,
                Some("No access to Copilot"),
            ),
            (r#"{"error":{"message":"The model is not enabled","code":"x"}}"#, Some("The model is not enabled")),
            (r#"{"error":"invalid"}"#, Some("invalid")),
            (r#"{"error":5,"message":"b"}"#, Some("b")),
            (
                "bad request: missing Editor-Version header for IDE auth\n",
                Some("bad request: missing Editor-Version header for IDE auth"),
            ),
            ("a \u{1b}[31mred\u{7} word", Some("a [31mred word")),
            ("{}", None),
            (r#"{"message":" "}"#, None),
            (r#"{"message":"#, None),
            ("<html>oops", None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(sentence(body.as_bytes()).as_deref(), expected, "{body}");
        }
        assert_eq!(sentence(b"\xff"), None);
    }

    #[test]
    fn a_long_message_is_truncated() {
        assert_eq!(sentence("ü".repeat(5_000).as_bytes()).unwrap().chars().count(), MAX_MESSAGE_CHARS);
    }
}
