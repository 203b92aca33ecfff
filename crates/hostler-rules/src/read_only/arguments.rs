//! Splits a program's words by a table entry: options without a value, options with one, operands.
//!
//! An entry lists options as text: `-n` and `--number` take no value; `-e:` takes a text, `-f@` a path; `--color=` may
//! carry a text after `=`; `-#` is a number as in `head -20`. A trailing `!` means that the option replaces the first
//! operand, a `*` that it reads the contents of everything below. Options that are not listed, including abbreviated
//! ones, are unknown.

use crate::shell::ShellWord;

/// A word that names a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathWord<'w> {
    pub text: &'w str,
    /// Whether the shell expands its tilde to the home directory.
    pub has_tilde: bool,
}

/// The words of a command by their meaning to the program.
#[derive(Debug, Default)]
pub(super) struct ParsedArguments<'w> {
    pub operands: Vec<PathWord<'w>>,
    /// Values of options that are paths, and values that another option parser could take as operands.
    pub paths: Vec<PathWord<'w>>,
    /// Values of options that replace the first operand.
    pub texts: Vec<&'w str>,
    /// Whether an option replaces the first operand.
    pub replaces_first: bool,
    /// Whether an option reads the contents of everything below.
    pub recursive: bool,
    /// Number of operands before `--`; `None` without `--`.
    pub operands_before_dashes: Option<usize>,
}

/// Why the words are unclear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnclearArgument {
    /// A word is not literal and may be an option.
    NonLiteralWord,
    /// A word is not literal; it is not an option.
    NonLiteralOperand,
    /// An option that is not in the table.
    UnknownOption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionValue {
    None,
    Text,
    Path,
    Attached,
}

#[derive(Debug, Clone, Copy)]
struct OptionSpec {
    value: OptionValue,
    replaces_first: bool,
    recursive: bool,
}

/// Finds an option in a table entry by its full name.
fn find_option(table: &str, option: &str) -> Option<OptionSpec> {
    table.split_whitespace().find_map(|entry| {
        let name = entry.trim_end_matches(['!', '*']);
        let marks = entry.strip_prefix(name)?;
        let (name, value) = match name.strip_suffix([':', '@', '=']) {
            Some(bare) if name.ends_with(':') => (bare, OptionValue::Text),
            Some(bare) if name.ends_with('@') => (bare, OptionValue::Path),
            Some(bare) => (bare, OptionValue::Attached),
            None => (name, OptionValue::None),
        };
        (name == option).then_some(OptionSpec {
            value,
            replaces_first: marks.contains('!'),
            recursive: marks.contains('*'),
        })
    })
}

/// Splits the words after a program's name.
pub(super) fn parse_arguments<'w>(words: &'w [ShellWord], table: &str) -> Result<ParsedArguments<'w>, UnclearArgument> {
    let mut found = ParsedArguments::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = literal_text(word)?;
        if found.operands_before_dashes.is_some() || !text.starts_with('-') || text == "-" {
            found.operands.push(PathWord { text, has_tilde: word.has_tilde });
        } else if text == "--" {
            found.operands_before_dashes = Some(found.operands.len());
        } else if text.starts_with("--") {
            let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            let meaning = find_option(table, name).ok_or(UnclearArgument::UnknownOption)?;
            match (meaning.value, value) {
                (OptionValue::None, Some(_)) => return Err(UnclearArgument::UnknownOption),
                (OptionValue::None | OptionValue::Attached, None) => found.record(meaning, None),
                (_, Some(value)) => found.record(meaning, Some(value)),
                (OptionValue::Text | OptionValue::Path, None) => {
                    found.record(meaning, Some(literal_text(words.next().ok_or(UnclearArgument::UnknownOption)?)?));
                }
            }
        } else {
            found.parse_bundle(text, table, &mut words)?;
        }
    }
    Ok(found)
}

/// The value of a literal word. Some shells expand a tilde after `=` or `:`.
fn literal_text(word: &ShellWord) -> Result<&str, UnclearArgument> {
    match word.as_literal() {
        Some(text) if !text.contains("=~") && !text.contains(":~") => Ok(text),
        Some(_) => Err(UnclearArgument::NonLiteralOperand),
        None if word.may_be_option() => Err(UnclearArgument::NonLiteralWord),
        None => Err(UnclearArgument::NonLiteralOperand),
    }
}

impl<'w> ParsedArguments<'w> {
    /// Parses `-la`, `-n5`, `-n 5`, `-20`.
    fn parse_bundle(
        &mut self,
        text: &'w str,
        table: &str,
        words: &mut std::slice::Iter<'w, ShellWord>,
    ) -> Result<(), UnclearArgument> {
        let letters = text.trim_start_matches('-');
        if letters.chars().all(|c| c.is_ascii_digit()) && find_option(table, "-#").is_some() {
            return Ok(());
        }
        for (at, letter) in letters.char_indices() {
            let meaning = find_option(table, &format!("-{letter}")).ok_or(UnclearArgument::UnknownOption)?;
            let rest = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            match meaning.value {
                OptionValue::None => self.record(meaning, None),
                OptionValue::Attached => {
                    self.record(meaning, Some(rest));
                    return Ok(());
                }
                OptionValue::Text | OptionValue::Path => {
                    let mut next = || words.next().ok_or(UnclearArgument::UnknownOption).and_then(literal_text);
                    let value = if rest.is_empty() { next()? } else { rest };
                    self.record(meaning, Some(value));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, meaning: OptionSpec, value: Option<&'w str>) {
        self.replaces_first |= meaning.replaces_first;
        self.recursive |= meaning.recursive;
        let Some(text) = value else { return };
        if meaning.replaces_first && meaning.value == OptionValue::Text {
            self.texts.push(text);
        }
        // After an operand, a program may take every word as an operand.
        if meaning.value == OptionValue::Path || !self.operands.is_empty() {
            self.paths.push(PathWord { text, has_tilde: false });
        }
    }
}

/// Is the word `-x`, or `-x5` for one of these letters? Words that are not short options pass as well.
pub(super) fn is_unbundled(word: &ShellWord, letters: &str) -> bool {
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

    fn words(line: &str) -> Vec<ShellWord> {
        line.split(' ').map(ShellWord::literal).collect()
    }

    #[test]
    fn options_match_by_full_name_and_values_by_kind() {
        let table = "-n -e:! -f@! -A: -r* -# --color= --file@! --max:";
        let read = |line: &str| {
            let words = words(line);
            parse_arguments(&words, table).map(|found| {
                let text = |names: &[PathWord<'_>]| names.iter().map(|name| name.text.to_owned()).collect::<Vec<_>>();
                (text(&found.operands), text(&found.paths), found.replaces_first, found.recursive)
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
            assert_eq!(read(unknown), Err(UnclearArgument::UnknownOption), "{unknown}");
        }
        for open in ["x=~/y", "--file=~/x", "a:~/b"] {
            assert_eq!(read(open), Err(UnclearArgument::NonLiteralOperand), "{open}");
        }
    }
}
