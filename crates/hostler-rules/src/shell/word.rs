//! A word of a command line, taken apart: quotes removed, expansions found, nested command lines collected.
//!
//! The grammar delivers words as they were written. They are read here in one pass, without recursion into the grammar and
//! with one rule above all: what two readers of shell could understand differently is not understood. Then the word is an
//! error, and the command line is opaque.

use super::limits::is_name;
use super::nesting::{closing, closing_backquote};

/// A word, as far as it is known before the shell runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The value if the word is literal, otherwise how it is written.
    pub text: String,
    /// What is known of an open word's beginning; the whole value of a literal one.
    pub head: String,
    pub form: Form,
    /// Begins with an unquoted `~`.
    pub tilde: bool,
}

/// How sure a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Exactly this one word.
    Literal,
    /// One word that begins with `head`.
    One,
    /// Any number of words, as with an unquoted `$x`, `*` or `{a,b}`.
    Any,
}

impl Word {
    pub(crate) fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), head: text.to_owned(), form: Form::Literal, tilde: false }
    }

    /// Words that come from elsewhere, such as what `xargs` appends.
    pub(crate) fn anything(shown: &str) -> Self {
        Self { text: shown.to_owned(), head: String::new(), form: Form::Any, tilde: false }
    }

    pub(crate) fn is_literal(&self) -> bool {
        self.form == Form::Literal
    }

    pub(crate) fn known(&self) -> Option<&str> {
        self.is_literal().then_some(self.text.as_str())
    }

    /// Could a program take this word, or one that comes of it, for an option?
    pub(crate) fn may_be_option(&self) -> bool {
        match self.form {
            Form::Literal => self.text.starts_with('-'),
            Form::One => self.head.is_empty() || self.head.starts_with('-'),
            Form::Any => true,
        }
    }
}

/// A word together with what it runs while it is expanded.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub word: Word,
    /// Command lines of `$(…)` and backquotes.
    pub scripts: Vec<String>,
    /// Why the expansion itself may run something that is not to be seen.
    pub hidden: Option<&'static str>,
}

/// Where a text stands, which decides what its characters mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A word of a command.
    Word,
    /// Something between the words where blanks and operators are text: a pattern, the operand of `${x:-…}`.
    Loose,
    /// The body of a here-document.
    Document,
}

/// Takes a word apart.
pub(crate) fn scan(raw: &str, place: Place) -> Result<Scanned, &'static str> {
    let chars: Vec<char> = raw.chars().collect();
    let mut scanner = Scanner { chars: &chars, ..Scanner::default() };
    match place {
        Place::Document => scanner.quoted(0, chars.len(), Quotes::Document)?,
        Place::Word | Place::Loose => scanner.unquoted(place)?,
    }
    let Scanner { value, head, form, scripts, hidden, .. } = scanner;
    let form = if hidden.is_some() { Form::Any } else { form };
    let literal = form == Form::Literal;
    let word = Word {
        text: if literal { value.clone() } else { raw.to_owned() },
        head: if literal { value } else { head.unwrap_or_default() },
        form,
        tilde: chars.first() == Some(&'~'),
    };
    Ok(Scanned { word, scripts, hidden })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
    Document,
}

const UNTERMINATED: &str = "a quote or an expansion in it does not end";
const UNCLEAR: &str = "shells read its quotes in different ways";
const ARITHMETIC: &str = "it computes with variables, whose values can run commands";

struct Scanner<'a> {
    chars: &'a [char],
    value: String,
    head: Option<String>,
    form: Form,
    scripts: Vec<String>,
    hidden: Option<&'static str>,
}

impl Default for Scanner<'_> {
    fn default() -> Self {
        Self { chars: &[], value: String::new(), head: None, form: Form::Literal, scripts: Vec::new(), hidden: None }
    }
}

