//! Commands that provably only read, for the plan mode. The table is small and errs to the other side: what is not in it, or
//! carries an option that could write or run something, is taken for a writer.

use super::{Command, Kind, Line, Word};

/// Programs that only read, whatever their options.
const ALWAYS: [&str; 50] = [
    "[",
    "basename",
    "cat",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expr",
    "false",
    "fgrep",
    "fold",
    "getconf",
    "grep",
    "head",
    "hexdump",
    "id",
    "jq",
    "ls",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printenv",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "stat",
    "strings",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "uname",
    "uptime",
    "wc",
    "whoami",
];

/// Programs that only read unless one of these short or long options is given.
const UNLESS: [(&str, &str, &[&str]); 8] = [
    ("file", "C", &["--compile"]),
    ("find", "", &[]),
    ("printf", "v", &[]),
    ("rg", "", &["--pre", "--hostname-bin"]),
    ("sort", "oT", &["--output", "--compress-program", "--temporary-directory"]),
    ("tree", "oR", &[]),
    ("type", "", &[]),
    ("which", "", &[]),
];

/// Commands of git that only read, unless one of [`GIT_WRITES`] is given.
const GIT: [&str; 15] = [
    "blame",
    "cat-file",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "status",
];

const GIT_WRITES: [&str; 5] = ["--output", "--ext-diff", "--textconv", "--open-files-in-pager", "--filters"];

/// Does the whole line only read?
pub(crate) fn only_reads(line: &Line) -> bool {
    line.files.iter().all(|file| !file.writes || file.name.known().is_some_and(is_sink))
        && line.commands.iter().all(command_only_reads)
}

/// Is this a place where writing changes nothing?
pub(crate) fn is_sink(name: &str) -> bool {
    matches!(name, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/fd/1" | "/dev/fd/2")
}

fn command_only_reads(command: &Command) -> bool {
    let inner = command.inner.iter().all(|inner| inner.commands.iter().all(command_only_reads));
    if !inner || !command.has_harmless_variables() {
        return false;
    }
    match command.kind {
        Kind::Carrier => true,
        Kind::Runner(_) | Kind::Hidden(_) => false,
        Kind::Plain => command.words.is_empty() || reads(&command.words),
    }
}

fn reads(words: &[Word]) -> bool {
    // By its plain name: another directory may hold another program.
    let Some(name) = words.first().and_then(Word::known) else {
        return false;
    };
    let arguments = words.get(1..).unwrap_or_default();
    if ALWAYS.contains(&name) {
        return true;
    }
    if let Some((_, short, long)) = UNLESS.iter().find(|(program, ..)| *program == name) {
        return arguments.iter().all(|word| is_free_of(word, short, long));
    }
    match name {
        "cd" => true,
        // A number alone sets the clock.
        "date" => arguments.iter().all(|word| {
            word.known().is_some_and(|text| !text.starts_with(|c: char| c.is_ascii_digit()))
                && is_free_of(word, "s", &["--set"])
        }),
        "git" => git(arguments),
        // A second name is where uniq writes to.
        "uniq" => arguments.iter().filter(|word| !word.text.starts_with('-')).count() <= 1,
        "command" => matches!(arguments.first().and_then(Word::known), Some("-v" | "-V")),
        _ => false,
    }
}

fn is_free_of(word: &Word, short: &str, long: &[&str]) -> bool {
    let Some(text) = word.known() else {
        return !word.may_be_option() || (short.is_empty() && long.is_empty());
    };
    if text.starts_with("--") {
        let name = text.split('=').next().unwrap_or(text);
        return !long.iter().any(|option| option.starts_with(name));
    }
    !(text.starts_with('-') && text.contains(|letter| short.contains(letter)))
}

fn git(arguments: &[Word]) -> bool {
    let Some(command) = arguments.first().and_then(Word::known) else {
        return false;
    };
    let rest = arguments.get(1..).unwrap_or_default();
    let all = |allowed: &[&str]| rest.iter().all(|word| word.known().is_some_and(|text| allowed.contains(&text)));
    match command {
        "branch" => all(&["-a", "-r", "-v", "-vv", "--all", "--list", "--remotes", "--show-current", "--verbose"]),
        "tag" => all(&["-l", "--list", "-n"]),
        "remote" => all(&["-v", "--verbose"]),
        "stash" => rest.first().and_then(Word::known) == Some("list"),
        "--version" => rest.is_empty(),
        _ => GIT.contains(&command) && rest.iter().all(|word| is_free_of(word, "O", &GIT_WRITES)),
    }
}
