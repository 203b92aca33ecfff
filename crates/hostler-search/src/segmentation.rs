//! Segments text into terms. SQLite's tokenizer splits at everything that is neither letter nor digit, so `bar` finds
//! `foo_bar`, and parts of a path find the path. In scripts without spaces a sentence would become one term, so their
//! characters are indexed as single terms, separated by an invisible joiner, and a search for such text is a phrase of
//! these terms.
//!
//! A second index of trigrams would also work for CJK, but it does not find words of two characters, which most Chinese
//! words are, and it costs space for every user: for 6.5 MB of this project's own code and prose, FTS5's term index
//! takes 1.8 MB (0.28 of the text), a trigram index 15.5 MB (2.4 times the text).

/// Separates characters that are terms of their own: has no width, and is no letter to the tokenizer.
const WORD_JOINER: char = '\u{2060}';

/// Match markers in SQLite's results.
pub(crate) const MATCH_START: char = '\u{1}';
pub(crate) const MATCH_END: char = '\u{2}';

/// A text as stored: single characters separated, and markers removed.
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after = false;
    for sign in text.chars() {
        if sign == WORD_JOINER {
            continue;
        }
        let alone = is_unspaced_script(sign);
        if (alone || after) && !out.is_empty() {
            out.push(WORD_JOINER);
        }
        after = alone;
        out.push(match sign {
            // SQLite ends texts at a NUL.
            '\0' | MATCH_START | MATCH_END => ' ',
            sign => sign,
        });
    }
    out
}

/// The original text of a stored one.
pub(crate) fn join_segments(text: &str) -> String {
    text.chars().filter(|sign| *sign != WORD_JOINER).collect()
}

/// Whether it contains anything to search for.
pub(crate) fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// Characters of scripts that are written without spaces.
fn is_unspaced_script(sign: char) -> bool {
    matches!(sign,
        '\u{0E00}'..='\u{0EFF}' // Thai, Lao
        | '\u{1000}'..='\u{109F}' // Myanmar
        | '\u{1780}'..='\u{17FF}' // Khmer
        | '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' | '\u{FF66}'..='\u{FF9F}' // Kana
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' // Han
        | '\u{20000}'..='\u{323AF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_spaced_scripts_is_unchanged() {
        for text in ["", "fn main() { foo_bar() }", "naïve Straße", "한국어 문장", "a\nb\tc"] {
            assert_eq!(segment(text), text);
        }
    }

    #[test]
    fn characters_of_unspaced_scripts_are_separated_and_joined_again() {
        assert_eq!(segment("用Rust写"), "用\u{2060}Rust\u{2060}写");
        assert_eq!(segment("検索"), "検\u{2060}索");
        for text in ["全文検索", "用 Rust 写的", "ค้นหา", "x全y文z"] {
            assert_eq!(join_segments(&segment(text)), text);
        }
    }

    #[test]
    fn marker_characters_are_removed() {
        assert_eq!(segment("a\0b\u{1}c\u{2}d\u{2060}e"), "a b c de");
    }
}
