//! Reads a request field by field, so that each wrong one gets a sentence of its own and none is dropped unseen.

use std::collections::BTreeMap;

use hostler_redact::redact_json_error;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a request asks for and chat completions cannot express, or a field that is not as the Messages API has it.
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
        let said = redact_json_error(&error);
        // Lines and columns are counted from the value's own beginning, where nobody looks.
        let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
        UnsupportedRequest::new(path, format!("{what}."))
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

    /// Takes out what need not be carried.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.0.remove(*name);
        }
    }

    /// Refuses what nobody has taken: it would be lost.
    pub(super) fn reject_remaining(self) -> Result<(), UnsupportedRequest> {
        match self.0.into_iter().find(|(_, raw)| raw.get() != "null") {
            Some((name, _)) => Err(UnsupportedRequest::new(
                name,
                "this upstream speaks chat completions, which cannot express this field; leave it out.",
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_without_the_value() {
        let mut fields = RequestBodyFields::parse(br#"{"max_tokens":"planted"}"#).unwrap();
        let wrong = fields.take::<u64>("max_tokens").unwrap_err();
        assert_eq!(wrong, UnsupportedRequest::new("max_tokens", "invalid type: string, expected u64."));
        let wrong = RequestBodyFields::parse(br#""planted""#).err().unwrap().to_string();
        assert!(wrong.contains("invalid type: string, expected ") && !wrong.contains("planted"), "{wrong}");
    }
}
