/// What serde says of values in general; the value follows, and then what was expected.
const VALUE_QUOTING_PREFIXES: [&str; 5] =
    ["invalid type", "invalid value", "invalid length", "unknown variant", "unknown field"];

/// What serde says of types alone.
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

/// What is wrong with a JSON text and where, without a word of it. An error's own text quotes the value that was not
/// expected, which may be a prompt, a title or a token.
pub fn redact_json_error(error: &serde_json::Error) -> String {
    let said = error.to_string();
    if !error.is_data() {
        // The parser's own sentences quote nothing.
        return said;
    }
    // A value that was not read from a text has no place in one.
    let place = match error.line() {
        0 => String::new(),
        line => format!(" at line {line} column {}", error.column()),
    };
    let message = said.strip_suffix(&place).unwrap_or(&said);
    let fault = redact_serde_error(message).unwrap_or_else(|| "a value is not of the expected form".to_owned());
    format!("{fault}{place}")
}

/// A message of serde without the value that it quotes, for formats beside JSON. `None` for a message that is not
/// serde's own: only who reads a type knows what the type says.
pub fn redact_serde_error(message: &str) -> Option<String> {
    if VALUE_FREE_PREFIXES.iter().any(|beginning| message.starts_with(beginning)) {
        return Some(message.to_owned());
    }
    let (what, rest) = VALUE_QUOTING_PREFIXES.iter().find_map(|what| Some((what, message.strip_prefix(what)?)))?;
    let value = rest.strip_prefix(": ");
    let kind = value.and_then(|value| VALUE_KINDS.iter().find(|kind| value.starts_with(**kind)));
    // A value can hold these words too; the type's own come last, if there are any.
    let nothing = rest.ends_with(", there are no variants") || rest.ends_with(", there are no fields");
    let expected = rest.rsplit_once(", expected ").filter(|_| !nothing).map(|(_, expected)| expected);
    let mut fault = (*what).to_owned();
    for (before, part) in [(": ", kind.copied()), (", expected ", expected)] {
        if let Some(part) = part {
            fault.push_str(before);
            fault.push_str(part);
        }
    }
    Some(fault)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
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
    #[expect(dead_code, reason = "only read")]
    enum Either {
        Switch(bool),
        Number(u8),
    }

    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Strict;

    impl TryFrom<String> for Strict {
        type Error = String;

        fn try_from(text: String) -> Result<Self, String> {
            Err(format!("{text} will not do"))
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
    fn a_fault_says_what_is_wrong_and_never_the_value() {
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
            (r#"{"strict": "planted"}"#, "a value is not of the expected form"),
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
    fn a_fault_says_where() {
        let expected = "invalid type: string, expected a boolean at line 2 column 19";
        assert_eq!(fault::<Fields>("{\n\"switch\": \"planted\"}"), expected);
    }

    #[test]
    fn a_value_that_comes_from_no_text_has_no_place() {
        let error = serde_json::from_value::<bool>("planted".into()).unwrap_err();
        assert_eq!(redact_json_error(&error), "invalid type: string, expected a boolean");
    }

    #[test]
    fn what_serde_did_not_say_is_for_others_to_judge() {
        assert_eq!(redact_serde_error("planted"), None);
    }
}
