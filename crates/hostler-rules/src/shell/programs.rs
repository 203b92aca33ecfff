//! Programs that run other programs. Some carry a command (`sudo`, `xargs`, `timeout`), some take one as text (`sh -c`,
//! `eval`), and many can be told to run one by an option that is easily overlooked (`git -c core.pager=…`,
//! `tar --to-command`). The first two kinds are opened, so that the command within is judged; the third kind is marked.

mod options;
mod runners;

use super::{Kind, Word, base_name};
pub(crate) use runners::{UNSEEN_OPTIONS, computes, is_plain_printf, is_plain_sed};

use options::{Options, after_options, letters, sets_variable};

/// What became of a look at a command's words.
pub(super) struct Look {
    pub kind: Kind,
    /// Commands within, and the word at which each begins.
    pub inner: Vec<(usize, Found)>,
    /// Variables that it sets, for itself or for what it runs.
    pub variables: Vec<String>,
    /// It changes the directory of the shell.
    pub moves: bool,
}

/// A command within a command.
pub(super) enum Found {
    Words(Vec<Word>),
    Script(String),
}

impl From<Kind> for Look {
    fn from(kind: Kind) -> Self {
        Self { kind, inner: Vec::new(), variables: Vec::new(), moves: false }
    }
}

impl Look {
    fn with(kind: Kind, reach: usize, found: Found) -> Self {
        Self { inner: vec![(reach, found)], ..Self::from(kind) }
    }
}

const NOT_LITERAL: Kind = Kind::Hidden("the command that it runs is not written out");
const FROM_INPUT: Kind = Kind::Hidden("it runs what it reads");

/// Carriers whose options are simple: those that take a value, and how many words of their own come before the command.
const CARRIERS: [(&str, Options, usize); 14] = [
    ("nice", Options { short: "n", long: &["--adjustment"] }, 0),
    ("nohup", Options::NONE, 0),
    ("timeout", Options { short: "ks", long: &["--kill-after", "--signal"] }, 1),
    ("stdbuf", Options { short: "ioe", long: &["--input", "--output", "--error"] }, 0),
    ("setsid", Options::NONE, 0),
    ("ionice", Options { short: "cn", long: &["--class", "--classdata"] }, 0),
    ("chrt", Options::NONE, 1),
    ("taskset", Options::NONE, 1),
    ("builtin", Options::NONE, 0),
    ("noglob", Options::NONE, 0),
    ("nocorrect", Options::NONE, 0),
    ("repeat", Options::NONE, 1),
    ("busybox", Options::NONE, 0),
    ("toybox", Options::NONE, 0),
];

/// Looks at a command: what else does it run?
pub(super) fn look(words: &[Word]) -> Look {
    let Some(name) = words.first().and_then(Word::known) else {
        return NOT_LITERAL.into();
    };
    let name = base_name(name);
    if name.is_empty() {
        return Kind::Hidden("it has no name").into();
    }
    if let Some((_, options, own)) = CARRIERS.iter().find(|(carrier, ..)| *carrier == name) {
        return carrier(words, options, *own);
    }
    match name {
        "-" => carried(words, 1, Kind::Carrier),
        "command" => match words.get(1).and_then(Word::known) {
            Some("-v" | "-V") => Kind::Plain.into(),
            _ => carrier(words, &Options::NONE, 0),
        },
        "exec" if words.len() == 1 => Kind::Plain.into(),
        "exec" => carrier(words, &Options { short: "a", long: &[] }, 0),
        // As the keyword it is not a word; this is the program, which can write its report to a file.
        "time" => match after_options(words, &Options { short: "fo", long: &["--format", "--output"] }) {
            Some(at) if !has_letter(words.get(1..at), 'o') => carried(words, at, Kind::Carrier),
            _ => Kind::Runner("it writes a file").into(),
        },
        "env" => env(words),
        "sudo" | "doas" | "pkexec" => sudo(words),
        "su" | "runuser" => su(words),
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "mksh" | "ash" | "rbash" | "fish" => shell(words),
        "eval" => joined(words, 1, Kind::Carrier),
        "watch" => {
            let valued = Options { short: "nq", long: &["--interval", "--equexit"] };
            after_options(words, &valued).map_or(NOT_LITERAL.into(), |at| joined(words, at, Kind::Carrier))
        }
        "xargs" => xargs(words),
        "parallel" => parallel(words),
        "find" | "gfind" => find(words),
        "fd" | "fdfind" => fd(words),
        "trap" => trap(words),
        "alias" => alias(words),
        "." | "source" => Kind::Hidden("it runs the commands of a file").into(),
        "let" => Kind::Hidden("it computes with variables, whose values can run commands").into(),
        "export" | "declare" | "typeset" | "local" | "readonly" => declaration(words),
        "cd" | "pushd" | "popd" => Look { moves: true, ..Kind::Plain.into() },
        _ => runners::kind(name, words).into(),
    }
}

