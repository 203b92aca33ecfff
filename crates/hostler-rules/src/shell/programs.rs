//! Programs that run other programs. Wrappers run a command (`sudo`, `xargs`, `timeout`), others take one as text
//! (`sh -c`, `eval`), and launchers run one by an option that is easily overlooked (`git -c core.pager=…`,
//! `tar --to-command`). For the first two kinds the nested command is checked; the third kind is marked.

mod launchers;
mod options;

use super::{CommandKind, ShellWord, base_name};
pub(crate) use launchers::{NON_LITERAL_OPTIONS, has_non_numeric_comparison, is_plain_printf, is_plain_sed};

use options::{OptionsWithValue, assigned_variable, find_first_operand, short_option_letters};

/// The analysis of a command's words.
pub(super) struct ProgramAnalysis {
    pub kind: CommandKind,
    /// Nested commands, and the word at which each begins.
    pub nested: Vec<(usize, NestedSource)>,
    /// Variables that it sets, for itself or for the commands that it runs.
    pub variables: Vec<String>,
    /// Whether it changes the shell's directory.
    pub changes_directory: bool,
}

/// A command within a command.
pub(super) enum NestedSource {
    Words(Vec<ShellWord>),
    Script(String),
}

impl From<CommandKind> for ProgramAnalysis {
    fn from(kind: CommandKind) -> Self {
        Self { kind, nested: Vec::new(), variables: Vec::new(), changes_directory: false }
    }
}

impl ProgramAnalysis {
    fn with_nested(kind: CommandKind, reach: usize, found: NestedSource) -> Self {
        Self { nested: vec![(reach, found)], ..Self::from(kind) }
    }
}

const NOT_LITERAL: CommandKind = CommandKind::Unanalyzable("the command that it runs is only known at run time");
const RUNS_STDIN: CommandKind = CommandKind::Unanalyzable("it runs commands from its input");

/// Wrappers with simple options: the options that take a value, and the number of operands before the command.
const WRAPPERS: [(&str, OptionsWithValue, usize); 14] = [
    ("nice", OptionsWithValue { short: "n", long: &["--adjustment"] }, 0),
    ("nohup", OptionsWithValue::NONE, 0),
    ("timeout", OptionsWithValue { short: "ks", long: &["--kill-after", "--signal"] }, 1),
    ("stdbuf", OptionsWithValue { short: "ioe", long: &["--input", "--output", "--error"] }, 0),
    ("setsid", OptionsWithValue::NONE, 0),
    ("ionice", OptionsWithValue { short: "cn", long: &["--class", "--classdata"] }, 0),
    ("chrt", OptionsWithValue::NONE, 1),
    ("taskset", OptionsWithValue::NONE, 1),
    ("builtin", OptionsWithValue::NONE, 0),
    ("noglob", OptionsWithValue::NONE, 0),
    ("nocorrect", OptionsWithValue::NONE, 0),
    ("repeat", OptionsWithValue::NONE, 1),
    ("busybox", OptionsWithValue::NONE, 0),
    ("toybox", OptionsWithValue::NONE, 0),
];

/// Analyzes a command: which commands does it run?
pub(super) fn analyze_program(words: &[ShellWord]) -> ProgramAnalysis {
    let Some(name) = words.first().and_then(ShellWord::as_literal) else {
        return NOT_LITERAL.into();
    };
    let name = base_name(name);
    if name.is_empty() {
        return CommandKind::Unanalyzable("it has no command name").into();
    }
    if let Some((_, options, own)) = WRAPPERS.iter().find(|(carrier, ..)| *carrier == name) {
        return analyze_wrapper(words, options, *own);
    }
    match name {
        "-" => analyze_wrapped(words, 1, CommandKind::Wrapper),
        "command" => match words.get(1).and_then(ShellWord::as_literal) {
            Some("-v" | "-V") => CommandKind::Plain.into(),
            _ => analyze_wrapper(words, &OptionsWithValue::NONE, 0),
        },
        "exec" if words.len() == 1 => CommandKind::Plain.into(),
        "exec" => analyze_wrapper(words, &OptionsWithValue { short: "a", long: &[] }, 0),
        // The keyword `time` is not a word, so this is the program, which can write its report to a file.
        "time" => match find_first_operand(words, &OptionsWithValue { short: "fo", long: &["--format", "--output"] }) {
            Some(at) if !has_short_option(words.get(1..at), 'o') => analyze_wrapped(words, at, CommandKind::Wrapper),
            _ => CommandKind::Launcher("it writes a file").into(),
        },
        "env" => analyze_env(words),
        "sudo" | "doas" | "pkexec" => analyze_sudo(words),
        "su" | "runuser" => analyze_su(words),
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "mksh" | "ash" | "rbash" | "fish" => analyze_shell(words),
        "eval" => analyze_joined_words(words, 1, CommandKind::Wrapper),
        "watch" => {
            let valued = OptionsWithValue { short: "nq", long: &["--interval", "--equexit"] };
            find_first_operand(words, &valued)
                .map_or(NOT_LITERAL.into(), |at| analyze_joined_words(words, at, CommandKind::Wrapper))
        }
        "xargs" => analyze_xargs(words),
        "parallel" => analyze_parallel(words),
        "find" | "gfind" => analyze_find(words),
        "fd" | "fdfind" => analyze_fd(words),
        "trap" => analyze_trap(words),
        "alias" => analyze_alias(words),
        "." | "source" => CommandKind::Unanalyzable("it runs commands from a file").into(),
        "let" => CommandKind::Unanalyzable("it evaluates variables as arithmetic, which can run commands").into(),
        "export" | "declare" | "typeset" | "local" | "readonly" => analyze_declaration(words),
        "cd" | "pushd" | "popd" => ProgramAnalysis { changes_directory: true, ..CommandKind::Plain.into() },
        _ => launchers::classify_program(name, words).into(),
    }
}

