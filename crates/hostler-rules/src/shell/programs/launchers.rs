//! Programs that run others, or write, by an option. A rule for their first words does not cover that.

use super::super::WordForm;
use super::options::short_option_letters;
use super::{CommandKind, ShellWord};

pub(crate) const NON_LITERAL_OPTIONS: &str = "its options are only known at run time, and some options run programs";
const OPTION_RUNS_PROGRAM: &str = "one of its options runs another program";
const STARTS_PROGRAMS: &str = "it runs other programs";
const REEVALUATES_WORDS: &str = "it evaluates its arguments again";

/// Programs whose purpose is to start others, in ways that are not analyzed.
const LAUNCHERS: [&str; 34] = [
    "at",
    "batch",
    "bwrap",
    "chroot",
    "crontab",
    "dbus-run-session",
    "entr",
    "expect",
    "fakeroot",
    "firejail",
    "flock",
    "gdb",
    "ifne",
    "ltrace",
    "mosh",
    "nsenter",
    "osascript",
    "proot",
    "rsh",
    "run-parts",
    "screen",
    "script",
    "setpriv",
    "socat",
    "ssh",
    "start-stop-daemon",
    "strace",
    "systemd-run",
    "tmux",
    "unbuffer",
    "unshare",
    "vagrant",
    "xvfb-run",
    "zpty",
];

/// Options that run a program, by program: letters of short options, and long options.
const LAUNCHING_OPTIONS: [(&str, &str, &[&str]); 22] = [
    (
        "tar",
        "IF",
        &[
            "--to-command",
            "--use-compress-program",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
        ],
    ),
    ("bsdtar", "", &["--use-compress-program"]),
    ("rsync", "e", &["--rsh", "--rsync-path"]),
    ("scp", "So", &[]),
    ("sftp", "So", &[]),
    ("zip", "T", &["--test", "--unzip-command"]),
    ("sort", "", &["--compress-program"]),
    ("split", "", &["--filter"]),
    ("man", "PHC", &["--pager", "--html", "--config-file"]),
    ("rg", "", &["--pre", "--hostname-bin"]),
    ("ag", "", &["--pager"]),
    ("less", "kopO", &["--lesskey-file", "--lesskey-src", "--log-file"]),
    ("vim", "cSsuw", &["--cmd"]),
    ("vi", "cSsuw", &["--cmd"]),
    ("nvim", "cSsuwl", &["--cmd"]),
    ("emacs", "lf", &["--eval", "--load", "--funcall", "--execute", "--script"]),
    ("nc", "ec", &["--exec", "--sh-exec", "--lua-exec"]),
    ("ncat", "ec", &["--exec", "--sh-exec", "--lua-exec"]),
    ("mapfile", "C", &[]),
    ("readarray", "C", &[]),
    // Another manifest or configuration can name other programs to run.
    ("cargo", "ZC", &["--config", "--manifest-path", "--fix"]),
    ("make", "f", &["--eval", "--file", "--makefile"]),
];

/// Classifies a command that is not a wrapper.
pub(super) fn classify_program(name: &str, words: &[ShellWord]) -> CommandKind {
    let arguments = words.get(1..).unwrap_or_default();
    if LAUNCHERS.contains(&name) {
        return CommandKind::Launcher(STARTS_PROGRAMS);
    }
    if let Some((_, short, long)) = LAUNCHING_OPTIONS.iter().find(|(program, ..)| *program == name) {
        return classify_by_option(arguments, short, long);
    }
    match name {
        "git" => classify_git(arguments),
        "awk" | "gawk" | "mawk" | "nawk" => classify_awk(arguments),
        "sed" | "gsed" => classify_sed(arguments),
        "bind" | "complete" | "compgen" | "enable" | "hash" | "fc" | "history" => {
            if arguments.is_empty() {
                CommandKind::Plain
            } else {
                CommandKind::Launcher(OPTION_RUNS_PROGRAM)
            }
        }
        "printf" if !is_plain_printf(arguments) => {
            let subscript = |word: &ShellWord| word.text.contains('[') && word.text.contains(['$', '`']);
            let evaluates = |word: &&ShellWord| word.is_literal() && subscript(word);
            if arguments.iter().any(|word| evaluates(&word)) {
                CommandKind::Unanalyzable(REEVALUATES_WORDS)
            } else {
                CommandKind::Launcher("it may set a variable")
            }
        }
        "test" | "[" if has_non_numeric_comparison(arguments) => CommandKind::Unanalyzable(REEVALUATES_WORDS),
        // The shell evaluates a subscript in a variable's name.
        "read" | "unset" | "test" | "[" | "wait" | "getopts" | "declare" => {
            let names_variable = matches!(name, "read" | "unset" | "declare" | "getopts")
                || arguments.iter().any(|word| short_option_letters(word).starts_with(['v', 'p', 'R']));
            let subscript = |word: &ShellWord| word.text.contains('[') && word.text.contains(['$', '`']);
            if names_variable && arguments.iter().any(subscript) {
                CommandKind::Unanalyzable(REEVALUATES_WORDS)
            } else {
                CommandKind::Plain
            }
        }
        _ => CommandKind::Plain,
    }
}

