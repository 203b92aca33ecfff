//! Programs that only read and whose words follow a grammar of their own.

use super::arguments::{Name, Unclear};
use crate::protected::Skips;
use crate::shell::{Word, computes, is_harmless_variable};

/// All words as texts. `$?` is a number.
pub(super) fn echo(words: &[Word]) -> Result<(), Unclear> {
    let status = |word: &Word| {
        let rest = word.text.replace("$?", "");
        word.text.contains("$?") && !rest.contains(['$', '`', '*', '?', '[', '{', '\\'])
    };
    words.iter().try_for_each(|word| match word.known() {
        Some(_) => Ok(()),
        None if status(word) => Ok(()),
        None => Err(Unclear::Operand),
    })
}

/// The words of `test` and `[`, each of which may be a path. Operators that evaluate names of variables are not listed.
pub(super) fn test(words: &[Word]) -> Result<Vec<Name<'_>>, Unclear> {
    const OPERATORS: [&str; 34] = [
        "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-p", "-r", "-s", "-u", "-w", "-x", "-G", "-L", "-N", "-O",
        "-S", "-n", "-z", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o", "-t", "-",
    ];
    let mut names = Vec::new();
    if computes(words) {
        return Err(Unclear::Option);
    }
    for word in words {
        let text = word.known().ok_or(Unclear::Operand)?;
        let number = text.strip_prefix('-').is_some_and(|digits| digits.chars().all(|c| c.is_ascii_digit()));
        match text {
            _ if OPERATORS.contains(&text) || number => {}
            _ if text.starts_with('-') => return Err(Unclear::Option),
            _ => names.push(Name { text, tilde: word.tilde }),
        }
    }
    Ok(names)
}

/// `date` shows the time; an operand without `+` sets it.
pub(super) fn date(words: &[Word]) -> Result<(), Unclear> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.known().ok_or(Unclear::Word)?;
        match text {
            "-u" | "-R" | "-I" | "--utc" | "--universal" | "--rfc-email" | "--iso-8601" => {}
            "-d" | "--date" => drop(words.next().and_then(Word::known).ok_or(Unclear::Operand)?),
            _ if text.starts_with('+') || text.starts_with("--date=") || text.starts_with("--iso-8601=") => {}
            _ if text.starts_with("-I") || text.starts_with("--rfc-3339=") => {}
            _ => return Err(Unclear::Option),
        }
    }
    Ok(())
}

/// `ps` without anything that shows environments: `e` is one of the options without a hyphen, and procps takes some
/// options with a hyphen for those.
pub(super) fn ps(words: &[Word]) -> Result<(), Unclear> {
    words.iter().try_for_each(|word| {
        let text = word.known().ok_or(Unclear::Word)?;
        let plain = !text.is_empty() && text.chars().all(|c| "auxwf".contains(c));
        let hyphened = text.strip_prefix('-').is_some_and(|letters| letters.chars().all(|c| "eAfFlHw".contains(c)));
        (plain || hyphened || text == "-aux").then_some(()).ok_or(Unclear::Option)
    })
}

/// `set -e` and the like. Alone it shows all variables, and operands become parameters.
pub(super) fn set(words: &[Word]) -> Result<(), Unclear> {
    let texts: Vec<&str> = words.iter().map(Word::known).collect::<Option<_>>().ok_or(Unclear::Word)?;
    let option = |text: &&str| matches!(*text, "-e" | "-u" | "-x" | "-eu" | "-ex" | "-eux");
    let known = match texts.as_slice() {
        [one] => option(one),
        [first, "pipefail"] => matches!(*first, "-o" | "-eo" | "-uo" | "-euo" | "-euxo"),
        [first, "-o", "pipefail"] => option(first),
        _ => false,
    };
    known.then_some(()).ok_or(Unclear::Option)
}

/// Predicates of `find` without and with a word behind them. Those that run, delete, write or follow links are not listed.
const FIND_ALONE: [&str; 25] = [
    "!",
    "(",
    ")",
    ",",
    "-a",
    "-and",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-ls",
    "-mount",
    "-nogroup",
    "-noleaf",
    "-not",
    "-nouser",
    "-o",
    "-or",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-true",
    "-xdev",
];
const FIND_ALONE_TOO: [&str; 3] = ["-readable", "-writable", "-nowarn"];
const FIND_WITH_TEXT: [&str; 31] = [
    "-amin",
    "-atime",
    "-cmin",
    "-ctime",
    "-fstype",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mtime",
    "-name",
    "-path",
    "-perm",
    "-printf",
    "-regex",
    "-regextype",
    "-size",
    "-type",
    "-uid",
    "-used",
    "-user",
    "-wholename",
];
const FIND_WITH_PATH: [&str; 4] = ["-newer", "-anewer", "-cnewer", "-samefile"];

