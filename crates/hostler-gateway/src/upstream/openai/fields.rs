//! Reads a request field by field, so that each wrong one gets a sentence of its own and none is dropped unseen.

use std::collections::BTreeMap;

use hostler_redact::json_fault;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a request asks for and chat completions cannot express, or a field that is not as the Messages API has it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub(super) struct Inexpressible {
    path: String,
    reason: String,
}

impl Inexpressible {
    pub(super) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}

/// Decodes the value at a path.
pub(super) fn read<'a, T: Deserialize<'a>>(path: &str, raw: &'a RawValue) -> Result<T, Inexpressible> {
    serde_json::from_str(raw.get()).map_err(|error| {
        let said = json_fault(&error);
        // Lines and columns are counted from the value's own beginning, where nobody looks.
        let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
        Inexpressible::new(path, format!("{what}."))
    })
}

/// The top level of a request body.
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    pub(super) fn of(body: &'a [u8]) -> Result<Self, Inexpressible> {
        serde_json::from_slice(body)
            .map(Self)
            .map_err(|error| Inexpressible::new("body", format!("not a JSON object: {}.", json_fault(&error))))
    }

    /// Takes a field out; `null` counts as absent.
    pub(super) fn take<T: Deserialize<'a>>(&mut self, name: &str) -> Result<Option<T>, Inexpressible> {
        match self.0.remove(name) {
            Some(raw) => read(name, raw),
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
    pub(super) fn none_left(self) -> Result<(), Inexpressible> {
        match self.0.into_iter().find(|(_, raw)| raw.get() != "null") {
            Some((name, _)) => Err(Inexpressible::new(
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
        let mut fields = Fields::of(br#"{"max_tokens":"planted"}"#).unwrap();
        let wrong = fields.take::<u64>("max_tokens").unwrap_err();
        assert_eq!(wrong, Inexpressible::new("max_tokens", "invalid type: string, expected u64."));
        let wrong = Fields::of(br#""planted""#).err().unwrap().to_string();
        assert!(wrong.contains("invalid type: string, expected ") && !wrong.contains("planted"), "{wrong}");
    }
}
