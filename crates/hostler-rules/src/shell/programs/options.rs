//! Just enough of how programs read options to find where they end.

use super::super::limits::is_name;
use super::Word;

/// Which options of a program take a value.
pub(super) struct Options {
    pub short: &'static str,
    pub long: &'static [&'static str],
}

impl Options {
    pub(super) const NONE: Self = Self { short: "", long: &[] };
}

/// The index of the first word behind the options, or nothing if a word on the way is not known.
pub(super) fn after_options(words: &[Word], options: &Options) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(text) = word.known() else {
            return (!word.may_be_option()).then_some(at);
        };
        if text == "--" {
            return Some(at + 1);
        }
        if !text.starts_with('-') || text == "-" {
            return Some(at);
        }
        at += 1 + usize::from(takes_next(text, options));
    }
    Some(words.len())
}

/// Does the option's value stand in the next word?
fn takes_next(option: &str, options: &Options) -> bool {
    if option.starts_with("--") {
        // A long option may be cut short.
        return !option.contains('=') && options.long.iter().any(|long| long.starts_with(option));
    }
    // In a bundle the first letter with a value ends it; the value follows at once or is the next word.
    let letters: Vec<char> = option.chars().skip(1).collect();
    letters.iter().position(|letter| options.short.contains(*letter)).is_some_and(|at| at + 1 == letters.len())
}

/// The letters of a bundle of short options; nothing for any other word.
pub(super) fn letters(word: &Word) -> &str {
    match word.head.strip_prefix('-') {
        Some(letters) if !letters.starts_with('-') => letters,
        _ => "",
    }
}

/// The name in `NAME=value`.
pub(super) fn sets_variable(word: &Word) -> Option<String> {
    let (name, _) = word.head.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name).then(|| name.to_owned())
}
