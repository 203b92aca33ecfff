//! Read-only programs whose arguments have a grammar of their own.

use super::arguments::{PathWord, UnclearArgument};
use crate::protected_paths::SearchExclusion;
use crate::shell::{ShellWord, has_non_numeric_comparison, is_harmless_variable};

/// Accepts literal words as text, and `$?`, which is a number.
pub(super) fn check_echo(words: &[ShellWord]) -> Result<(), UnclearArgument> {
    let status = |word: &ShellWord| {
        let rest = word.text.replace("$?", "");
        word.text.contains("$?") && !rest.contains(['$', '`', '*', '?', '[', '{', '\\'])
    };
    words.iter().try_for_each(|word| match word.as_literal() {
        Some(_) => Ok(()),
        None if status(word) => Ok(()),
        None => Err(UnclearArgument::NonLiteralOperand),
    })
}

/// The words of `test` and `[`, each of which may be a path. Operators that evaluate variable names are not listed.
pub(super) fn parse_test(words: &[ShellWord]) -> Result<Vec<PathWord<'_>>, UnclearArgument> {
    const OPERATORS: [&str; 34] = [
        "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-p", "-r", "-s", "-u", "-w", "-x", "-G", "-L", "-N", "-O",
        "-S", "-n", "-z", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o", "-t", "-",
    ];
    let mut names = Vec::new();
    if has_non_numeric_comparison(words) {
        return Err(UnclearArgument::UnknownOption);
    }
    for word in words {
        let text = word.as_literal().ok_or(UnclearArgument::NonLiteralOperand)?;
        let number = text.strip_prefix('-').is_some_and(|digits| digits.chars().all(|c| c.is_ascii_digit()));
        match text {
            _ if OPERATORS.contains(&text) || number => {}
            _ if text.starts_with('-') => return Err(UnclearArgument::UnknownOption),
            _ => names.push(PathWord { text, has_tilde: word.has_tilde }),
        }
    }
    Ok(names)
}

/// `date` shows the time. An operand without `+` would set it.
pub(super) fn check_date(words: &[ShellWord]) -> Result<(), UnclearArgument> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.as_literal().ok_or(UnclearArgument::NonLiteralWord)?;
        match text {
            "-u" | "-R" | "-I" | "--utc" | "--universal" | "--rfc-email" | "--iso-8601" => {}
            "-d" | "--date" => {
                words.next().and_then(ShellWord::as_literal).ok_or(UnclearArgument::NonLiteralOperand)?;
            }
            _ if text.starts_with('+') || text.starts_with("--date=") || text.starts_with("--iso-8601=") => {}
            _ if text.starts_with("-I") || text.starts_with("--rfc-3339=") => {}
            _ => return Err(UnclearArgument::UnknownOption),
        }
    }
    Ok(())
}

/// `ps` without options that show environments: `e` is an option without a hyphen, and procps accepts some of these
/// options with a hyphen.
pub(super) fn check_ps(words: &[ShellWord]) -> Result<(), UnclearArgument> {
    words.iter().try_for_each(|word| {
        let text = word.as_literal().ok_or(UnclearArgument::NonLiteralWord)?;
        let plain = !text.is_empty() && text.chars().all(|c| "auxwf".contains(c));
        let hyphened = text.strip_prefix('-').is_some_and(|letters| letters.chars().all(|c| "eAfFlHw".contains(c)));
        (plain || hyphened || text == "-aux").then_some(()).ok_or(UnclearArgument::UnknownOption)
    })
}

/// `set -e` and similar. `set` alone shows all variables, and operands become parameters.
pub(super) fn check_set(words: &[ShellWord]) -> Result<(), UnclearArgument> {
    let texts: Vec<&str> =
        words.iter().map(ShellWord::as_literal).collect::<Option<_>>().ok_or(UnclearArgument::NonLiteralWord)?;
    let option = |text: &&str| matches!(*text, "-e" | "-u" | "-x" | "-eu" | "-ex" | "-eux");
    let known = match texts.as_slice() {
        [one] => option(one),
        [first, "pipefail"] => matches!(*first, "-o" | "-eo" | "-uo" | "-euo" | "-euxo"),
        [first, "-o", "pipefail"] => option(first),
        _ => false,
    };
    known.then_some(()).ok_or(UnclearArgument::UnknownOption)
}

