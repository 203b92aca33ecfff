//! One-line summary of a tool call's input for the audit log: bounded, without anything that looks like a secret.

use serde_json::Value;

use crate::sessions::action_mapper::truncate_at_char;

/// Maximum length in bytes.
const MAX_SUMMARY_BYTES: usize = 400;

/// Fields that describe a call, in order of preference.
const SUMMARY_FIELDS: [&str; 8] =
    ["command", "file_path", "notebook_path", "path", "url", "pattern", "query", "description"];

/// Parts of names whose values are secret.
const SECRET_NAME_PARTS: [&str; 6] = ["key", "token", "secret", "passw", "credential", "authorization"];

/// Summarizes a call's input in one line.
pub(crate) fn summarize_input(input: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(input) else { return "(unreadable)".to_owned() };
    let field = SUMMARY_FIELDS.iter().find_map(|name| fields.get(*name)?.as_str());
    let text = match field {
        Some(text) => redact(truncate_at_char(text, MAX_SUMMARY_BYTES * 4)),
        // Values of unknown fields are omitted.
        None => fields.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    let short = truncate_at_char(&text, MAX_SUMMARY_BYTES);
    if short.len() < text.len() { format!("{short}…") } else { short.to_owned() }
}

/// Removes values of secret names, and words that are too random to be text.
fn redact(text: &str) -> String {
    let mut hide_next = false;
    let words = text.split_inclusive(char::is_whitespace).map(|piece| {
        let word = piece.trim_end();
        let space = piece.get(word.len()..).unwrap_or_default();
        let hidden = std::mem::take(&mut hide_next) && !word.is_empty();
        let lower = word.to_ascii_lowercase();
        let secretive = SECRET_NAME_PARTS.iter().any(|part| lower.contains(part));
        if lower.trim_matches(['"', '\'']) == "bearer"
            || (secretive && (lower.starts_with('-') || lower.ends_with(':')))
        {
            hide_next = !word.contains('=');
        }
        match word.split_once('=') {
            _ if hidden || looks_like_secret(word) => format!("[redacted]{space}"),
            Some((name, value)) if secretive && !value.is_empty() => format!("{name}=[redacted]{space}"),
            _ if has_url_credentials(word) => format!("[redacted]{space}"),
            _ => piece.to_owned(),
        }
    });
    words.collect()
}

/// Keys are long and mix letters with digits; paths and text have separators.
fn looks_like_secret(word: &str) -> bool {
    let word = word.rsplit(['=', ':', '"', '\'']).find(|part| !part.is_empty()).unwrap_or(word);
    let key = word.len() >= 20 && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c));
    key && word.chars().any(|c| c.is_ascii_digit()) && word.chars().any(|c| c.is_ascii_alphabetic())
}

/// `https://user:password@host`.
fn has_url_credentials(word: &str) -> bool {
    word.split_once("://").and_then(|(_, rest)| rest.split('/').next()).is_some_and(|host| host.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_contains_the_descriptive_field() {
        assert_eq!(summarize_input(r#"{"command":"git status && ls","description":"x"}"#), "git status && ls");
        assert_eq!(summarize_input(r#"{"content":"all of it","file_path":"/a/b.txt"}"#), "/a/b.txt");
        assert_eq!(summarize_input(r#"{"body":"private","to":"you"}"#), "body, to");
        assert_eq!(summarize_input("7"), "(unreadable)");
    }

    #[test]
    fn secrets_are_redacted_and_long_inputs_truncated() {
        for (line, field) in [
            ("API_KEY=abc run", "API_KEY=[redacted] run"),
            ("curl -H 'Authorization: Bearer abc.def' x", "curl -H 'Authorization: [redacted] [redacted] x"),
            ("tool --token abc -v", "tool --token [redacted] -v"),
            ("tool --token=abc -v", "tool --token=[redacted] -v"),
            ("echo k3f83hs02ldk38fj2ks93jd", "echo [redacted]"),
            ("git clone https://me:pw@host/x", "git clone [redacted]"),
        ] {
            let input = serde_json::json!({ "command": line }).to_string();
            assert_eq!(summarize_input(&input), field, "{line}");
        }
        let long = serde_json::json!({ "command": "ä ".repeat(5_000) }).to_string();
        assert!(summarize_input(&long).len() <= MAX_SUMMARY_BYTES + 4);
    }
}
