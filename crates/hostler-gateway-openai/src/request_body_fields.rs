//! Reads a request field by field, so that each invalid field gets its own message and none is dropped silently.

use std::collections::BTreeMap;

use hostler_redact::redact_json_error;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A request that chat completions cannot express, or a field that is invalid in the Messages API.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub(super) struct UnsupportedRequest {
    path: String,
    reason: String,
}

impl UnsupportedRequest {
    pub(super) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}

/// Decodes the value at a path.
pub(super) fn decode_field<'a, T: Deserialize<'a>>(path: &str, raw: &'a RawValue) -> Result<T, UnsupportedRequest> {
    serde_json::from_str(raw.get()).map_err(|error| {
        let message = redact_json_error(&error);
        // Line and column refer to the value, not to the body, so they are omitted.
        let reason = message.rsplit_once(" at line ").map_or(message.as_str(), |(reason, _)| reason);
        UnsupportedRequest::new(path, format!("{reason}."))
    })
}

/// The top level of a request body.
pub(super) struct RequestBodyFields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> RequestBodyFields<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, UnsupportedRequest> {
        serde_json::from_slice(body).map(Self).map_err(|error| {
            UnsupportedRequest::new("body", format!("not a JSON object: {}.", redact_json_error(&error)))
        })
    }

    /// Takes a field out; `null` counts as absent.
    pub(super) fn take<T: Deserialize<'a>>(&mut self, name: &str) -> Result<Option<T>, UnsupportedRequest> {
        match self.0.remove(name) {
            Some(raw) => decode_field(name, raw),
            None => Ok(None),
        }
    }

    /// Removes fields that need no translation.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.0.remove(*name);
        }
    }

    /// Rejects fields that were not taken: they would be lost.
    pub(super) fn reject_remaining(self) -> Result<(), UnsupportedRequest> {
        match self.0.into_iter().find(|(_, raw)| raw.get() != "null") {
            Some((name, _)) => Err(UnsupportedRequest::new(
                name,
                "this upstream uses the Chat Completions API, which does not support this field; remove it.",
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_contain_the_value() {
        let mut fields = RequestBodyFields::parse(br#"{"max_tokens":"planted"}"#).unwrap();
        let wrong = fields.take::<u64>("max_tokens").unwrap_err();
        assert_eq!(wrong, UnsupportedRequest::new("max_tokens", "invalid type: string, expected u64."));
        let wrong = RequestBodyFields::parse(br#""planted""#).err().unwrap().to_string();
        assert!(wrong.contains("invalid type: string, expected ") && !wrong.contains("planted"), "{wrong}");
    }
}