/// Predicates of `find` without and with an argument. Those that run, delete, write or follow links are not listed.
const FIND_FLAGS: [&str; 25] = [
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
const FIND_EXTRA_FLAGS: [&str; 3] = ["-readable", "-writable", "-nowarn"];
const FIND_TEXT_PREDICATES: [&str; 31] = [
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
const FIND_PATH_PREDICATES: [&str; 4] = ["-newer", "-anewer", "-cnewer", "-samefile"];

/// The paths of `find`: its starting points, and those of its predicates.
pub(super) fn parse_find(words: &[ShellWord]) -> Result<Vec<PathWord<'_>>, UnclearArgument> {
    let mut names = Vec::new();
    let mut words = words.iter().peekable();
    if words.peek().and_then(|word| word.as_literal()) == Some("-P") {
        words.next();
    }
    let mut in_expression = false;
    while let Some(word) = words.next() {
        let text = word.as_literal().ok_or(if word.may_be_option() {
            UnclearArgument::NonLiteralWord
        } else {
            UnclearArgument::NonLiteralOperand
        })?;
        in_expression |= text.starts_with('-') || matches!(text, "(" | "!");
        if !in_expression {
            names.push(PathWord { text, has_tilde: word.has_tilde });
        } else if FIND_TEXT_PREDICATES.contains(&text) {
            words.next().and_then(ShellWord::as_literal).ok_or(UnclearArgument::NonLiteralWord)?;
        } else if FIND_PATH_PREDICATES.contains(&text) {
            let path = words.next().ok_or(UnclearArgument::NonLiteralWord)?;
            names.push(PathWord {
                text: path.as_literal().ok_or(UnclearArgument::NonLiteralWord)?,
                has_tilde: path.has_tilde,
            });
        } else if !FIND_FLAGS.contains(&text) && !FIND_EXTRA_FLAGS.contains(&text) {
            return Err(UnclearArgument::UnknownOption);
        }
    }
    if names.is_empty() {
        names.push(PathWord { text: ".", has_tilde: false });
    }
    Ok(names)
}

/// What a search by `rg` excludes. Globs and file types include hidden files that match.
pub(super) fn rg_exclusion(words: &[ShellWord]) -> SearchExclusion {
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
            return SearchExclusion::Nothing;
        }
    }
    SearchExclusion::HiddenFiles
}

/// A `jq` filter that shows only its input: no environment, no files.
pub(super) fn is_plain_jq(filter: &str) -> bool {
    let filter = filter.to_ascii_lowercase();
    !["env", "import", "include", "modulemeta", "input_filename", "debug", "stderr", "search_list", "$__"]
        .iter()
        .any(|word| filter.contains(word))
}

/// `NAME=value` in `env`, of a variable that does not affect what runs. A value with a slash may be a path.
fn is_harmless_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, value)| is_harmless_variable(name, false) && !value.contains('/'))
}

/// The command that a wrapper runs unchanged.
pub(super) fn wrapped_command<'w>(name: &str, words: &'w [ShellWord]) -> Option<&'w [ShellWord]> {
    let text = |at: usize| words.get(at).and_then(ShellWord::as_literal);
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let skipped = match name {
        "timeout" => {
            let duration = text(0)?;
            is_number(duration.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(duration)).then_some(1)?
        }
        "nice" if text(0)? == "-n" => is_number(text(1)?).then_some(2)?,
        "env" => words.iter().take_while(|word| word.as_literal().is_some_and(is_harmless_assignment)).count(),
        _ => 0,
    };
    let inner = words.get(skipped..)?;
    let first = inner.first()?.as_literal()?;
    (!first.starts_with('-')).then_some(inner)
}