fn classify_by_option(arguments: &[ShellWord], short: &str, long: &[&str]) -> CommandKind {
    for word in arguments {
        if !word.is_literal() && word.may_be_option() {
            return CommandKind::Launcher(NON_LITERAL_OPTIONS);
        }
        if is_long_option(word, long) || short_option_letters(word).contains(|letter| short.contains(letter)) {
            return CommandKind::Launcher(OPTION_RUNS_PROGRAM);
        }
    }
    // `tar Icf …`: the first word of tar may be a bundle without a hyphen.
    let bundle = short == "IF"
        && arguments.first().is_some_and(|word| word.text.contains(['I', 'F']) && !word.text.contains('.'));
    if bundle { CommandKind::Launcher(OPTION_RUNS_PROGRAM) } else { CommandKind::Plain }
}

/// Is the word one of these long options, possibly abbreviated?
fn is_long_option(word: &ShellWord, long: &[&str]) -> bool {
    let name = word.known_prefix.split('=').next().unwrap_or_default();
    name.len() > 3 && name.starts_with("--") && long.iter().any(|option| option.starts_with(name) || *option == name)
}

/// Git runs programs that its configuration names, and options can set configuration.
fn classify_git(arguments: &[ShellWord]) -> CommandKind {
    const LONG: [&str; 9] = [
        "--config-env",
        "--exec-path",
        "--upload-pack",
        "--receive-pack",
        "--exec",
        "--extcmd",
        "--open-files-in-pager",
        "--ext-diff",
        "--textconv",
    ];
    let is_message = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| arguments.get(before)).and_then(ShellWord::as_literal);
        matches!(before, Some("-m" | "-am" | "--message"))
    };
    let unseen = |(at, word): (usize, &ShellWord)| {
        let value = word.form == WordForm::SingleWord && is_message(at);
        !word.is_literal() && word.may_be_option() && !value
    };
    if arguments.iter().enumerate().any(unseen) {
        return CommandKind::Launcher(NON_LITERAL_OPTIONS);
    }
    let mut at = 0;
    while let Some(option) =
        arguments.get(at).map(|word| word.known_prefix.as_str()).filter(|text| text.starts_with('-'))
    {
        if option.starts_with("-c") || option.starts_with("--config") || option.starts_with("--exec") {
            return CommandKind::Launcher(OPTION_RUNS_PROGRAM);
        }
        at += if matches!(option, "-C" | "--git-dir" | "--work-tree" | "--namespace") { 2 } else { 1 };
    }
    let command = arguments.get(at).map(|word| word.known_prefix.as_str()).unwrap_or_default();
    let rest = arguments.get(at + 1..).unwrap_or_default();
    let has = |letter: char| rest.iter().any(|word| short_option_letters(word).contains(letter));
    let first = rest.first().map(|word| word.known_prefix.as_str()).unwrap_or_default();
    let runs = match command {
        "filter-branch" | "mergetool" | "difftool" | "daemon" | "send-email" | "instaweb" | "hook" => true,
        "bisect" => first == "run",
        "submodule" => rest.iter().any(|word| word.known_prefix == "foreach"),
        "rebase" => has('x'),
        "grep" => has('O'),
        "clone" | "fetch" | "pull" | "ls-remote" => has('u') && command != "pull" || has('c') && command == "clone",
        "config" => {
            let reads = |word: &ShellWord| {
                matches!(word.as_literal(), Some("--list" | "-l" | "list" | "get"))
                    || word.known_prefix.starts_with("--get")
            };
            !rest.iter().any(reads)
        }
        _ => false,
    };
    let transport = rest.iter().any(|word| word.text.contains("ext::"));
    if runs || transport || rest.iter().any(|word| is_long_option(word, &LONG)) {
        CommandKind::Launcher(OPTION_RUNS_PROGRAM)
    } else {
        CommandKind::Plain
    }
}

/// An awk program can run other programs and write files, and so can one in a file.
fn classify_awk(arguments: &[ShellWord]) -> CommandKind {
    let unsafe_marks = ["system", "getline", "|", ">", "@", "close("];
    let is_unsafe = |word: &ShellWord| {
        !word.is_literal()
            || unsafe_marks.iter().any(|mark| word.text.contains(mark))
            || short_option_letters(word).contains(['f', 'E', 'i', 'l', 'e'])
            || word.text.starts_with("--")
    };
    if arguments.iter().any(is_unsafe) {
        CommandKind::Launcher("an awk program can run other programs")
    } else {
        CommandKind::Plain
    }
}