fn has_letter(words: Option<&[Word]>, letter: char) -> bool {
    words.unwrap_or_default().iter().any(|word| letters(word).contains(letter) || word.text.starts_with("--o"))
}

/// The rest of the words, from `at`, as a command of its own.
fn carried(words: &[Word], at: usize, kind: Kind) -> Look {
    match words.get(at..) {
        Some(rest) if !rest.is_empty() => Look::with(kind, at, Found::Words(rest.to_vec())),
        _ => Kind::Plain.into(),
    }
}

fn carrier(words: &[Word], options: &Options, own: usize) -> Look {
    match after_options(words, options) {
        Some(at) => carried(words, at + own, Kind::Carrier),
        None => NOT_LITERAL.into(),
    }
}

/// The rest of the words, joined, as a command line: that is what `eval` and `watch` do.
fn joined(words: &[Word], at: usize, kind: Kind) -> Look {
    let rest = words.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return Kind::Plain.into();
    }
    match rest.iter().map(Word::known).collect::<Option<Vec<_>>>() {
        Some(known) => Look::with(kind, at, Found::Script(known.join(" "))),
        None => NOT_LITERAL.into(),
    }
}

fn env(words: &[Word]) -> Look {
    let valued = Options { short: "uCS", long: &["--unset", "--chdir", "--split-string"] };
    let Some(mut at) = after_options(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let options = words.get(1..at).unwrap_or_default();
    let splits = |word: &Word| letters(word).contains('S') || word.text.starts_with("--s");
    if options.iter().any(splits) {
        return Kind::Hidden("env takes its words apart").into();
    }
    let mut variables = Vec::new();
    while let Some(name) = words.get(at).and_then(sets_variable) {
        variables.push(name);
        at += 1;
    }
    if words.get(at).is_some_and(|word| !word.is_literal()) {
        return NOT_LITERAL.into();
    }
    Look { variables, ..carried(words, at, Kind::Carrier) }
}

/// Another user's power is more than the command alone, so that `sudo` needs a rule of its own.
fn sudo(words: &[Word]) -> Look {
    let valued = Options {
        short: "CDRTUghprtu",
        long: &[
            "--chdir",
            "--chroot",
            "--close-from",
            "--command-timeout",
            "--group",
            "--host",
            "--other-user",
            "--prompt",
            "--role",
            "--type",
            "--user",
        ],
    };
    let Some(mut at) = after_options(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let options = words.get(1..at).unwrap_or_default();
    let is = |letter: char, long: &str| {
        options.iter().any(|word| letters(word).contains(letter) || word.text.starts_with(long))
    };
    if is('e', "--edit") {
        return Kind::Runner("it edits a file as another user").into();
    }
    if is('s', "--shell") || is('i', "--login") {
        return Kind::Runner("it starts a shell as another user").into();
    }
    let mut variables = Vec::new();
    while let Some(name) = words.get(at).and_then(sets_variable) {
        variables.push(name);
        at += 1;
    }
    Look { variables, ..carried(words, at, Kind::Plain) }
}

fn su(words: &[Word]) -> Look {
    let after = |at: usize| words.get(at + 1).map(|script| (at + 1, script));
    let script = words.iter().position(|word| matches!(word.known(), Some("-c" | "--command"))).and_then(after);
    match script {
        Some((reach, script)) => match script.known() {
            Some(text) => Look::with(Kind::Runner("it acts as another user"), reach, Found::Script(text.to_owned())),
            None => NOT_LITERAL.into(),
        },
        None => FROM_INPUT.into(),
    }
}

fn shell(words: &[Word]) -> Look {
    let valued = Options { short: "oO", long: &["--rcfile", "--init-file"] };
    let Some(at) = after_options(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let options = words.get(1..at).unwrap_or_default();
    if options.iter().any(|word| matches!(word.known(), Some("--version" | "--help"))) {
        return Kind::Plain.into();
    }
    if options.iter().any(|word| word.text.starts_with("--rc") || word.text.starts_with("--init")) {
        return Kind::Hidden("it runs the commands of a file").into();
    }
    let is = |letter: char| options.iter().any(|word| letters(word).contains(letter));
    let operand = words.get(at);
    if is('c') || options.iter().any(|word| word.text.starts_with("--command")) {
        return match operand.map(Word::known) {
            Some(Some(script)) => Look::with(Kind::Carrier, at, Found::Script(script.to_owned())),
            _ => NOT_LITERAL.into(),
        };
    }
    match operand.map(Word::known) {
        // `+x` is an option, too.
        Some(Some(file)) if file.starts_with('+') => NOT_LITERAL.into(),
        Some(Some(file)) if !is('s') && file != "-" && !file.starts_with("/dev/") && !file.starts_with("/proc/") => {
            Kind::Plain.into()
        }
        _ => FROM_INPUT.into(),
    }
}

fn xargs(words: &[Word]) -> Look {
    let valued = Options {
        short: "aEILnPsdJRS",
        long: &["--arg-file", "--delimiter", "--max-args", "--max-chars", "--max-procs", "--process-slot-var"],
    };
    let Some(at) = after_options(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let options = words.get(1..at).unwrap_or_default();
    let marks = |word: &Word| letters(word).contains(['I', 'i', 'J']) || word.text.starts_with("--rep");
    let mark = match options.iter().position(marks) {
        None => None,
        Some(place) => match (options.get(place).and_then(Word::known), options.get(place + 1).and_then(Word::known)) {
            (Some("-I"), Some(mark)) => Some(mark.to_owned()),
            (Some("-i" | "--replace"), _) => Some("{}".to_owned()),
            (Some(glued), _) => match glued.strip_prefix("-I").or_else(|| glued.strip_prefix("--replace=")) {
                Some(mark) if !mark.is_empty() => Some(mark.to_owned()),
                _ => return NOT_LITERAL.into(),
            },
            _ => return NOT_LITERAL.into(),
        },
    };
    filled(words, at, words.len(), mark.as_deref())
}

/// A command whose words are filled up with others: at its end, and wherever the mark stands.
fn filled(words: &[Word], from: usize, to: usize, mark: Option<&str>) -> Look {
    let Some(command) = words.get(from..to).filter(|command| !command.is_empty()) else {
        return Kind::Plain.into();
    };
    let mut inner = command.to_vec();
    if let Some(mark) = mark {
        for word in inner.iter_mut().filter(|word| word.text.contains(mark)) {
            word.form = super::Form::Any;
            word.head.clear();
        }
    }
    inner.push(Word::anything("…"));
    Look::with(Kind::Carrier, from, Found::Words(inner))
}

fn parallel(words: &[Word]) -> Look {
    let valued = Options {
        short: "jnNLIadES",
        long: &["--jobs", "--max-args", "--arg-file", "--colsep", "--delimiter", "--delay", "--timeout", "--retries"],
    };
    let Some(at) = after_options(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let source = |word: &Word| matches!(word.known(), Some(":::" | ":::+" | "::::" | "::::+"));
    let end = words.iter().position(source).unwrap_or(words.len());
    if end <= at {
        return FROM_INPUT.into();
    }
    // Its words go through a shell once more.
    let Some(known) = words.get(at..end).unwrap_or_default().iter().map(Word::known).collect::<Option<Vec<_>>>() else {
        return NOT_LITERAL.into();
    };
    if known.iter().any(|word| word.contains(|c: char| c.is_whitespace() || "$`;&|<>()\\\"'".contains(c))) {
        let kind = Kind::Runner("its words go through a shell once more");
        return joined(words.get(..end).unwrap_or_default(), at, kind);
    }
    if words.get(1..at).unwrap_or_default().iter().any(|word| letters(word).contains('I')) {
        return NOT_LITERAL.into();
    }
    filled(words, at, end, Some("{"))
}

fn find(words: &[Word]) -> Look {
    let mut look = Look::from(Kind::Plain);
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match word.known() {
            Some("-exec" | "-execdir" | "-ok" | "-okdir") => {
                let rest = words.get(at + 1..).unwrap_or_default();
                let ends = |word: &Word| matches!(word.known(), Some(";" | "+"));
                let end = at + 1 + rest.iter().position(ends).unwrap_or(rest.len());
                let mut inner = words.get(at + 1..end).unwrap_or_default().to_vec();
                for word in inner.iter_mut().filter(|word| word.text.contains("{}")) {
                    word.form = super::Form::Any;
                    word.head.clear();
                }
                look.inner.push((at + 1, Found::Words(inner)));
                at = end;
            }
            Some("-delete") => look.kind = Kind::Runner("it deletes files"),
            Some("-fprint" | "-fprint0" | "-fprintf" | "-fls") => look.kind = Kind::Runner("it writes a file"),
            Some("-files0-from") => look.kind = NOT_LITERAL,
            None if word.may_be_option() => look.kind = Kind::Runner(runners::UNSEEN_OPTIONS),
            _ => {}
        }
        at += 1;
    }
    look
}

fn fd(words: &[Word]) -> Look {
    let runs =
        |word: &Word| matches!(word.text.as_str(), "--exec" | "--exec-batch") || letters(word).contains(['x', 'X']);
    match words.iter().position(runs) {
        Some(at) => Look { kind: Kind::Plain, ..filled(words, at + 1, words.len(), Some("{")) },
        None if words.iter().any(|word| !word.is_literal() && word.may_be_option()) => {
            Kind::Runner(runners::UNSEEN_OPTIONS).into()
        }
        None if words.iter().any(|word| word.text.starts_with("--exec")) => NOT_LITERAL.into(),
        None => Kind::Plain.into(),
    }
}

fn trap(words: &[Word]) -> Look {
    let first = if words.get(1).and_then(Word::known) == Some("--") { 2 } else { 1 };
    match words.get(first).map(Word::known) {
        None => Kind::Plain.into(),
        Some(None) => NOT_LITERAL.into(),
        Some(Some("-" | "" | "-l" | "-p")) => Kind::Plain.into(),
        Some(Some(_)) if words.len() == first + 1 => Kind::Plain.into(),
        Some(Some(script)) => Look::with(Kind::Carrier, first, Found::Script(script.to_owned())),
    }
}

/// An alias gives a name another meaning for all that follows.
fn alias(words: &[Word]) -> Look {
    let mut look = Look::from(Kind::Plain);
    for (at, word) in words.iter().enumerate().skip(1) {
        let defined = word.text.split_once('=').map(|(_, value)| value);
        if let Some(value) = defined {
            look.kind = Kind::Hidden("an alias changes what later commands are");
            look.inner.extend(word.is_literal().then(|| (at, Found::Script(value.to_owned()))));
        } else if !word.is_literal() {
            look.kind = NOT_LITERAL;
        }
    }
    look
}

fn declaration(words: &[Word]) -> Look {
    let mut look = Look::from(runners::kind("declare", words));
    for word in words.iter().skip(1) {
        match sets_variable(word) {
            Some(name) => look.variables.push(name),
            None if !word.is_literal() => look.kind = NOT_LITERAL,
            None => {}
        }
    }
    look
}