fn has_short_option(words: Option<&[ShellWord]>, letter: char) -> bool {
    words
        .unwrap_or_default()
        .iter()
        .any(|word| short_option_letters(word).contains(letter) || word.text.starts_with("--o"))
}

/// Treats the words from `at` on as a command.
fn analyze_wrapped(words: &[ShellWord], at: usize, kind: CommandKind) -> ProgramAnalysis {
    match words.get(at..) {
        Some(rest) if !rest.is_empty() => ProgramAnalysis::with_nested(kind, at, NestedSource::Words(rest.to_vec())),
        _ => CommandKind::Plain.into(),
    }
}

fn analyze_wrapper(words: &[ShellWord], options: &OptionsWithValue, own: usize) -> ProgramAnalysis {
    match find_first_operand(words, options) {
        Some(at) => analyze_wrapped(words, at + own, CommandKind::Wrapper),
        None => NOT_LITERAL.into(),
    }
}

/// Joins the words from `at` on to a command line, as `eval` and `watch` do.
fn analyze_joined_words(words: &[ShellWord], at: usize, kind: CommandKind) -> ProgramAnalysis {
    let rest = words.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return CommandKind::Plain.into();
    }
    match rest.iter().map(ShellWord::as_literal).collect::<Option<Vec<_>>>() {
        Some(known) => ProgramAnalysis::with_nested(kind, at, NestedSource::Script(known.join(" "))),
        None => NOT_LITERAL.into(),
    }
}