/// The paths of `find`: where it begins, and those of its predicates.
pub(super) fn find(words: &[Word]) -> Result<Vec<Name<'_>>, Unclear> {
    let mut names = Vec::new();
    let mut words = words.iter().peekable();
    if words.peek().and_then(|word| word.known()) == Some("-P") {
        words.next();
    }
    let mut in_expression = false;
    while let Some(word) = words.next() {
        let text = word.known().ok_or(if word.may_be_option() { Unclear::Word } else { Unclear::Operand })?;
        in_expression |= text.starts_with('-') || matches!(text, "(" | "!");
        if !in_expression {
            names.push(Name { text, tilde: word.tilde });
        } else if FIND_WITH_TEXT.contains(&text) {
            words.next().and_then(Word::known).ok_or(Unclear::Word)?;
        } else if FIND_WITH_PATH.contains(&text) {
            let path = words.next().ok_or(Unclear::Word)?;
            names.push(Name { text: path.known().ok_or(Unclear::Word)?, tilde: path.tilde });
        } else if !FIND_ALONE.contains(&text) && !FIND_ALONE_TOO.contains(&text) {
            return Err(Unclear::Option);
        }
    }
    if names.is_empty() {
        names.push(Name { text: ".", tilde: false });
    }
    Ok(names)
}

/// What a search by `rg` leaves out. Patterns and types of files take hidden ones that match.
pub(super) fn rg_skips(words: &[Word]) -> Skips {
    const TYPES: [&str; 20] = [
        "c",
        "cpp",
        "css",
        "cs",
        "go",
        "html",
        "java",
        "js",
        "kotlin",
        "lua",
        "markdown",
        "md",
        "php",
        "py",
        "python",
        "ruby",
        "rust",
        "swift",
        "ts",
        "typescript",
    ];
    let is_narrow = |pattern: &str| {
        let end = pattern.strip_prefix("*.").unwrap_or_default();
        let is_ending = !end.is_empty() && end.chars().all(|c| c.is_ascii_alphanumeric());
        pattern.starts_with('!') || (is_ending && !matches!(end.to_ascii_lowercase().as_str(), "json" | "toml"))
    };
    let mut words = words.iter().map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        let (name, glued) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let mut value = || glued.or_else(|| words.next()).unwrap_or_default();
        let hides = match name {
            "-g" | "--glob" | "--iglob" => is_narrow(value()),
            "-t" | "--type" => TYPES.contains(&value()),
            "--hidden" | "--unrestricted" => false,
            _ if name.starts_with('-') && !name.starts_with("--") => match name.strip_prefix("-t") {
                Some(glued) => TYPES.contains(&glued),
                None => !name.contains(['.', 'u', 'g', 't']),
            },
            _ => true,
        };
        if !hides {
            return Skips::Nothing;
        }
    }
    Skips::Hidden
}

/// A filter of jq that shows nothing but its input: no environment, no files.
pub(super) fn is_plain_jq(filter: &str) -> bool {
    let filter = filter.to_ascii_lowercase();
    !["env", "import", "include", "modulemeta", "input_filename", "debug", "stderr", "search_list", "$__"]
        .iter()
        .any(|word| filter.contains(word))
}

/// `NAME=value`, as `env` takes it, of a variable that changes nothing about what runs; a value with a slash may be a path.
fn is_harmless_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, value)| is_harmless_variable(name, false) && !value.contains('/'))
}

/// The command that another one runs without changing what it means.
pub(super) fn carried<'w>(name: &str, words: &'w [Word]) -> Option<&'w [Word]> {
    let text = |at: usize| words.get(at).and_then(Word::known);
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let skipped = match name {
        "timeout" => {
            let duration = text(0)?;
            is_number(duration.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(duration)).then_some(1)?
        }
        "nice" if text(0)? == "-n" => is_number(text(1)?).then_some(2)?,
        "env" => words.iter().take_while(|word| word.known().is_some_and(is_harmless_assignment)).count(),
        _ => 0,
    };
    let inner = words.get(skipped..)?;
    let first = inner.first()?.known()?;
    (!first.starts_with('-')).then_some(inner)
}
