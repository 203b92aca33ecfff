//! Escapes invisible and direction-changing characters in text of folders, agents and clients that a person decides
//! about.
//!
//! The web page follows the same rules (`web/src/ui/visible.ts`); both are checked with the same cases
//! (`web/tests/support/visible.json`).

/// Longest run of blanks inside a line that is shown unchanged.
const MAX_BLANK_RUN_CHARS: usize = 16;
/// Longest indentation that is shown unchanged.
const MAX_INDENT_CHARS: usize = 60;
/// Maximum number of consecutive empty lines that are shown unchanged.
const MAX_EMPTY_LINES: usize = 5;

const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Replaces each invisible character with its name, such as `⟨U+202E⟩`. Line breaks and tabs stay.
pub(crate) fn escape_invisible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut before = None;
    while let Some(c) = characters.next() {
        let after = characters.peek().copied();
        let is_seen = match c {
            '\r' => after == Some('\n'),
            ZERO_WIDTH_JOINER => before.is_some_and(can_precede_joiner) && after.is_some_and(is_pictographic),
            c => !is_invisible(c),
        };
        match is_seen {
            true => shown.push(c),
            false => shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(c))),
        }
        before = Some(c);
    }
    shown
}

/// Does the same and joins lines.
pub(crate) fn escape_invisible_line(text: &str) -> String {
    escape_invisible(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Does the same for code, where blanks matter: a run that is long enough to push text out of view is replaced with
/// its length.
pub(crate) fn escape_invisible_code(text: &str) -> String {
    let mut lines = Vec::new();
    let mut empty = Vec::new();
    let text = text.replace("\r\n", "\n");
    for line in text.split('\n') {
        // Empty lines at the start push nothing out of view.
        if !lines.is_empty() && line.chars().all(is_blank) {
            empty.push(line);
            continue;
        }
        flush_empty_lines(&mut empty, &mut lines);
        lines.push(collapse_blank_runs(line));
    }
    flush_empty_lines(&mut empty, &mut lines);
    escape_invisible(&lines.join("\n"))
}

fn flush_empty_lines(empty: &mut Vec<&str>, lines: &mut Vec<String>) {
    match empty.len() {
        0..=MAX_EMPTY_LINES => lines.extend(empty.iter().map(|line| collapse_blank_runs(line))),
        many => lines.push(format!("⟨{many} empty lines⟩")),
    }
    empty.clear();
}

/// Replaces long runs of blanks in a line with their length.
fn collapse_blank_runs(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut run = String::new();
    let mut at_start = true;
    for c in line.chars().map(Some).chain([None]) {
        match c {
            Some(c) if is_blank(c) => run.push(c),
            c => {
                let blanks = run.chars().count();
                match at_start {
                    true if blanks > MAX_INDENT_CHARS => shown.push_str(&format!("⟨{blanks} blanks⟩")),
                    false if blanks > MAX_BLANK_RUN_CHARS => shown.push_str(&format!(" ⟨{blanks} blanks⟩ ")),
                    _ => shown.push_str(&run),
                }
                run.clear();
                at_start = false;
                shown.extend(c);
            }
        }
    }
    shown
}

/// Returns whether a character is white space inside a line.
fn is_blank(c: char) -> bool {
    c.is_whitespace() && !matches!(c, '\n' | '\r') || c == '\u{feff}'
}

/// Returns whether a character changes the text direction, has no width, or looks like nothing.
fn is_invisible(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\n'))
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
                | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}'
                | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

fn can_precede_joiner(c: char) -> bool {
    c == '\u{fe0f}' || is_pictographic(c)
}

/// Returns whether a character is an emoji or an emoji modifier. Joiners between two emoji combine them.
fn is_pictographic(c: char) -> bool {
    matches!(c, '\u{2194}'..='\u{27bf}' | '\u{2934}'..='\u{2b55}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn escaping_matches_the_web_page_cases() {
        let cases: Value = serde_json::from_str(include_str!("../../../web/tests/support/visible.json")).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for case in cases["visible"].as_array().unwrap() {
            assert_eq!(escape_invisible(&text(&case[0])), text(&case[1]), "{case}");
        }
        for case in cases["exact"].as_array().unwrap() {
            assert_eq!(escape_invisible_code(&text(&case[0])), text(&case[1]), "{case}");
        }
    }

    #[test]
    fn single_line_escaping_shows_invisible_characters() {
        assert_eq!(escape_invisible_line("a\u{2028}b\n  c\u{85}d"), "a⟨U+2028⟩b c⟨U+0085⟩d");
    }
}
