//! Programs that run others, or write, by an option. A rule for their first words does not mean that.

use super::super::Form;
use super::options::letters;
use super::{Kind, Word};

pub(crate) const UNSEEN_OPTIONS: &str = "its options are not written out, and some of them run programs";
const RUNS: &str = "an option of it runs another program";
const STARTS: &str = "it starts other programs";
const EVALUATES: &str = "it evaluates its words once more";

/// Programs whose purpose is to start others, in ways that are not looked into.
const STARTERS: [&str; 34] = [
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

/// Options that run a program, by the program that has them: letters of short options, and long options.
const BY_OPTION: [(&str, &str, &[&str]); 22] = [
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
    // Another manifest or configuration names other programs to run.
    ("cargo", "ZC", &["--config", "--manifest-path", "--fix"]),
    ("make", "f", &["--eval", "--file", "--makefile"]),
];

/// How a command has to be judged that carries no other one in plain sight.
pub(super) fn kind(name: &str, words: &[Word]) -> Kind {
    let arguments = words.get(1..).unwrap_or_default();
    if STARTERS.contains(&name) {
        return Kind::Runner(STARTS);
    }
    if let Some((_, short, long)) = BY_OPTION.iter().find(|(program, ..)| *program == name) {
        return by_option(arguments, short, long);
    }
    match name {
        "git" => git(arguments),
        "awk" | "gawk" | "mawk" | "nawk" => awk(arguments),
        "sed" | "gsed" => sed(arguments),
        "bind" | "complete" | "compgen" | "enable" | "hash" | "fc" | "history" => {
            if arguments.is_empty() {
                Kind::Plain
            } else {
                Kind::Runner(RUNS)
            }
        }
        "printf" if !is_plain_printf(arguments) => {
            let subscript = |word: &Word| word.text.contains('[') && word.text.contains(['$', '`']);
            let evaluates = |word: &&Word| word.is_literal() && subscript(word);
            if arguments.iter().any(|word| evaluates(&word)) {
                Kind::Hidden(EVALUATES)
            } else {
                Kind::Runner("it may set a variable")
            }
        }
        "test" | "[" if computes(arguments) => Kind::Hidden(EVALUATES),
        // A subscript in a variable's name is evaluated.
        "read" | "unset" | "test" | "[" | "wait" | "getopts" | "declare" => {
            let names_variable = matches!(name, "read" | "unset" | "declare" | "getopts")
                || arguments.iter().any(|word| letters(word).starts_with(['v', 'p', 'R']));
            let subscript = |word: &Word| word.text.contains('[') && word.text.contains(['$', '`']);
            if names_variable && arguments.iter().any(subscript) { Kind::Hidden(EVALUATES) } else { Kind::Plain }
        }
        _ => Kind::Plain,
    }
}

fn by_option(arguments: &[Word], short: &str, long: &[&str]) -> Kind {
    for word in arguments {
        if !word.is_literal() && word.may_be_option() {
            return Kind::Runner(UNSEEN_OPTIONS);
        }
        if is_long(word, long) || letters(word).contains(|letter| short.contains(letter)) {
            return Kind::Runner(RUNS);
        }
    }
    // `tar Icf …`: the first word of tar may be a bundle without its hyphen.
    let bundle = short == "IF"
        && arguments.first().is_some_and(|word| word.text.contains(['I', 'F']) && !word.text.contains('.'));
    if bundle { Kind::Runner(RUNS) } else { Kind::Plain }
}

/// Is the word one of these long options, perhaps cut short?
fn is_long(word: &Word, long: &[&str]) -> bool {
    let name = word.head.split('=').next().unwrap_or_default();
    name.len() > 3 && name.starts_with("--") && long.iter().any(|option| option.starts_with(name) || *option == name)
}

/// Git runs programs by its configuration, and configuration can be given on the command line.
fn git(arguments: &[Word]) -> Kind {
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
        let before = at.checked_sub(1).and_then(|before| arguments.get(before)).and_then(Word::known);
        matches!(before, Some("-m" | "-am" | "--message"))
    };
    let unseen = |(at, word): (usize, &Word)| {
        let value = word.form == Form::One && is_message(at);
        !word.is_literal() && word.may_be_option() && !value
    };
    if arguments.iter().enumerate().any(unseen) {
        return Kind::Runner(UNSEEN_OPTIONS);
    }
    let mut at = 0;
    while let Some(option) = arguments.get(at).map(|word| word.head.as_str()).filter(|text| text.starts_with('-')) {
        if option.starts_with("-c") || option.starts_with("--config") || option.starts_with("--exec") {
            return Kind::Runner(RUNS);
        }
        at += if matches!(option, "-C" | "--git-dir" | "--work-tree" | "--namespace") { 2 } else { 1 };
    }
    let command = arguments.get(at).map(|word| word.head.as_str()).unwrap_or_default();
    let rest = arguments.get(at + 1..).unwrap_or_default();
    let has = |letter: char| rest.iter().any(|word| letters(word).contains(letter));
    let first = rest.first().map(|word| word.head.as_str()).unwrap_or_default();
    let runs = match command {
        "filter-branch" | "mergetool" | "difftool" | "daemon" | "send-email" | "instaweb" | "hook" => true,
        "bisect" => first == "run",
        "submodule" => rest.iter().any(|word| word.head == "foreach"),
        "rebase" => has('x'),
        "grep" => has('O'),
        "clone" | "fetch" | "pull" | "ls-remote" => has('u') && command != "pull" || has('c') && command == "clone",
        "config" => {
            let reads = |word: &Word| {
                matches!(word.known(), Some("--list" | "-l" | "list" | "get")) || word.head.starts_with("--get")
            };
            !rest.iter().any(reads)
        }
        _ => false,
    };
    let transport = rest.iter().any(|word| word.text.contains("ext::"));
    if runs || transport || rest.iter().any(|word| is_long(word, &LONG)) { Kind::Runner(RUNS) } else { Kind::Plain }
}

