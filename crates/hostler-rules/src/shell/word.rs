//! Scans a word of a command line: removes quotes, finds expansions, collects nested command lines.
//!
//! The grammar returns words as they were written. They are scanned in one pass, without recursion into the grammar. A
//! word that two shells could interpret differently is an error, and the command line is unanalyzable.

use super::limits::is_variable_name;
use super::nesting::{find_closing, find_closing_backquote};

/// A word, as far as it is known before the shell runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// The value of a literal word, otherwise the text as written.
    pub text: String,
    /// The known beginning of a non-literal word; the whole value of a literal one.
    pub known_prefix: String,
    pub form: WordForm,
    /// Whether it begins with an unquoted `~`.
    pub has_tilde: bool,
}

/// How much is known about a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordForm {
    /// Exactly this one word.
    Literal,
    /// One word that begins with `known_prefix`.
    SingleWord,
    /// Any number of words, as for an unquoted `$x`, `*` or `{a,b}`.
    AnyWords,
}

impl ShellWord {
    pub(crate) fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), known_prefix: text.to_owned(), form: WordForm::Literal, has_tilde: false }
    }

    /// Words from another source, such as those that `xargs` appends.
    pub(crate) fn any_words(shown: &str) -> Self {
        Self { text: shown.to_owned(), known_prefix: String::new(), form: WordForm::AnyWords, has_tilde: false }
    }

    pub(crate) fn is_literal(&self) -> bool {
        self.form == WordForm::Literal
    }

    pub(crate) fn as_literal(&self) -> Option<&str> {
        self.is_literal().then_some(self.text.as_str())
    }

    /// Could a program take this word, or one that results from it, as an option?
    pub(crate) fn may_be_option(&self) -> bool {
        match self.form {
            WordForm::Literal => self.text.starts_with('-'),
            WordForm::SingleWord => self.known_prefix.is_empty() || self.known_prefix.starts_with('-'),
            WordForm::AnyWords => true,
        }
    }
}

/// A word and the commands that its expansion runs.
#[derive(Debug)]
pub(crate) struct ScannedWord {
    pub word: ShellWord,
    /// Command lines of `$(…)` and backquotes.
    pub scripts: Vec<String>,
    /// Why the expansion may run something that cannot be determined.
    pub unanalyzable: Option<&'static str>,
}

/// The context of a text, which determines the meaning of its characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextContext {
    /// A word of a command.
    Word,
    /// A text in which blanks and operators are literal: a pattern, the operand of `${x:-…}`.
    FreeText,
    /// The body of a here-document.
    HereDocument,
}

/// Scans a word.
pub(crate) fn scan_word(raw: &str, place: TextContext) -> Result<ScannedWord, &'static str> {
    let chars: Vec<char> = raw.chars().collect();
    let mut scanner = Scanner { chars: &chars, ..Scanner::default() };
    match place {
        TextContext::HereDocument => scanner.scan_quoted(0, chars.len(), QuoteContext::HereDocument)?,
        TextContext::Word | TextContext::FreeText => scanner.scan_unquoted(place)?,
    }
    let Scanner { value, known_prefix: head, form, scripts, unanalyzable: hidden, .. } = scanner;
    let form = if hidden.is_some() { WordForm::AnyWords } else { form };
    let literal = form == WordForm::Literal;
    let word = ShellWord {
        text: if literal { value.clone() } else { raw.to_owned() },
        known_prefix: if literal { value } else { head.unwrap_or_default() },
        form,
        has_tilde: chars.first() == Some(&'~'),
    };
    Ok(ScannedWord { word, scripts, unanalyzable: hidden })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteContext {
    None,
    Double,
    HereDocument,
}

const UNTERMINATED: &str = "it contains an unterminated quote or expansion";
const AMBIGUOUS_QUOTES: &str = "shells interpret its quotes differently";
const EVALUATES_ARITHMETIC: &str = "it evaluates variables as arithmetic, which can run commands";

struct Scanner<'a> {
    chars: &'a [char],
    value: String,
    known_prefix: Option<String>,
    form: WordForm,
    scripts: Vec<String>,
    unanalyzable: Option<&'static str>,
}

impl Default for Scanner<'_> {
    fn default() -> Self {
        Self {
            chars: &[],
            value: String::new(),
            known_prefix: None,
            form: WordForm::Literal,
            scripts: Vec::new(),
            unanalyzable: None,
        }
    }
}

