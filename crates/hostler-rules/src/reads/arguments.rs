//! How a program takes its words, by a table entry: options without a value, options with one, operands.
//!
//! An entry lists options as text: `-n` and `--number` take no value; `-e:` takes a text, `-f@` a path; `--color=` may carry
//! a text behind `=`; `-#` is a number as in `head -20`. A `!` behind it says that the option takes the place of the first
//! operand, a `*` that it reads the contents of all that lies below. Options that are not listed, shortened ones included,
//! are unknown.

use crate::shell::Word;

/// A word that names a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name<'w> {
    pub text: &'w str,
    /// The shell puts the home directory in front.
    pub tilde: bool,
}

/// The words of a command, by what they mean to the program.
#[derive(Debug, Default)]
pub(super) struct Arguments<'w> {
    pub operands: Vec<Name<'w>>,
    /// Values of options that are paths, and those that could be operands to a program that reads its words otherwise.
    pub paths: Vec<Name<'w>>,
    /// Values of options that take the place of the first operand.
    pub texts: Vec<&'w str>,
    /// An option takes the place of the first operand.
    pub replaces_first: bool,
    /// An option reads the contents of all that lies below.
    pub below: bool,
    /// How many operands come before `--`; all of them if there is none.
    pub before_dashes: Option<usize>,
}

/// Why the words are not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unclear {
    /// A word is known only when the command runs, and may be an option.
    Word,
    /// A word is known only when the command runs; it is no option.
    Operand,
    /// An option that the table does not list.
    Option,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    Text,
    Path,
    Attached,
}

#[derive(Debug, Clone, Copy)]
struct Meaning {
    value: Value,
    replaces_first: bool,
    below: bool,
}

/// Finds an option in a table entry by its whole name.
fn meaning(table: &str, option: &str) -> Option<Meaning> {
    table.split_whitespace().find_map(|entry| {
        let name = entry.trim_end_matches(['!', '*']);
        let marks = entry.strip_prefix(name)?;
        let (name, value) = match name.strip_suffix([':', '@', '=']) {
            Some(bare) if name.ends_with(':') => (bare, Value::Text),
            Some(bare) if name.ends_with('@') => (bare, Value::Path),
            Some(bare) => (bare, Value::Attached),
            None => (name, Value::None),
        };
        (name == option).then_some(Meaning { value, replaces_first: marks.contains('!'), below: marks.contains('*') })
    })
}

/// Takes the words behind a program's name apart.
pub(super) fn arguments<'w>(words: &'w [Word], table: &str) -> Result<Arguments<'w>, Unclear> {
    let mut found = Arguments::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = literal(word)?;
        if found.before_dashes.is_some() || !text.starts_with('-') || text == "-" {
            found.operands.push(Name { text, tilde: word.tilde });
        } else if text == "--" {
            found.before_dashes = Some(found.operands.len());
        } else if text.starts_with("--") {
            let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            let meaning = meaning(table, name).ok_or(Unclear::Option)?;
            match (meaning.value, value) {
                (Value::None, Some(_)) => return Err(Unclear::Option),
                (Value::None | Value::Attached, None) => found.note(meaning, None),
                (_, Some(value)) => found.note(meaning, Some(value)),
                (Value::Text | Value::Path, None) => {
                    found.note(meaning, Some(literal(words.next().ok_or(Unclear::Option)?)?));
                }
            }
        } else {
            found.bundle(text, table, &mut words)?;
        }
    }
    Ok(found)
}

/// The value of a literal word. A tilde behind `=` or `:` may be expanded by some shells.
fn literal(word: &Word) -> Result<&str, Unclear> {
    match word.known() {
        Some(text) if !text.contains("=~") && !text.contains(":~") => Ok(text),
        Some(_) => Err(Unclear::Operand),
        None if word.may_be_option() => Err(Unclear::Word),
        None => Err(Unclear::Operand),
    }
}

impl<'w> Arguments<'w> {
    /// `-la`, `-n5`, `-n 5`, `-20`.
    fn bundle(&mut self, text: &'w str, table: &str, words: &mut std::slice::Iter<'w, Word>) -> Result<(), Unclear> {
        let letters = text.trim_start_matches('-');
        if letters.chars().all(|c| c.is_ascii_digit()) && meaning(table, "-#").is_some() {
            return Ok(());
        }
        for (at, letter) in letters.char_indices() {
            let meaning = meaning(table, &format!("-{letter}")).ok_or(Unclear::Option)?;
            let rest = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            match meaning.value {
                Value::None => self.note(meaning, None),
                Value::Attached => {
                    self.note(meaning, Some(rest));
                    return Ok(());
                }
                Value::Text | Value::Path => {
                    let mut next = || words.next().ok_or(Unclear::Option).and_then(literal);
                    let value = if rest.is_empty() { next()? } else { rest };
                    self.note(meaning, Some(value));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, meaning: Meaning, value: Option<&'w str>) {
        self.replaces_first |= meaning.replaces_first;
        self.below |= meaning.below;
        let Some(text) = value else { return };
        if meaning.replaces_first && meaning.value == Value::Text {
            self.texts.push(text);
        }
        // Behind an operand a program may take every word for an operand.
        if meaning.value == Value::Path || !self.operands.is_empty() {
            self.paths.push(Name { text, tilde: false });
        }
    }
}

/// `-x`, or `-x5` for one of these letters; words that are no short options stand alone, too.
pub(super) fn stands_alone(word: &Word, letters: &str) -> bool {
    let text = word.text.as_str();
    let Some(option) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else { return true };
    let mut chars = option.chars();
    let may_glue = chars.next().is_some_and(|letter| letters.contains(letter));
    let rest = chars.as_str();
    rest.is_empty() || (may_glue && rest.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Word> {
        line.split(' ').map(Word::literal).collect()
    }

    #[test]
    fn options_are_known_by_their_whole_names_and_values_by_their_kind() {
        let table = "-n -e:! -f@! -A: -r* -# --color= --file@! --max:";
        let read = |line: &str| {
            let words = words(line);
            arguments(&words, table).map(|found| {
                let text = |names: &[Name<'_>]| names.iter().map(|name| name.text.to_owned()).collect::<Vec<_>>();
                (text(&found.operands), text(&found.paths), found.replaces_first, found.below)
            })
        };
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(read("-nA3 x y"), Ok((strings(&["x", "y"]), vec![], false, false)));
        assert_eq!(read("-n -f p x"), Ok((strings(&["x"]), strings(&["p"]), true, false)));
        assert_eq!(read("-nrfp x"), Ok((strings(&["x"]), strings(&["p"]), true, true)));
        assert_eq!(read("--file=p -20 --color --color=a"), Ok((vec![], strings(&["p"]), true, false)));
        assert_eq!(read("x -A ../y"), Ok((strings(&["x"]), strings(&["../y"]), false, false)));
        assert_eq!(read("-- -x --y"), Ok((strings(&["-x", "--y"]), vec![], false, false)));
        for unknown in ["-x", "--fil=p", "--colo", "-nx", "-5x", "--max", "-A", "-n=3", "--color-x", "-n5"] {
            assert_eq!(read(unknown), Err(Unclear::Option), "{unknown}");
        }
        for open in ["x=~/y", "--file=~/x", "a:~/b"] {
            assert_eq!(read(open), Err(Unclear::Operand), "{open}");
        }
    }
}
