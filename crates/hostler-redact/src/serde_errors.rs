//! serde errors without the values that they quote.

/// Prefixes of serde messages that quote a value and then state what was expected.
const VALUE_QUOTING_PREFIXES: [&str; 5] =
    ["invalid type", "invalid value", "invalid length", "unknown variant", "unknown field"];

/// Prefixes of serde messages that contain names of types and fields only.
const VALUE_FREE_PREFIXES: [&str; 3] =
    ["missing field `", "duplicate field `", "data did not match any variant of untagged enum "];

/// Kinds of values, as serde names them before it quotes one.
const VALUE_KINDS: [&str; 17] = [
    "boolean",
    "integer",
    "floating point",
    "character",
    "string",
    "byte array",
    "null",
    "unit value",
    "Option value",
    "newtype struct",
    "sequence",
    "map",
    "enum",
    "unit variant",
    "newtype variant",
    "tuple variant",
    "struct variant",
];

/// Describes a JSON error and its position without quoting the text. An error's own message quotes the unexpected
/// value, which can be a prompt, a title or a token.
pub fn redact_json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if !error.is_data() {
        // Syntax errors of the parser quote nothing.
        return text;
    }
    // A value that was not parsed from a text has no position.
    let position = match error.line() {
        0 => String::new(),
        line => format!(" at line {line} column {}", error.column()),
    };
    let message = text.strip_suffix(&position).unwrap_or(&text);
    let redacted =
        redact_serde_error(message).unwrap_or_else(|| "a value does not have the expected format".to_owned());
    format!("{redacted}{position}")
}

/// Removes the quoted value from a serde message, for formats other than JSON. `None` for a message that does not come
/// from serde itself: only the caller knows what a type's own messages contain.
pub fn redact_serde_error(message: &str) -> Option<String> {
    if VALUE_FREE_PREFIXES.iter().any(|prefix| message.starts_with(prefix)) {
        return Some(message.to_owned());
    }
    let (prefix, rest) =
        VALUE_QUOTING_PREFIXES.iter().find_map(|prefix| Some((prefix, message.strip_prefix(prefix)?)))?;
    let value = rest.strip_prefix(": ");
    let kind = value.and_then(|value| VALUE_KINDS.iter().find(|kind| value.starts_with(**kind)));
    // The quoted value can contain `, expected ` too. The type's expectation is the last one, if there is any.
    let has_none = rest.ends_with(", there are no variants") || rest.ends_with(", there are no fields");
    let expected = rest.rsplit_once(", expected ").filter(|_| !has_none).map(|(_, expected)| expected);
    let mut redacted = (*prefix).to_owned();
    for (separator, part) in [(": ", kind.copied()), (", expected ", expected)] {
        if let Some(part) = part {
            redacted.push_str(separator);
            redacted.push_str(part);
        }
    }
    Some(redacted)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "fields are only deserialized")]
    struct Fields {
        switch: bool,
        #[serde(default)]
        small: u8,
        #[serde(default)]
        pair: Option<(u8, u8)>,
        #[serde(default)]
        mood: Option<Mood>,
        #[serde(default)]
        either: Option<Either>,
        #[serde(default)]
        strict: Option<Strict>,
        #[serde(default)]
        nothing: Option<Nothing>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Mood {
        Calm,
        Merry,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "fields are only deserialized")]
    enum Either {
        Switch(bool),
        Number(u8),
    }

    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Strict;

    /// Quotes the value, as errors of a type's own conversion can.
    struct NotStrict(String);

    impl std::fmt::Display for NotStrict {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{} is not accepted", self.0)
        }
    }

    impl TryFrom<String> for Strict {
        type Error = NotStrict;

        fn try_from(text: String) -> Result<Self, NotStrict> {
            Err(NotStrict(text))
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    fn fault<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        let fault = redact_json_error(&serde_json::from_str::<T>(text).unwrap_err());
        assert!(!fault.contains("planted"), "{fault}");
        fault
    }

    #[test]
    fn redacted_json_error_names_the_expectation_and_never_the_value() {
        for (text, expected) in [
            (r#""planted""#, "invalid type: string, expected struct Fields"),
            (r#"{"switch": "planted"}"#, "invalid type: string, expected a boolean"),
            (r#"{"switch": "planted\", expected planted"}"#, "invalid type: string, expected a boolean"),
            (r#"{"switch": 77}"#, "invalid type: integer, expected a boolean"),
            (r#"{"switch": null}"#, "invalid type: null, expected a boolean"),
            (r#"{"switch": {"planted": 1}}"#, "invalid type: map, expected a boolean"),
            (r#"{"small": 256}"#, "invalid value: integer, expected u8"),
            (r#"{"pair": [1]}"#, "invalid length, expected a tuple of size 2"),
            (r#"{"mood": "planted"}"#, "unknown variant, expected `calm` or `merry`"),
            (r#"{"either": "planted"}"#, "data did not match any variant of untagged enum Either"),
            (r#"{"strict": "planted"}"#, "a value does not have the expected format"),
            (r#"{"nothing": {"planted, expected planted": 1}}"#, "unknown field"),
            ("{}", "missing field `switch`"),
            ("{\n\"planted", "EOF while parsing a string"),
            ("planted", "expected value"),
        ] {
            let fault = fault::<Fields>(text);
            assert_eq!(fault.split(" at line ").next(), Some(expected), "{text}");
        }
        assert!(fault::<Fields>(r#"{"planted": 1}"#).starts_with("unknown field, expected one of `switch`, "));
    }

    #[test]
    fn redacted_json_error_includes_line_and_column() {
        let expected = "invalid type: string, expected a boolean at line 2 column 19";
        assert_eq!(fault::<Fields>("{\n\"switch\": \"planted\"}"), expected);
    }

    #[test]
    fn redacted_json_error_of_a_value_has_no_position() {
        let error = serde_json::from_value::<bool>("planted".into()).unwrap_err();
        assert_eq!(redact_json_error(&error), "invalid type: string, expected a boolean");
    }

    #[test]
    fn redact_serde_error_returns_none_for_custom_messages() {
        assert_eq!(redact_serde_error("planted"), None);
    }
}