impl Scanner<'_> {
    fn char_at(&self, index: usize) -> Option<char> {
        self.chars.get(index).copied()
    }

    fn slice(&self, from: usize, to: usize) -> String {
        self.chars.get(from..to).unwrap_or_default().iter().collect()
    }

    fn mark_expansion(&mut self, form: WordForm) {
        if self.known_prefix.is_none() {
            self.known_prefix = Some(self.value.clone());
        }
        if self.form != WordForm::AnyWords {
            self.form = form;
        }
    }

    fn mark_unanalyzable(&mut self, why: &'static str) {
        self.mark_expansion(WordForm::AnyWords);
        self.unanalyzable = Some(why);
    }

    fn scan_unquoted(&mut self, place: TextContext) -> Result<(), &'static str> {
        let mut index = 0;
        // Whether a brace is open, and whether a comma or `..` followed, which makes it a brace expansion.
        let (mut brace, mut list) = (false, false);
        while let Some(c) = self.char_at(index) {
            match c {
                '\\' => {
                    self.value.push(self.char_at(index + 1).ok_or(UNTERMINATED)?);
                    index += 2;
                    continue;
                }
                '\'' => {
                    let end = self.find_char(index + 1, '\'').ok_or(UNTERMINATED)?;
                    let quoted = self.slice(index + 1, end);
                    self.value.push_str(&quoted);
                    index = end + 1;
                    continue;
                }
                '"' => {
                    let end = find_closing(self.chars, index + 1, '"').ok_or(UNTERMINATED)?;
                    self.scan_quoted(index + 1, end, QuoteContext::Double)?;
                    index = end + 1;
                    continue;
                }
                '$' => {
                    index = self.scan_dollar(index, QuoteContext::None)?;
                    continue;
                }
                '`' => {
                    index = self.scan_backquote(index, QuoteContext::None)?;
                    continue;
                }
                '*' | '?' => self.mark_expansion(WordForm::AnyWords),
                // A single `[` is a command.
                '[' if self.find_char(index + 1, ']').is_some() => self.mark_expansion(WordForm::AnyWords),
                '{' => brace = true,
                ',' if brace => list = true,
                '.' if brace && self.char_at(index + 1) == Some('.') => list = true,
                '}' if brace && list => self.mark_expansion(WordForm::AnyWords),
                // The tokenizer ends a word at these characters. If it did not, it assumed quotes that do not exist.
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' if place == TextContext::Word => {
                    return Err(AMBIGUOUS_QUOTES);
                }
                // In zsh, `=ls` expands to a path.
                '=' if index == 0 => self.mark_expansion(WordForm::SingleWord),
                _ => {}
            }
            self.value.push(c);
            index += 1;
        }
        Ok(())
    }

    /// Scans the inside of double quotes, or a here-document.
    fn scan_quoted(&mut self, from: usize, to: usize, quotes: QuoteContext) -> Result<(), &'static str> {
        let mut index = from;
        while index < to {
            match (self.char_at(index).ok_or(UNTERMINATED)?, self.char_at(index + 1)) {
                ('\\', Some(next))
                    if matches!(next, '$' | '`' | '\\') || (next == '"' && quotes == QuoteContext::Double) =>
                {
                    self.value.push(next);
                    index += 2;
                }
                ('\\', Some('\n')) => index += 2,
                ('$', _) => index = self.scan_dollar(index, quotes)?,
                ('`', _) => index = self.scan_backquote(index, quotes)?,
                (c, _) => {
                    self.value.push(c);
                    index += 1;
                }
            }
        }
        if index == to { Ok(()) } else { Err(AMBIGUOUS_QUOTES) }
    }

    /// Scans an expansion that begins with a dollar sign; returns where it ends.
    fn scan_dollar(&mut self, index: usize, quotes: QuoteContext) -> Result<usize, &'static str> {
        let form = if quotes == QuoteContext::None { WordForm::AnyWords } else { WordForm::SingleWord };
        let Some(next) = self.char_at(index + 1) else {
            self.value.push('$');
            return Ok(index + 1);
        };
        match next {
            '(' => {
                let end = find_closing(self.chars, index + 2, ')').ok_or(UNTERMINATED)?;
                self.mark_expansion(form);
                let arithmetic = self.char_at(index + 2) == Some('(')
                    && find_closing(self.chars, index + 3, ')').is_some_and(|inner| inner + 1 == end);
                if arithmetic {
                    self.scan_arithmetic(&self.slice(index + 3, end - 1))?;
                } else {
                    self.scripts.push(self.slice(index + 2, end));
                }
                Ok(end + 1)
            }
            '[' => {
                let end = find_closing(self.chars, index + 2, ']').ok_or(UNTERMINATED)?;
                self.mark_expansion(form);
                self.scan_arithmetic(&self.slice(index + 2, end))?;
                Ok(end + 1)
            }
            '{' => {
                let end = find_closing(self.chars, index + 2, '}').ok_or(UNTERMINATED)?;
                self.mark_expansion(form);
                let inner = self.slice(index + 2, end);
                self.scan_parameter(&inner)?;
                Ok(end + 1)
            }
            '\'' if quotes == QuoteContext::None => self.scan_ansi_quote(index + 2),
            '"' if quotes == QuoteContext::None => {
                // A translated string, whose translation is unknown.
                self.mark_expansion(WordForm::SingleWord);
                Ok(index + 1)
            }
            c if c == '_' || c.is_ascii_alphabetic() => {
                self.mark_expansion(form);
                let rest = self.chars.get(index + 1..).unwrap_or_default();
                let length = rest.iter().take_while(|c| **c == '_' || c.is_ascii_alphanumeric()).count();
                Ok(index + 1 + length)
            }
            '@' | '*' => {
                self.mark_expansion(WordForm::AnyWords);
                Ok(index + 2)
            }
            c if c.is_ascii_digit() || matches!(c, '#' | '?' | '-' | '$' | '!') => {
                self.mark_expansion(form);
                Ok(index + 2)
            }
            // Expansions in zsh, text in other shells.
            '+' | '=' | '~' | '^' | ':' => {
                self.mark_expansion(WordForm::AnyWords);
                Ok(index + 1)
            }
            _ => {
                self.value.push('$');
                Ok(index + 1)
            }
        }
    }

    fn scan_backquote(&mut self, index: usize, quotes: QuoteContext) -> Result<usize, &'static str> {
        let end = find_closing_backquote(self.chars, index + 1).ok_or(UNTERMINATED)?;
        let mut script = String::new();
        let mut inside = index + 1;
        while inside < end {
            let (c, next) = (self.char_at(inside).ok_or(UNTERMINATED)?, self.char_at(inside + 1));
            let escapes =
                matches!(next, Some('$' | '`' | '\\')) || (next == Some('"') && quotes == QuoteContext::Double);
            if c == '\\' && escapes {
                script.extend(next);
                inside += 2;
            } else {
                script.push(c);
                inside += 1;
            }
        }
        self.mark_expansion(if quotes == QuoteContext::None { WordForm::AnyWords } else { WordForm::SingleWord });
        self.scripts.push(script);
        Ok(end + 1)
    }

    /// `$((…))`. The shell evaluates variables in it recursively, and an array subscript in a value runs commands.
    fn scan_arithmetic(&mut self, expression: &str) -> Result<(), &'static str> {
        if !expression.chars().all(|c| c.is_ascii_digit() || " \t\n+-*/%()<>=!&|^~?:,".contains(c)) {
            self.mark_unanalyzable(EVALUATES_ARITHMETIC);
            self.scan_nested(expression)?;
        }
        Ok(())
    }

    /// `${…}`.
    fn scan_parameter(&mut self, inner: &str) -> Result<(), &'static str> {
        // Whether a single quote quotes here depends on the quotes around it.
        if inner.contains('\'') {
            return Err(AMBIGUOUS_QUOTES);
        }
        self.scan_nested(inner)?;
        let stripped = inner.strip_prefix(['#', '!']).filter(|rest| !rest.is_empty()).unwrap_or(inner);
        let name_length = stripped.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).count();
        let (name, rest): (String, String) =
            (stripped.chars().take(name_length).collect(), stripped.chars().skip(name_length).collect());
        let special = matches!(stripped, "@" | "*" | "#" | "?" | "-" | "$" | "!");
        let numbered = !name.is_empty() && name.chars().all(|c| c.is_ascii_digit());
        if special {
            return Ok(());
        }
        if !is_variable_name(&name) && !numbered {
            self.mark_unanalyzable("it contains an unknown expansion");
            return Ok(());
        }
        let rest = match rest.strip_prefix('[').and_then(|subscript| subscript.split_once(']')) {
            Some((subscript, rest)) => {
                if !(matches!(subscript, "@" | "*") || subscript.chars().all(|c| c.is_ascii_digit())) {
                    self.mark_unanalyzable(EVALUATES_ARITHMETIC);
                }
                rest.to_owned()
            }
            None => rest,
        };
        let mut chars = rest.chars();
        match (chars.next(), chars.next()) {
            (None, _) | (Some('-' | '=' | '?' | '+' | '#' | '%' | '/' | '^' | ','), _) => {}
            (Some(':'), Some('-' | '=' | '?' | '+')) => {}
            (Some(':'), _) => {
                if !rest.chars().all(|c| c.is_ascii_digit() || ": -".contains(c)) {
                    self.mark_unanalyzable(EVALUATES_ARITHMETIC);
                }
            }
            // `@P` expands the value like a prompt, including its substitutions.
            (Some('@'), Some('U' | 'u' | 'L' | 'Q' | 'E' | 'A' | 'K' | 'a' | 'k')) => {}
            _ => self.mark_unanalyzable("it contains an unknown expansion"),
        }
        Ok(())
    }

    /// Collects the command lines of a text within an expansion.
    fn scan_nested(&mut self, text: &str) -> Result<(), &'static str> {
        if !text.contains(['$', '`']) {
            return Ok(());
        }
        let chars: Vec<char> = text.chars().collect();
        let mut inner = Scanner { chars: &chars, ..Scanner::default() };
        inner.scan_quoted(0, chars.len(), QuoteContext::HereDocument)?;
        self.scripts.append(&mut inner.scripts);
        if let Some(why) = inner.unanalyzable {
            self.mark_unanalyzable(why);
        }
        Ok(())
    }

    /// `$'…'`, from after the opening quote.
    fn scan_ansi_quote(&mut self, from: usize) -> Result<usize, &'static str> {
        let mut index = from;
        loop {
            match self.char_at(index).ok_or(UNTERMINATED)? {
                '\'' => return Ok(index + 1),
                '\\' => {
                    let escape = self.char_at(index + 1).ok_or(UNTERMINATED)?;
                    index += 2;
                    match escape {
                        'n' => self.value.push('\n'),
                        't' => self.value.push('\t'),
                        'r' => self.value.push('\r'),
                        'a' => self.value.push('\u{7}'),
                        'b' => self.value.push('\u{8}'),
                        'e' | 'E' => self.value.push('\u{1b}'),
                        'f' => self.value.push('\u{c}'),
                        'v' => self.value.push('\u{b}'),
                        '\\' | '\'' | '"' | '?' => self.value.push(escape),
                        'x' => index = self.scan_character_code(index, 16, 2)?,
                        'u' => index = self.scan_character_code(index, 16, 4)?,
                        'U' => index = self.scan_character_code(index, 16, 8)?,
                        '0'..='7' => index = self.scan_character_code(index - 1, 8, 3)?,
                        _ => return Err(AMBIGUOUS_QUOTES),
                    }
                }
                c => {
                    self.value.push(c);
                    index += 1;
                }
            }
        }
    }

    /// A character by its code. Codes that are not a character on their own (bytes of another one, NUL) are refused.
    fn scan_character_code(&mut self, from: usize, radix: u32, longest: usize) -> Result<usize, &'static str> {
        let rest = self.chars.get(from..).unwrap_or_default();
        let digits: String = rest.iter().take(longest).take_while(|c| c.is_digit(radix)).collect();
        let code = u32::from_str_radix(&digits, radix).map_err(|_| AMBIGUOUS_QUOTES)?;
        let is_byte = longest < 4;
        match char::from_u32(code) {
            Some(c) if code != 0 && !(is_byte && code > 0x7f) => self.value.push(c),
            _ => return Err(AMBIGUOUS_QUOTES),
        }
        Ok(from + digits.len())
    }

    fn find_char(&self, from: usize, wanted: char) -> Option<usize> {
        (from..self.chars.len()).find(|index| self.char_at(*index) == Some(wanted))
    }
}

#[cfg(test)]
mod tests;
