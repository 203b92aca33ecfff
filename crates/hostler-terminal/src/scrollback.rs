//! Computes where a scrollback is trimmed.

/// Maximum distance to the end of a line; beyond it the text is trimmed within a line, so that no more than this is
/// lost.
const LINE_END_SEARCH_BYTES: usize = 4 * 1024;

/// The number of bytes to remove from the start of a text so that at least `excess` are removed: up to the end of a
/// line, if one is near, and never inside a character.
pub fn scrollback_trim_bytes(text: &str, excess: usize) -> usize {
    if excess == 0 {
        return 0;
    }
    let Some(cut) = (excess..text.len()).find(|at| text.is_char_boundary(*at)) else { return text.len() };
    let near = text.as_bytes().get(cut - 1..).unwrap_or_default().iter().take(LINE_END_SEARCH_BYTES);
    near.copied().position(|byte| byte == b'\n').map_or(cut, |line| cut + line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_ends_after_a_near_line_and_never_inside_a_character() {
        assert_eq!(scrollback_trim_bytes("one\ntwo\nthree", 0), 0);
        assert_eq!(scrollback_trim_bytes("one\ntwo\nthree", 1), 4);
        assert_eq!(scrollback_trim_bytes("one\ntwo\nthree", 4), 4);
        assert_eq!(scrollback_trim_bytes("one\ntwo\nthree", 5), 8);
        assert_eq!(scrollback_trim_bytes("äöü", 1), 2);
        assert_eq!(scrollback_trim_bytes("äöü", 3), 4);
        assert_eq!(scrollback_trim_bytes("äöü", 6), 6);
        assert_eq!(scrollback_trim_bytes("", 9), 0);
        let long = "x".repeat(3 * LINE_END_SEARCH_BYTES) + "\n";
        assert_eq!(scrollback_trim_bytes(&long, 7), 7, "the end of the line is far");
        for excess in 0..12 {
            let text = "a\u{1F600}b\n\u{e9}c";
            let cut = scrollback_trim_bytes(text, excess);
            assert!(text.is_char_boundary(cut) && cut >= excess.min(text.len()), "{excess} {cut}");
        }
    }
}
