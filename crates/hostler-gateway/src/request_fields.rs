//! Parses the few fields of a Messages request that the gateway needs; all other fields pass unparsed.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use hostler_redact::redact_json_error;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{ApiError, ApiErrorKind};

/// The parsed fields of a valid request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MessagesRequestFields {
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Byte range of the model's string in the body.
    model_range: Range<usize>,
}

/// Raw values, so that each invalid field gets its own message and `messages` is not decoded twice.
#[derive(Deserialize)]
struct RawRequestFields<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
}

impl MessagesRequestFields {
    /// Validates a body; the error is the 400 response.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let invalid = |message: &str| ApiError::new(ApiErrorKind::InvalidRequest, message);
        let raw: RawRequestFields<'_> = serde_json::from_slice(body).map_err(|error| {
            invalid(&format!("The request body is not a JSON object: {}.", redact_json_error(&error)))
        })?;
        let (model, model_at) = raw
            .model
            .and_then(|value| Some((serde_json::from_str::<String>(value.get()).ok()?, value_range(body, value))))
            .filter(|(model, _)| !model.is_empty())
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
        Ok(Self { model, stream, model_range: model_at })
    }

    /// The body with another model; the same bytes if the model is the same.
    pub(crate) fn with_model(&self, body: Bytes, model: &str) -> Bytes {
        if model == self.model { body } else { replace_range(&body, &self.model_range, model) }
    }
}

/// Replaces the model in the JSON of a message or of a `message_start` event, if `rename` returns another id.
pub(crate) fn rename_model(json: &[u8], rename: impl Fn(&str) -> Option<String>) -> Option<Bytes> {
    let answer: ResponseModel<'_> = serde_json::from_slice(json).ok()?;
    let model = answer.model.or(answer.message.and_then(|message| message.model))?;
    let current: String = serde_json::from_str(model.get()).ok()?;
    let known = rename(&current).filter(|known| *known != current)?;
    Some(replace_range(json, &value_range(json, model), &known))
}

/// A message, or an event that contains one.
#[derive(Deserialize)]
struct ResponseModel<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

/// Byte range in `json` of a value borrowed from it.
fn value_range(json: &[u8], value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr().saturating_sub(json.as_ptr().addr());
    start..start + value.get().len()
}

fn replace_range(json: &[u8], at: &Range<usize>, text: &str) -> Bytes {
    // A string always serializes; otherwise the receiver would reject the empty string.
    let value = serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned());
    let mut new = BytesMut::with_capacity(json.len() + value.len());
    new.extend_from_slice(json.get(..at.start).unwrap_or_default());
    new.extend_from_slice(value.as_bytes());
    new.extend_from_slice(json.get(at.end..).unwrap_or_default());
    new.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_requests_are_parsed() {
        for (body, stream) in [
            (r#"{"model":"m","messages":[]}"#, false),
            (r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"tools":[]}"#, true),
            (r#" {"stream" : null, "messages" : [ ], "model" : "m"} "#, false),
        ] {
            let envelope = MessagesRequestFields::parse(body.as_bytes()).unwrap();
            assert_eq!((envelope.model.as_str(), envelope.stream), ("m", stream), "{body}");
        }
    }

    #[test]
    fn with_model_replaces_only_the_model() {
        for (body, expected) in [
            (r#"{"model":"m","messages":[]}"#, r#"{"model":"a \"b\"","messages":[]}"#),
            (
                r#" {"messages":[{"model":"m"}], "model" : "m" , "x":1}"#,
                r#" {"messages":[{"model":"m"}], "model" : "a \"b\"" , "x":1}"#,
            ),
        ] {
            let envelope = MessagesRequestFields::parse(body.as_bytes()).unwrap();
            let body = Bytes::from_static(body.as_bytes());
            assert_eq!(envelope.with_model(body.clone(), r#"a "b""#), expected);
            assert_eq!(envelope.with_model(body.clone(), "m"), body);
        }
    }

    #[test]
    fn rename_model_replaces_the_model_of_a_message() {
        let rename = |model: &str| (model == "m.1").then(|| "m-1".to_owned());
        for (json, expected) in [
            (r#"{"id":"x","model":"m.1","content":[]}"#, Some(r#"{"id":"x","model":"m-1","content":[]}"#)),
            (
                r#"{"type":"message_start","message":{"model":"m.1"}}"#,
                Some(r#"{"type":"message_start","message":{"model":"m-1"}}"#),
            ),
            (r#"{"model":"other"}"#, None),
            (r#"{"model":7}"#, None),
            (r#"{}"#, None),
            ("nonsense", None),
        ] {
            assert_eq!(rename_model(json.as_bytes(), rename).as_deref(), expected.map(str::as_bytes), "{json}");
        }
    }

    #[test]
    fn an_error_does_not_contain_the_body() {
        let refused = format!("{:?}", MessagesRequestFields::parse(br#""planted""#).unwrap_err());
        assert!(refused.contains("invalid type: string, expected ") && !refused.contains("planted"), "{refused}");
    }

    #[test]
    fn invalid_requests_are_rejected() {
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
            let refused = MessagesRequestFields::parse(body.as_bytes()).unwrap_err();
            assert_eq!(refused.status().as_u16(), 400, "{body}");
        }
        assert!(MessagesRequestFields::parse(b"{\"model\":\"\xff\",\"messages\":[]}").is_err());
    }
}
