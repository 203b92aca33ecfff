//! Finds where a quote, a substitution or an expansion ends, in one pass with an explicit stack. There is no result
//! where shells differ.

/// The index of the character that closes what was opened just before `from`.
///
/// `close` is one of `"`, `)`, `}` and `]`. `None` if nothing closes it, and for comments within substitutions, for
/// single quotes within `${…}` and for here-documents whose end is not plain, because their meaning depends on context
/// that this function does not have.
pub(crate) fn find_closing(chars: &[char], from: usize, close: char) -> Option<usize> {
    let mut expected = vec![close];
    let mut documents: Vec<HereDocument> = Vec::new();
    let mut index = from;
    loop {
        let top = *expected.last()?;
        let c = *chars.get(index)?;
        if top == '"' {
            match c {
                '\\' => index += 1,
                '"' => {
                    expected.pop();
                }
                '$' => index += push_expansion(chars, index, &mut expected),
                '`' => index = find_closing_backquote(chars, index + 1)?,
                _ => {}
            }
        } else if c == top {
            expected.pop();
        } else {
            match c {
                '\\' => index += 1,
                '\'' if top == '}' => return None,
                '\'' => index = find_char(chars, index + 1, '\'')?,
                '"' => expected.push('"'),
                '`' => index = find_closing_backquote(chars, index + 1)?,
                '$' if chars.get(index + 1) == Some(&'\'') => {
                    (top != '}').then_some(())?;
                    index = find_closing_ansi_quote(chars, index + 2)?;
                }
                '$' => index += push_expansion(chars, index, &mut expected),
                '(' => expected.push(')'),
                '[' if top == ']' => expected.push(']'),
                '#' if top == ')' && is_comment_start(chars, index, from) => return None,
                '<' if top == ')' && chars.get(index + 1) == Some(&'<') => {
                    if chars.get(index + 2) == Some(&'<') {
                        index += 2;
                    } else {
                        let (document, end) = HereDocument::parse(chars, index + 2)?;
                        documents.push(document);
                        index = end;
                        continue;
                    }
                }
                '\n' if top == ')' => {
                    for document in documents.drain(..) {
                        index = document.skip_body(chars, index + 1)?;
                    }
                }
                _ => {}
            }
        }
        if expected.is_empty() {
            return documents.is_empty().then_some(index);
        }
        index += 1;
    }
}

/// The index of the backquote that ends a substitution. Only a backslash escapes one.
pub(crate) fn find_closing_backquote(chars: &[char], from: usize) -> Option<usize> {
    find_unescaped(chars, from, '`')
}

fn find_closing_ansi_quote(chars: &[char], from: usize) -> Option<usize> {
    find_unescaped(chars, from, '\'')
}

fn find_unescaped(chars: &[char], from: usize, wanted: char) -> Option<usize> {
    let mut index = from;
    loop {
        match *chars.get(index)? {
            '\\' => index += 2,
            c if c == wanted => return Some(index),
            _ => index += 1,
        }
    }
}

fn find_char(chars: &[char], from: usize, wanted: char) -> Option<usize> {
    chars.get(from..)?.iter().position(|c| *c == wanted).map(|offset| from + offset)
}

/// Records what a dollar sign opens, and returns how many additional characters were consumed.
fn push_expansion(chars: &[char], index: usize, expected: &mut Vec<char>) -> usize {
    let close = match chars.get(index + 1) {
        Some('(') => ')',
        Some('{') => '}',
        Some('[') => ']',
        // The second `$` of `$$` must not begin another expansion.
        Some('$') => return 1,
        _ => return 0,
    };
    expected.push(close);
    1
}

fn is_comment_start(chars: &[char], index: usize, from: usize) -> bool {
    index == from || chars.get(index.wrapping_sub(1)).is_some_and(|before| " \t\n;&|()<>".contains(*before))
}

/// A here-document whose body follows.
struct HereDocument {
    tag: String,
    strips_tabs: bool,
}

impl HereDocument {
    /// Parses the tag after `<<`; returns the index after it.
    fn parse(chars: &[char], from: usize) -> Option<(Self, usize)> {
        let tabs = chars.get(from) == Some(&'-');
        let mut index = from + usize::from(tabs);
        while matches!(chars.get(index), Some(' ' | '\t')) {
            index += 1;
        }
        let quote = chars.get(index).copied().filter(|c| matches!(c, '\'' | '"'));
        index += usize::from(quote.is_some());
        let rest = chars.get(index..)?;
        let tag: String = rest.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
        index += tag.len();
        if let Some(quote) = quote {
            (chars.get(index) == Some(&quote)).then_some(())?;
            index += 1;
        }
        let ends = chars.get(index).is_none_or(|c| " \t\n;&|)<>".contains(*c));
        (ends && !tag.is_empty()).then_some((Self { tag, strips_tabs: tabs }, index))
    }

    /// Skips the body, whose first line begins at `from`; returns the index of the line break after the tag.
    fn skip_body(&self, chars: &[char], from: usize) -> Option<usize> {
        let mut start = from;
        loop {
            let end = find_char(chars, start, '\n')?;
            let line: String = chars.get(start..end)?.iter().collect();
            let line = if self.strips_tabs { line.trim_start_matches('\t') } else { line.as_str() };
            if line == self.tag {
                return Some(end);
            }
            start = end + 1;
        }
    }
}