fn analyze_env(words: &[ShellWord]) -> ProgramAnalysis {
    let valued = OptionsWithValue { short: "uCS", long: &["--unset", "--chdir", "--split-string"] };
    let Some(mut at) = find_first_operand(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let options = words.get(1..at).unwrap_or_default();
    let splits = |word: &ShellWord| short_option_letters(word).contains('S') || word.text.starts_with("--s");
    if options.iter().any(splits) {
        return CommandKind::Unanalyzable("`env` splits one of its arguments into a command").into();
    }
    let mut variables = Vec::new();
    while let Some(name) = words.get(at).and_then(assigned_variable) {
        variables.push(name);
        at += 1;
    }
    if words.get(at).is_some_and(|word| !word.is_literal()) {
        return NOT_LITERAL.into();
    }
    ProgramAnalysis { variables, ..analyze_wrapped(words, at, CommandKind::Wrapper) }
}

/// `sudo` needs a rule of its own, because another user's permissions are more than the command alone.
fn analyze_sudo(words: &[ShellWord]) -> ProgramAnalysis {
    let valued = OptionsWithValue {
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
    let Some(mut at) = find_first_operand(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let options = words.get(1..at).unwrap_or_default();
    let is = |letter: char, long: &str| {
        options.iter().any(|word| short_option_letters(word).contains(letter) || word.text.starts_with(long))
    };
    if is('e', "--edit") {
        return CommandKind::Launcher("it edits a file as another user").into();
    }
    if is('s', "--shell") || is('i', "--login") {
        return CommandKind::Launcher("it starts a shell as another user").into();
    }
    let mut variables = Vec::new();
    while let Some(name) = words.get(at).and_then(assigned_variable) {
        variables.push(name);
        at += 1;
    }
    ProgramAnalysis { variables, ..analyze_wrapped(words, at, CommandKind::Plain) }
}

fn analyze_su(words: &[ShellWord]) -> ProgramAnalysis {
    let after = |at: usize| words.get(at + 1).map(|script| (at + 1, script));
    let script = words.iter().position(|word| matches!(word.as_literal(), Some("-c" | "--command"))).and_then(after);
    match script {
        Some((reach, script)) => match script.as_literal() {
            Some(text) => ProgramAnalysis::with_nested(
                CommandKind::Launcher("it runs as another user"),
                reach,
                NestedSource::Script(text.to_owned()),
            ),
            None => NOT_LITERAL.into(),
        },
        None => RUNS_STDIN.into(),
    }
}

fn analyze_shell(words: &[ShellWord]) -> ProgramAnalysis {
    let valued = OptionsWithValue { short: "oO", long: &["--rcfile", "--init-file"] };
    let Some(at) = find_first_operand(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let options = words.get(1..at).unwrap_or_default();
    if options.iter().any(|word| matches!(word.as_literal(), Some("--version" | "--help"))) {
        return CommandKind::Plain.into();
    }
    if options.iter().any(|word| word.text.starts_with("--rc") || word.text.starts_with("--init")) {
        return CommandKind::Unanalyzable("it runs commands from a file").into();
    }
    let is = |letter: char| options.iter().any(|word| short_option_letters(word).contains(letter));
    let operand = words.get(at);
    if is('c') || options.iter().any(|word| word.text.starts_with("--command")) {
        return match operand.map(ShellWord::as_literal) {
            Some(Some(script)) => {
                ProgramAnalysis::with_nested(CommandKind::Wrapper, at, NestedSource::Script(script.to_owned()))
            }
            _ => NOT_LITERAL.into(),
        };
    }
    match operand.map(ShellWord::as_literal) {
        // `+x` is an option as well.
        Some(Some(file)) if file.starts_with('+') => NOT_LITERAL.into(),
        Some(Some(file)) if !is('s') && file != "-" && !file.starts_with("/dev/") && !file.starts_with("/proc/") => {
            CommandKind::Plain.into()
        }
        _ => RUNS_STDIN.into(),
    }
}

fn analyze_xargs(words: &[ShellWord]) -> ProgramAnalysis {
    let valued = OptionsWithValue {
        short: "aEILnPsdJRS",
        long: &["--arg-file", "--delimiter", "--max-args", "--max-chars", "--max-procs", "--process-slot-var"],
    };
    let Some(at) = find_first_operand(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let options = words.get(1..at).unwrap_or_default();
    let marks =
        |word: &ShellWord| short_option_letters(word).contains(['I', 'i', 'J']) || word.text.starts_with("--rep");
    let mark = match options.iter().position(marks) {
        None => None,
        Some(place) => match (
            options.get(place).and_then(ShellWord::as_literal),
            options.get(place + 1).and_then(ShellWord::as_literal),
        ) {
            (Some("-I"), Some(mark)) => Some(mark.to_owned()),
            (Some("-i" | "--replace"), _) => Some("{}".to_owned()),
            (Some(glued), _) => match glued.strip_prefix("-I").or_else(|| glued.strip_prefix("--replace=")) {
                Some(mark) if !mark.is_empty() => Some(mark.to_owned()),
                _ => return NOT_LITERAL.into(),
            },
            _ => return NOT_LITERAL.into(),
        },
    };
    analyze_template(words, at, words.len(), mark.as_deref())
}

/// A command template that is filled with unknown words: at its end, and in each word that contains the mark.
fn analyze_template(words: &[ShellWord], from: usize, to: usize, mark: Option<&str>) -> ProgramAnalysis {
    let Some(command) = words.get(from..to).filter(|command| !command.is_empty()) else {
        return CommandKind::Plain.into();
    };
    let mut inner = command.to_vec();
    if let Some(mark) = mark {
        for word in inner.iter_mut().filter(|word| word.text.contains(mark)) {
            word.form = super::WordForm::AnyWords;
            word.known_prefix.clear();
        }
    }
    inner.push(ShellWord::any_words("…"));
    ProgramAnalysis::with_nested(CommandKind::Wrapper, from, NestedSource::Words(inner))
}

fn analyze_parallel(words: &[ShellWord]) -> ProgramAnalysis {
    let valued = OptionsWithValue {
        short: "jnNLIadES",
        long: &["--jobs", "--max-args", "--arg-file", "--colsep", "--delimiter", "--delay", "--timeout", "--retries"],
    };
    let Some(at) = find_first_operand(words, &valued) else {
        return NOT_LITERAL.into();
    };
    let source = |word: &ShellWord| matches!(word.as_literal(), Some(":::" | ":::+" | "::::" | "::::+"));
    let end = words.iter().position(source).unwrap_or(words.len());
    if end <= at {
        return RUNS_STDIN.into();
    }
    // A shell parses its words a second time.
    let Some(known) =
        words.get(at..end).unwrap_or_default().iter().map(ShellWord::as_literal).collect::<Option<Vec<_>>>()
    else {
        return NOT_LITERAL.into();
    };
    if known.iter().any(|word| word.contains(|c: char| c.is_whitespace() || "$`;&|<>()\\\"'".contains(c))) {
        let kind = CommandKind::Launcher("another shell evaluates its arguments");
        return analyze_joined_words(words.get(..end).unwrap_or_default(), at, kind);
    }
    if words.get(1..at).unwrap_or_default().iter().any(|word| short_option_letters(word).contains('I')) {
        return NOT_LITERAL.into();
    }
    analyze_template(words, at, end, Some("{"))
}

fn analyze_find(words: &[ShellWord]) -> ProgramAnalysis {
    let mut look = ProgramAnalysis::from(CommandKind::Plain);
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match word.as_literal() {
            Some("-exec" | "-execdir" | "-ok" | "-okdir") => {
                let rest = words.get(at + 1..).unwrap_or_default();
                let ends = |word: &ShellWord| matches!(word.as_literal(), Some(";" | "+"));
                let end = at + 1 + rest.iter().position(ends).unwrap_or(rest.len());
                let mut inner = words.get(at + 1..end).unwrap_or_default().to_vec();
                for word in inner.iter_mut().filter(|word| word.text.contains("{}")) {
                    word.form = super::WordForm::AnyWords;
                    word.known_prefix.clear();
                }
                look.nested.push((at + 1, NestedSource::Words(inner)));
                at = end;
            }
            Some("-delete") => look.kind = CommandKind::Launcher("it deletes files"),
            Some("-fprint" | "-fprint0" | "-fprintf" | "-fls") => look.kind = CommandKind::Launcher("it writes a file"),
            Some("-files0-from") => look.kind = NOT_LITERAL,
            None if word.may_be_option() => look.kind = CommandKind::Launcher(launchers::NON_LITERAL_OPTIONS),
            _ => {}
        }
        at += 1;
    }
    look
}

fn analyze_fd(words: &[ShellWord]) -> ProgramAnalysis {
    let runs = |word: &ShellWord| {
        matches!(word.text.as_str(), "--exec" | "--exec-batch") || short_option_letters(word).contains(['x', 'X'])
    };
    match words.iter().position(runs) {
        Some(at) => {
            ProgramAnalysis { kind: CommandKind::Plain, ..analyze_template(words, at + 1, words.len(), Some("{")) }
        }
        None if words.iter().any(|word| !word.is_literal() && word.may_be_option()) => {
            CommandKind::Launcher(launchers::NON_LITERAL_OPTIONS).into()
        }
        None if words.iter().any(|word| word.text.starts_with("--exec")) => NOT_LITERAL.into(),
        None => CommandKind::Plain.into(),
    }
}

fn analyze_trap(words: &[ShellWord]) -> ProgramAnalysis {
    let first = if words.get(1).and_then(ShellWord::as_literal) == Some("--") { 2 } else { 1 };
    match words.get(first).map(ShellWord::as_literal) {
        None => CommandKind::Plain.into(),
        Some(None) => NOT_LITERAL.into(),
        Some(Some("-" | "" | "-l" | "-p")) => CommandKind::Plain.into(),
        Some(Some(_)) if words.len() == first + 1 => CommandKind::Plain.into(),
        Some(Some(script)) => {
            ProgramAnalysis::with_nested(CommandKind::Wrapper, first, NestedSource::Script(script.to_owned()))
        }
    }
}

/// An alias changes the meaning of a name for everything that follows.
fn analyze_alias(words: &[ShellWord]) -> ProgramAnalysis {
    let mut look = ProgramAnalysis::from(CommandKind::Plain);
    for (at, word) in words.iter().enumerate().skip(1) {
        let defined = word.text.split_once('=').map(|(_, value)| value);
        if let Some(value) = defined {
            look.kind = CommandKind::Unanalyzable("an alias changes the meaning of later commands");
            look.nested.extend(word.is_literal().then(|| (at, NestedSource::Script(value.to_owned()))));
        } else if !word.is_literal() {
            look.kind = NOT_LITERAL;
        }
    }
    look
}

fn analyze_declaration(words: &[ShellWord]) -> ProgramAnalysis {
    let mut look = ProgramAnalysis::from(launchers::classify_program("declare", words));
    for word in words.iter().skip(1) {
        match assigned_variable(word) {
            Some(name) => look.variables.push(name),
            None if !word.is_literal() => look.kind = NOT_LITERAL,
            None => {}
        }
    }
    look
}
