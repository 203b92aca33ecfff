//! Removes secrets from text for display: known secrets, and text that looks like a key.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

const REDACTED: &str = "[redacted]";

/// Keywords that precede a secret.
const SECRET_KEYWORDS: [&str; 5] = ["bearer", "x-api-key", "api-key", "api_key", "apikey"];

/// Prefixes of well-known key formats.
const KEY_PREFIXES: [&str; 8] = ["sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "eyJ"];

/// With fewer bytes after the prefix, the text counts as an ordinary word (`sk-learn`).
const MIN_KEY_BYTES: usize = 8;

/// Shorter lines of a multi-line secret are not redacted, because they occur in ordinary text.
const MIN_SECRET_LINE_BYTES: usize = 8;

/// Shorter prefixes of a secret reveal little and may be ordinary words.
const MIN_SECRET_PREFIX_BYTES: usize = 6;

/// Redacts the secrets of one agent process.
pub(crate) struct Redactor {
    /// Longest first, so that a secret that contains another is replaced as a whole.
    secrets: Vec<SecretString>,
}

impl Redactor {
    pub(crate) fn new(secrets: Vec<SecretString>) -> Self {
        let mut pieces = Vec::new();
        for secret in &secrets {
            // A tail may start or end inside a multi-line secret, so each of its lines counts as a secret.
            let lines = secret.expose_secret().lines().map(str::trim);
            pieces.extend(lines.filter(|line| line.len() >= MIN_SECRET_LINE_BYTES).map(SecretString::from));
        }
        pieces.extend(secrets);
        pieces.retain(|secret| !secret.expose_secret().is_empty());
        pieces.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self { secrets: pieces }
    }

    /// `text` with its secrets replaced.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.expose_secret(), REDACTED);
        }
        for secret in &self.secrets {
            redact_trailing_prefix(&mut text, secret.expose_secret());
        }
        redact_key_patterns(&text)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

/// Removes a prefix of `secret` from the end of `text`: the rest of the secret may still be in the pipe.
fn redact_trailing_prefix(text: &mut String, secret: &str) {
    let ends = secret.char_indices().rev().map(|(end, _)| end);
    for end in ends.take_while(|end| *end >= MIN_SECRET_PREFIX_BYTES) {
        let Some(beginning) = secret.get(..end) else {
            continue;
        };
        if let Some(rest) = text.strip_suffix(beginning) {
            let length = rest.len();
            text.truncate(length);
            text.push_str(REDACTED);
            return;
        }
    }
}

/// Replaces words that look like keys, and words after a keyword.
fn redact_key_patterns(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut announced = false;
    for piece in TextSegments(text) {
        match piece {
            TextSegment::Separator(between) => {
                announced = announced && !between.contains('\n');
                out.push_str(between);
            }
            TextSegment::Word(word) if announced && word.len() >= MIN_KEY_BYTES => {
                // "x-api-key: Bearer abc": the next word is a keyword too, so the secret is still to come.
                announced = is_secret_keyword(word);
                out.push_str(if announced { word } else { REDACTED });
            }
            TextSegment::Word(word) => {
                announced = is_secret_keyword(word);
                push_redacting_key(&mut out, word);
            }
        }
    }
    out
}

fn is_secret_keyword(word: &str) -> bool {
    SECRET_KEYWORDS.iter().any(|introduction| word.eq_ignore_ascii_case(introduction))
}

fn push_redacting_key(out: &mut String, word: &str) {
    let key = KEY_PREFIXES
        .iter()
        .flat_map(|prefix| word.match_indices(prefix).map(|(at, _)| (at, prefix.len())))
        .filter(|(at, prefix)| {
            let follows_letter =
                word.get(..*at).and_then(|before| before.chars().next_back()).is_some_and(char::is_alphanumeric);
            !follows_letter && word.len() - at - prefix >= MIN_KEY_BYTES
        })
        .map(|(at, _)| at)
        .min();
    match key.and_then(|at| word.get(..at)) {
        Some(before) => {
            out.push_str(before);
            out.push_str(REDACTED);
        }
        None => out.push_str(word),
    }
}

enum TextSegment<'a> {
    Word(&'a str),
    Separator(&'a str),
}

/// Splits text into runs of key characters and the text between them.
struct TextSegments<'a>(&'a str);

impl<'a> Iterator for TextSegments<'a> {
    type Item = TextSegment<'a>;

    fn next(&mut self) -> Option<TextSegment<'a>> {
        let is_word = is_word_char(self.0.chars().next()?);
        let end = self.0.find(|c| is_word_char(c) != is_word).unwrap_or(self.0.len());
        let (piece, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(if is_word { TextSegment::Word(piece) } else { TextSegment::Separator(piece) })
    }
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.~+/".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secrets: &[&str], text: &str, expected: &str) {
        let redactor = Redactor::new(secrets.iter().map(|s| SecretString::from(*s)).collect());
        assert_eq!(redactor.redact(text), expected);
    }

    #[test]
    fn known_secrets_are_redacted_at_any_position() {
        check(&["hunter22"], "a hunter22, b=hunter22!", "a [redacted], b=[redacted]!");
        check(&["pässwort", "pässwort-länger"], "pässwort-länger", "[redacted]");
        check(&[""], "nothing", "nothing");
    }

    #[test]
    fn partial_secret_at_the_end_is_removed() {
        check(&["correct-horse-battery"], "key: correct-hor", "key: [redacted]");
        check(&["correct-horse-battery"], "it is corr", "it is corr");
    }

    #[test]
    fn lines_of_a_multi_line_secret_are_redacted() {
        check(&["first-line\nsecond-line"], "…\nsecond-line\nafter", "…\n[redacted]\nafter");
    }

    #[test]
    fn key_patterns_are_redacted() {
        check(&[], "key sk-ant-api03-AbCdEf_12 refused", "key [redacted] refused");
        check(&[], "{\"k\":\"sk-ant-api03-AbCdEf\"}", "{\"k\":\"[redacted]\"}");
        check(&[], "Authorization: Bearer abc.def-123==", "Authorization: Bearer [redacted]==");
        check(&[], "authorization: bearer\tabcdefgh1", "authorization: bearer\t[redacted]");
        check(&[], "x-api-key: 0123456789", "x-api-key: [redacted]");
        check(&[], "https://h/sk-0123456789", "https://h/[redacted]");
        check(&[], "token ghp_0123456789abcdef", "token [redacted]");
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        for text in [
            "task-12345678 and disk-12345678",
            "import sk-learn",
            "the bearer of news",
            "Bearer\nnext-line-is-free",
            "zwölf 🐎 Bearer",
        ] {
            check(&[], text, text);
        }
    }
}