/// Does `printf` have a literal format that neither sets a variable (`%n`, `-v`) nor evaluates anything but numbers?
/// Some shells evaluate a numeric argument as an expression.
pub(crate) fn is_plain_printf(arguments: &[ShellWord]) -> bool {
    let arguments = match arguments.split_first() {
        Some((first, rest)) if first.as_literal() == Some("--") => rest,
        _ => arguments,
    };
    let Some((format, values)) = arguments.split_first() else { return true };
    let Some(format) = format.as_literal().filter(|text| !text.starts_with('-')) else { return false };
    let mut numbers = Vec::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        match c {
            // Shells differ in other escapes.
            '\\' if chars.next().is_none_or(|c| !"abefnrtv\\\"'01234567".contains(c)) => return false,
            '%' => {
                let mut is_flag = |c: &char| {
                    numbers.extend((*c == '*').then_some(true));
                    c.is_ascii_digit() || "*.-+ #".contains(*c)
                };
                match chars.by_ref().find(|c| !is_flag(c)) {
                    Some('%') => {}
                    Some('s' | 'b' | 'q' | 'c') => numbers.push(false),
                    Some('d' | 'i' | 'u' | 'o' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G') => numbers.push(true),
                    _ => return false,
                }
            }
            _ => {}
        }
    }
    // The format is reused until all values are consumed.
    values.iter().zip(numbers.iter().cycle()).all(|(value, number)| !number || is_number(value))
}

fn is_number(word: &ShellWord) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    word.as_literal().map_or(word.text == "$?", |text| text.chars().all(is_digit))
}

/// Does a numeric comparison have a literal operand that is not a number? Some shells evaluate it as an expression.
pub(crate) fn has_non_numeric_comparison(arguments: &[ShellWord]) -> bool {
    let compares = |word: &ShellWord| matches!(word.as_literal(), Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge"));
    let at = |place: Option<usize>| place.and_then(|place| arguments.get(place));
    let odd = |word: Option<&ShellWord>| word.is_some_and(|word| word.is_literal() && !is_number(word));
    arguments.iter().enumerate().any(|(place, word)| {
        let around = compares(word) && (odd(at(place.checked_sub(1))) || odd(at(place.checked_add(1))));
        around || (word.as_literal() == Some("-t") && odd(at(place.checked_add(1)).filter(|next| next.text != "]")))
    })
}

/// A sed script can run programs and write files, by flags that are easily overlooked. Only plain scripts are
/// considered harmless.
fn classify_sed(arguments: &[ShellWord]) -> CommandKind {
    const WHY: &str = "a sed script can run programs and write files";
    let mut script_seen = false;
    let mut next_is_script = false;
    for word in arguments {
        let Some(text) = word.as_literal() else {
            if word.may_be_option() || !script_seen {
                return CommandKind::Launcher(WHY);
            }
            continue;
        };
        if next_is_script || (!script_seen && !text.starts_with('-')) {
            if !is_plain_sed(text) {
                return CommandKind::Launcher(WHY);
            }
            (script_seen, next_is_script) = (true, false);
        } else if text.starts_with('-') {
            match text {
                "-n" | "-E" | "-r" | "-u" | "-s" | "-z" | "--quiet" | "--silent" | "--regexp-extended"
                | "--null-data" => {}
                "-e" | "-ne" | "-Ee" | "-nE" if text.ends_with('e') => next_is_script = true,
                "-nE" | "-En" | "-nr" => {}
                "-i" | "--in-place" => return CommandKind::Launcher("it edits files in place"),
                _ => return CommandKind::Launcher(WHY),
            }
        }
    }
    CommandKind::Plain
}

/// Is the script `5p`, `1,20p`, `/a/d`, `$d` or a single `s///` command without special flags?
pub(crate) fn is_plain_sed(script: &str) -> bool {
    if script.contains(['\n', '{', '}']) {
        return false;
    }
    let mut chars = script.chars().peekable();
    if matches!(chars.peek(), Some('s')) {
        chars.next();
        let Some(delimiter) = chars.next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace() && *c != '\\') else {
            return false;
        };
        let (mut parts, mut escaped) = (0, false);
        for c in chars.by_ref() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if c == delimiter => parts += 1,
                _ => {}
            }
            if parts == 2 {
                break;
            }
        }
        return parts == 2 && chars.all(|flag| flag.is_ascii_digit() || matches!(flag, 'g' | 'p' | 'i' | 'I'));
    }
    // Addresses that do not contain a delimiter, then one command.
    let Some(command) = script.chars().last().filter(|c| matches!(c, 'p' | 'd' | 'q' | '=')) else {
        return false;
    };
    let addresses = script.strip_suffix(command).unwrap_or(script).trim_end_matches(['!', ' ']);
    addresses.is_empty() || addresses.split(',').all(is_plain_address)
}

fn is_plain_address(address: &str) -> bool {
    let number = address.trim_start_matches(['+', '~']);
    if address == "$" || (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit())) {
        return true;
    }
    let inner = address.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
    inner.is_some_and(|pattern| !pattern.contains(['/', '\\', ';']))
}