/// A program for awk can run others and write files; so can one in a file.
fn awk(arguments: &[Word]) -> Kind {
    let telling = ["system", "getline", "|", ">", "@", "close("];
    let tells = |word: &Word| {
        !word.is_literal()
            || telling.iter().any(|mark| word.text.contains(mark))
            || letters(word).contains(['f', 'E', 'i', 'l', 'e'])
            || word.text.starts_with("--")
    };
    if arguments.iter().any(tells) { Kind::Runner("a program for awk can run others") } else { Kind::Plain }
}

/// Is `printf` given a format that is written out and that neither sets a variable (`%n`, `-v`) nor computes with anything but
/// numbers? To some shells, a word for a number is an expression.
pub(crate) fn is_plain_printf(arguments: &[Word]) -> bool {
    let arguments = match arguments.split_first() {
        Some((first, rest)) if first.known() == Some("--") => rest,
        _ => arguments,
    };
    let Some((format, values)) = arguments.split_first() else { return true };
    let Some(format) = format.known().filter(|text| !text.starts_with('-')) else { return false };
    let mut numbers = Vec::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        match c {
            // Other escapes mean different things to different shells.
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
    // The format is used again until no value is left.
    values.iter().zip(numbers.iter().cycle()).all(|(value, number)| !number || is_number(value))
}

fn is_number(word: &Word) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    word.known().map_or(word.text == "$?", |text| text.chars().all(is_digit))
}

/// Does a comparison of numbers have an operand that is written out and no number? To some shells it is an expression.
pub(crate) fn computes(arguments: &[Word]) -> bool {
    let compares = |word: &Word| matches!(word.known(), Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge"));
    let at = |place: Option<usize>| place.and_then(|place| arguments.get(place));
    let odd = |word: Option<&Word>| word.is_some_and(|word| word.is_literal() && !is_number(word));
    arguments.iter().enumerate().any(|(place, word)| {
        let around = compares(word) && (odd(at(place.checked_sub(1))) || odd(at(place.checked_add(1))));
        around || (word.known() == Some("-t") && odd(at(place.checked_add(1)).filter(|next| next.text != "]")))
    })
}

/// A script for sed can run programs and write files, by flags that hide well. Only plain ones are taken for harmless.
fn sed(arguments: &[Word]) -> Kind {
    const WHY: &str = "a script for sed can run programs and write files";
    let mut script_seen = false;
    let mut next_is_script = false;
    for word in arguments {
        let Some(text) = word.known() else {
            if word.may_be_option() || !script_seen {
                return Kind::Runner(WHY);
            }
            continue;
        };
        if next_is_script || (!script_seen && !text.starts_with('-')) {
            if !is_plain_sed(text) {
                return Kind::Runner(WHY);
            }
            (script_seen, next_is_script) = (true, false);
        } else if text.starts_with('-') {
            match text {
                "-n" | "-E" | "-r" | "-u" | "-s" | "-z" | "--quiet" | "--silent" | "--regexp-extended"
                | "--null-data" => {}
                "-e" | "-ne" | "-Ee" | "-nE" if text.ends_with('e') => next_is_script = true,
                "-nE" | "-En" | "-nr" => {}
                "-i" | "--in-place" => return Kind::Runner("it changes files in place"),
                _ => return Kind::Runner(WHY),
            }
        }
    }
    Kind::Plain
}

/// `5p`, `1,20p`, `/a/d`, `$d` and single `s///` commands without special flags.
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
    // Addresses without a delimiter within them, then one command.
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