impl Scanner<'_> {
    fn at(&self, index: usize) -> Option<char> {
        self.chars.get(index).copied()
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.chars.get(from..to).unwrap_or_default().iter().collect()
    }

    fn open(&mut self, form: Form) {
        if self.head.is_none() {
            self.head = Some(self.value.clone());
        }
        if self.form != Form::Any {
            self.form = form;
        }
    }

    fn hide(&mut self, why: &'static str) {
        self.open(Form::Any);
        self.hidden = Some(why);
    }

    fn unquoted(&mut self, place: Place) -> Result<(), &'static str> {
        let mut index = 0;
        // Where a brace opened, and whether a comma or `..` followed: then it multiplies the word.
        let (mut brace, mut list) = (false, false);
        while let Some(c) = self.at(index) {
            match c {
                '\\' => {
                    self.value.push(self.at(index + 1).ok_or(UNTERMINATED)?);
                    index += 2;
                    continue;
                }
                '\'' => {
                    let end = self.find(index + 1, '\'').ok_or(UNTERMINATED)?;
                    let quoted = self.text(index + 1, end);
                    self.value.push_str(&quoted);
                    index = end + 1;
                    continue;
                }
                '"' => {
                    let end = closing(self.chars, index + 1, '"').ok_or(UNTERMINATED)?;
                    self.quoted(index + 1, end, Quotes::Double)?;
                    index = end + 1;
                    continue;
                }
                '$' => {
                    index = self.dollar(index, Quotes::None)?;
                    continue;
                }
                '`' => {
                    index = self.backquote(index, Quotes::None)?;
                    continue;
                }
                '*' | '?' => self.open(Form::Any),
                // Alone it is a command.
                '[' if self.find(index + 1, ']').is_some() => self.open(Form::Any),
                '{' => brace = true,
                ',' if brace => list = true,
                '.' if brace && self.at(index + 1) == Some('.') => list = true,
                '}' if brace && list => self.open(Form::Any),
                // The tokenizer ends a word here. That it did not means that it saw quotes where there are none.
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' if place == Place::Word => {
                    return Err(UNCLEAR);
                }
                // `=ls` is a path in zsh.
                '=' if index == 0 => self.open(Form::One),
                _ => {}
            }
            self.value.push(c);
            index += 1;
        }
        Ok(())
    }

    /// The inside of double quotes, or a here-document.
    fn quoted(&mut self, from: usize, to: usize, quotes: Quotes) -> Result<(), &'static str> {
        let mut index = from;
        while index < to {
            match (self.at(index).ok_or(UNTERMINATED)?, self.at(index + 1)) {
                ('\\', Some(next)) if matches!(next, '$' | '`' | '\\') || (next == '"' && quotes == Quotes::Double) => {
                    self.value.push(next);
                    index += 2;
                }
                ('\\', Some('\n')) => index += 2,
                ('$', _) => index = self.dollar(index, quotes)?,
                ('`', _) => index = self.backquote(index, quotes)?,
                (c, _) => {
                    self.value.push(c);
                    index += 1;
                }
            }
        }
        if index == to { Ok(()) } else { Err(UNCLEAR) }
    }

    /// What begins with a dollar sign; answers where it ends.
    fn dollar(&mut self, index: usize, quotes: Quotes) -> Result<usize, &'static str> {
        let form = if quotes == Quotes::None { Form::Any } else { Form::One };
        let Some(next) = self.at(index + 1) else {
            self.value.push('$');
            return Ok(index + 1);
        };
        match next {
            '(' => {
                let end = closing(self.chars, index + 2, ')').ok_or(UNTERMINATED)?;
                self.open(form);
                let arithmetic = self.at(index + 2) == Some('(')
                    && closing(self.chars, index + 3, ')').is_some_and(|inner| inner + 1 == end);
                if arithmetic {
                    self.arithmetic(&self.text(index + 3, end - 1))?;
                } else {
                    self.scripts.push(self.text(index + 2, end));
                }
                Ok(end + 1)
            }
            '[' => {
                let end = closing(self.chars, index + 2, ']').ok_or(UNTERMINATED)?;
                self.open(form);
                self.arithmetic(&self.text(index + 2, end))?;
                Ok(end + 1)
            }
            '{' => {
                let end = closing(self.chars, index + 2, '}').ok_or(UNTERMINATED)?;
                self.open(form);
                let inner = self.text(index + 2, end);
                self.parameter(&inner)?;
                Ok(end + 1)
            }
            '\'' if quotes == Quotes::None => self.ansi(index + 2),
            '"' if quotes == Quotes::None => {
                // A translated string: what stands in the catalogue is not known.
                self.open(Form::One);
                Ok(index + 1)
            }
            c if c == '_' || c.is_ascii_alphabetic() => {
                self.open(form);
                let rest = self.chars.get(index + 1..).unwrap_or_default();
                let length = rest.iter().take_while(|c| **c == '_' || c.is_ascii_alphanumeric()).count();
                Ok(index + 1 + length)
            }
            '@' | '*' => {
                self.open(Form::Any);
                Ok(index + 2)
            }
            c if c.is_ascii_digit() || matches!(c, '#' | '?' | '-' | '$' | '!') => {
                self.open(form);
                Ok(index + 2)
            }
            // Expansions of zsh; text elsewhere.
            '+' | '=' | '~' | '^' | ':' => {
                self.open(Form::Any);
                Ok(index + 1)
            }
            _ => {
                self.value.push('$');
                Ok(index + 1)
            }
        }
    }

    fn backquote(&mut self, index: usize, quotes: Quotes) -> Result<usize, &'static str> {
        let end = closing_backquote(self.chars, index + 1).ok_or(UNTERMINATED)?;
        let mut script = String::new();
        let mut inside = index + 1;
        while inside < end {
            let (c, next) = (self.at(inside).ok_or(UNTERMINATED)?, self.at(inside + 1));
            let escapes = matches!(next, Some('$' | '`' | '\\')) || (next == Some('"') && quotes == Quotes::Double);
            if c == '\\' && escapes {
                script.extend(next);
                inside += 2;
            } else {
                script.push(c);
                inside += 1;
            }
        }
        self.open(if quotes == Quotes::None { Form::Any } else { Form::One });
        self.scripts.push(script);
        Ok(end + 1)
    }

    /// `$((…))`. A variable within is evaluated again, and an array's subscript in its value runs commands.
    fn arithmetic(&mut self, expression: &str) -> Result<(), &'static str> {
        if !expression.chars().all(|c| c.is_ascii_digit() || " \t\n+-*/%()<>=!&|^~?:,".contains(c)) {
            self.hide(ARITHMETIC);
            self.nested(expression)?;
        }
        Ok(())
    }

    /// `${…}`.
    fn parameter(&mut self, inner: &str) -> Result<(), &'static str> {
        // Whether a single quote quotes here depends on the quotes around it.
        if inner.contains('\'') {
            return Err(UNCLEAR);
        }
        self.nested(inner)?;
        let stripped = inner.strip_prefix(['#', '!']).filter(|rest| !rest.is_empty()).unwrap_or(inner);
        let name_length = stripped.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).count();
        let (name, rest): (String, String) =
            (stripped.chars().take(name_length).collect(), stripped.chars().skip(name_length).collect());
        let special = matches!(stripped, "@" | "*" | "#" | "?" | "-" | "$" | "!");
        let numbered = !name.is_empty() && name.chars().all(|c| c.is_ascii_digit());
        if special {
            return Ok(());
        }
        if !is_name(&name) && !numbered {
            self.hide("it holds an expansion that is not known");
            return Ok(());
        }
        let rest = match rest.strip_prefix('[').and_then(|subscript| subscript.split_once(']')) {
            Some((subscript, rest)) => {
                if !(matches!(subscript, "@" | "*") || subscript.chars().all(|c| c.is_ascii_digit())) {
                    self.hide(ARITHMETIC);
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
                    self.hide(ARITHMETIC);
                }
            }
            // `@P` expands the value like a prompt, with its substitutions.
            (Some('@'), Some('U' | 'u' | 'L' | 'Q' | 'E' | 'A' | 'K' | 'a' | 'k')) => {}
            _ => self.hide("it holds an expansion that is not known"),
        }
        Ok(())
    }

    /// Collects the command lines of a text within an expansion.
    fn nested(&mut self, text: &str) -> Result<(), &'static str> {
        if !text.contains(['$', '`']) {
            return Ok(());
        }
        let chars: Vec<char> = text.chars().collect();
        let mut inner = Scanner { chars: &chars, ..Scanner::default() };
        inner.quoted(0, chars.len(), Quotes::Document)?;
        self.scripts.append(&mut inner.scripts);
        if let Some(why) = inner.hidden {
            self.hide(why);
        }
        Ok(())
    }

    /// `$'…'`, from behind the opening quote.
    fn ansi(&mut self, from: usize) -> Result<usize, &'static str> {
        let mut index = from;
        loop {
            match self.at(index).ok_or(UNTERMINATED)? {
                '\'' => return Ok(index + 1),
                '\\' => {
                    let escape = self.at(index + 1).ok_or(UNTERMINATED)?;
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
                        'x' => index = self.coded(index, 16, 2)?,
                        'u' => index = self.coded(index, 16, 4)?,
                        'U' => index = self.coded(index, 16, 8)?,
                        '0'..='7' => index = self.coded(index - 1, 8, 3)?,
                        _ => return Err(UNCLEAR),
                    }
                }
                c => {
                    self.value.push(c);
                    index += 1;
                }
            }
        }
    }

    /// A character by its number. Those that are not a character of their own (bytes of another one, NUL) are refused.
    fn coded(&mut self, from: usize, radix: u32, longest: usize) -> Result<usize, &'static str> {
        let rest = self.chars.get(from..).unwrap_or_default();
        let digits: String = rest.iter().take(longest).take_while(|c| c.is_digit(radix)).collect();
        let code = u32::from_str_radix(&digits, radix).map_err(|_| UNCLEAR)?;
        let is_byte = longest < 4;
        match char::from_u32(code) {
            Some(c) if code != 0 && !(is_byte && code > 0x7f) => self.value.push(c),
            _ => return Err(UNCLEAR),
        }
        Ok(from + digits.len())
    }

    fn find(&self, from: usize, wanted: char) -> Option<usize> {
        (from..self.chars.len()).find(|index| self.at(*index) == Some(wanted))
    }
}

#[cfg(test)]
mod tests;
