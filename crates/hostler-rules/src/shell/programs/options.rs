//! Minimal option parsing: finds where a program's options end.

use super::super::limits::is_variable_name;
use super::ShellWord;

/// The options of a program that take a value.
pub(super) struct OptionsWithValue {
    pub short: &'static str,
    pub long: &'static [&'static str],
}

impl OptionsWithValue {
    pub(super) const NONE: Self = Self { short: "", long: &[] };
}

/// The index of the first word after the options, or `None` if a word before it is not literal.
pub(super) fn find_first_operand(words: &[ShellWord], options: &OptionsWithValue) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(text) = word.as_literal() else {
            return (!word.may_be_option()).then_some(at);
        };
        if text == "--" {
            return Some(at + 1);
        }
        if !text.starts_with('-') || text == "-" {
            return Some(at);
        }
        at += 1 + usize::from(takes_next_word(text, options));
    }
    Some(words.len())
}

/// Is the option's value in the next word?
fn takes_next_word(option: &str, options: &OptionsWithValue) -> bool {
    if option.starts_with("--") {
        // A long option may be abbreviated.
        return !option.contains('=') && options.long.iter().any(|long| long.starts_with(option));
    }
    // In a bundle, the first letter with a value ends it; the value follows directly or is the next word.
    let letters: Vec<char> = option.chars().skip(1).collect();
    letters.iter().position(|letter| options.short.contains(*letter)).is_some_and(|at| at + 1 == letters.len())
}

/// The letters of a bundle of short options; empty for any other word.
pub(super) fn short_option_letters(word: &ShellWord) -> &str {
    match word.known_prefix.strip_prefix('-') {
        Some(letters) if !letters.starts_with('-') => letters,
        _ => "",
    }
}

/// The name in `NAME=value`.
pub(super) fn assigned_variable(word: &ShellWord) -> Option<String> {
    let (name, _) = word.known_prefix.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    is_variable_name(name).then(|| name.to_owned())
}
