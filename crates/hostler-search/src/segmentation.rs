//! What a word is. SQLite's tokenizer cuts at everything that is neither letter nor digit, which finds `foo_bar` by `bar`
//! and paths by their parts. Scripts without spaces would become one word per sentence, so each of their signs is made a
//! word by a joiner that nobody sees, and what is looked for is a row of such words.
//!
//! A second index of trigrams would do the same for CJK, but does not find words of two signs, which most Chinese words
//! are, and everybody pays for it: of 6.5 MB of this project's own code and prose, FTS5's index of words takes 1.8 MB (0.28
//! of the text), one of trigrams 15.5 MB (2.4 times the text).

/// Stands between two signs that are words of their own: of no width, and no letter to the tokenizer.
const WORD_JOINER: char = '\u{2060}';

/// Marks of matches in what SQLite gives back.
pub(crate) const MATCH_START: char = '\u{1}';
pub(crate) const MATCH_END: char = '\u{2}';

/// A text as it is kept: single signs parted, and no signs that mean something to us.
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
            // SQLite ends texts at a zero.
            '\0' | MATCH_START | MATCH_END => ' ',
            sign => sign,
        });
    }
    out
}

/// A text as it was, from how it is kept.
pub(crate) fn join_segments(text: &str) -> String {
    text.chars().filter(|sign| *sign != WORD_JOINER).collect()
}

/// Whether there is anything to look for in it.
pub(crate) fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// Signs of scripts that are written without spaces.
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
    fn text_of_other_scripts_is_kept_as_it_is() {
        for text in ["", "fn main() { foo_bar() }", "naïve Straße", "한국어 문장", "a\nb\tc"] {
            assert_eq!(segment(text), text);
        }
    }

    #[test]
    fn signs_that_are_words_are_parted_and_joined_again() {
        assert_eq!(segment("用Rust写"), "用\u{2060}Rust\u{2060}写");
        assert_eq!(segment("検索"), "検\u{2060}索");
        for text in ["全文検索", "用 Rust 写的", "ค้นหา", "x全y文z"] {
            assert_eq!(join_segments(&segment(text)), text);
        }
    }

    #[test]
    fn signs_that_mean_something_to_us_are_not_kept() {
        assert_eq!(segment("a\0b\u{1}c\u{2}d\u{2060}e"), "a b c de");
    }
}
