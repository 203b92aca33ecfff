//! Finds the token at the cursor of a draft. Pure; positions are in UTF-16 units, as clients count.

/// The token that ends at the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// Its start.
    pub(super) start: usize,
    /// Its end: the cursor.
    pub(super) end: usize,
    /// Its text.
    pub(super) text: &'a str,
}

/// The token that ends at `offset`. `None` if the offset is no position in the text.
pub(super) fn token_at(text: &str, offset: usize) -> Option<Token<'_>> {
    let mut units = 0;
    let (mut start, mut begin) = (0, 0);
    for (byte, letter) in text.char_indices() {
        if units == offset {
            return Some(Token { start, end: offset, text: text.get(begin..byte)? });
        }
        units += letter.len_utf16();
        if units > offset {
            // Inside of a character.
            return None;
        }
        if letter.is_whitespace() {
            (start, begin) = (units, byte + letter.len_utf8());
        }
    }
    (units == offset).then_some(Token { start, end: offset, text: text.get(begin..)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_text(text: &str, offset: usize) -> Option<(usize, &str)> {
        token_at(text, offset).map(|token| (token.start, token.text))
    }

    #[test]
    fn token_spans_from_the_last_space_to_the_cursor() {
        assert_eq!(token_text("look at @src/ma in", 15), Some((8, "@src/ma")));
        assert_eq!(token_text("look at @src/ma in", 12), Some((8, "@src")));
        assert_eq!(token_text("a\n@b", 4), Some((2, "@b")));
        assert_eq!(token_text("a ", 2), Some((2, "")));
        assert_eq!(token_text("", 0), Some((0, "")));
        assert_eq!(token_text("@x", 0), Some((0, "")));
    }

    #[test]
    fn positions_are_counted_in_utf16_units() {
        assert_eq!(token_text("🐎 @ü", 5), Some((3, "@ü")));
        assert_eq!(token_text("🐎", 1), None, "in the middle of a letter");
        assert_eq!(token_text("ab", 3), None, "behind the end");
    }
}
