//! The few fields of a Messages request that the gateway itself must understand; the rest passes unread.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{ApiError, ErrorKind};

/// What a valid request says about itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestEnvelope {
    pub(crate) model: String,
    pub(crate) stream: bool,
}

/// Raw values, so that each wrong field gets a sentence of its own and `messages` is not decoded twice.
#[derive(Deserialize)]
struct RawEnvelope<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
}

impl RequestEnvelope {
    /// Checks a body; the error is the 400 that the caller gets.
    pub(crate) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let invalid = |message: &str| ApiError::new(ErrorKind::InvalidRequest, message);
        let raw: RawEnvelope<'_> = serde_json::from_slice(body)
            .map_err(|error| invalid(&format!("The body is not a JSON object: {error}.")))?;
        let model = raw
            .model
            .and_then(|value| serde_json::from_str::<String>(value.get()).ok())
            .filter(|model| !model.is_empty())
            .ok_or_else(|| invalid("model: a non-empty string is required."))?;
        if !raw.messages.is_some_and(|value| value.get().starts_with('[')) {
            return Err(invalid("messages: an array is required."));
        }
        let stream = match raw.stream {
            None => false,
            Some(value) => serde_json::from_str::<Option<bool>>(value.get())
                .map_err(|_| invalid("stream: true or false is required."))?
                .unwrap_or(false),
        };
        Ok(Self { model, stream })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_requests_are_read() {
        for (body, stream) in [
            (r#"{"model":"m","messages":[]}"#, false),
            (r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"tools":[]}"#, true),
            (r#" {"stream" : null, "messages" : [ ], "model" : "m"} "#, false),
        ] {
            let expected = RequestEnvelope { model: "m".to_owned(), stream };
            assert_eq!(RequestEnvelope::read(body.as_bytes()).unwrap(), expected, "{body}");
        }
    }

    #[test]
    fn invalid_requests_are_refused() {
        for body in [
            "",
            "nonsense",
            "[]",
            "\"text\"",
            "{}",
            r#"{"model":"m"}"#,
            r#"{"messages":[]}"#,
            r#"{"model":"","messages":[]}"#,
            r#"{"model":5,"messages":[]}"#,
            r#"{"model":"m","messages":{}}"#,
            r#"{"model":"m","messages":"[]"}"#,
            r#"{"model":"m","messages":[],"stream":"yes"}"#,
            r#"{"model":"m","messages":[]"#,
        ] {
            let refused = RequestEnvelope::read(body.as_bytes()).unwrap_err();
            assert_eq!(refused.status().as_u16(), 400, "{body}");
        }
        assert!(RequestEnvelope::read(b"{\"model\":\"\xff\",\"messages\":[]}").is_err());
    }
}
