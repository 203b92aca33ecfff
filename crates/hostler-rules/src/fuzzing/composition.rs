//! Composes command lines by a grammar: bytes select hostile commands and words, their spelling, and the wrappers,
//! pipes, redirections, substitutions, here-documents and functions around them.

use super::mutation::ByteChoices;

/// How deep commands are nested.
const MAX_DEPTH: usize = 4;

/// Commands that are not read-only, or read something that requires approval.
const HOSTILE_COMMANDS: [&[&str]; 22] = [
    &["touch", "made"],
    &["./evil.sh"],
    &["sh", "evil.sh"],
    &["rm", "a.txt"],
    &["tee", "made"],
    &["cat", "../outside/passwd"],
    &["cat", "link.txt"],
    &["cat", "secret.txt"],
    &["cat", "/proc/self/environ"],
    &["head", "-c5", "~/notes.txt"],
    &["ls", "ln1"],
    &["sort", "-o", "made", "a.txt"],
    &["uniq", "a.txt", "made"],
    &["sed", "-n", "w made", "a.txt"],
    &["find", ".", "-fprint", "made"],
    &["find", ".", "-exec", "./evil.sh", ";"],
    &["rg", "--pre", "./evil.sh", "one"],
    &["tree", "-o", "made"],
    &["fd", "a", "-x", "./evil.sh"],
    &["git", "-C", "docs", "status"],
    &["git", "diff", "--output=made"],
    &["printenv"],
];

/// Words of read-only commands, each of which is valid behind any of [`READING_COMMANDS`].
const READ_OPERANDS: [&str; 10] = [
    "a.txt",
    "b.txt",
    "src/main.rs",
    "./a.txt",
    "src/../a.txt",
    "src/inside.txt",
    "README.md",
    "-",
    "missing.txt",
    "src/deep/a.txt",
];

const READING_COMMANDS: [&[&str]; 14] = [
    &["cat"],
    &["head", "-n", "2"],
    &["tail", "-1"],
    &["wc", "-l"],
    &["sort"],
    &["grep", "-n", "one"],
    &["sed", "-n", "1p"],
    &["uniq"],
    &["cut", "-c1"],
    &["stat"],
    &["ls", "-l"],
    &["md5sum"],
    &["rg", "one"],
    &["du", "-s"],
];

/// Programs and keywords that run the command behind them.
const WRAPPERS: [&str; 44] = [
    "env",
    "env NO_COLOR=1",
    "env -i",
    "env -u HOME",
    "env --",
    "env -C docs",
    "env PATH=.",
    "env -S",
    "nice",
    "nice -n 3",
    "nice -n -3",
    "nice -3",
    "nice --adjustment=3",
    "timeout 5",
    "timeout 0.5s",
    "timeout -k 1 5",
    "timeout -s KILL 5",
    "timeout --foreground 5",
    "timeout 5 --",
    "time",
    "time -p",
    "time -o made",
    "time --",
    "command",
    "command -p",
    "command --",
    "builtin",
    "exec",
    "exec -a ls",
    "eval",
    "nohup",
    "stdbuf -oL",
    "setsid",
    "sudo",
    "busybox",
    "xargs",
    "xargs -0",
    "xargs -I{}",
    "!",
    "NO_COLOR=1",
    "LC_ALL=C",
    "PATH=.:$PATH",
    "BASH_ENV=evil.sh",
    "GIT_EXTERNAL_DIFF=./evil.sh",
];

/// Redirections, before or behind a command.
const REDIRECTIONS: [&str; 30] = [
    "> made",
    ">> made",
    ">| made",
    "<> made",
    "2> made",
    "2>> a.txt",
    "&> made",
    "&>> made",
    ">& made",
    "3> made",
    "{fd}> made",
    "> /dev/null",
    "2>/dev/null",
    "2>&1",
    "1>&2",
    "> /dev/stdout",
    "> ma''de",
    "> $'ma\\x64e'",
    "> {made,}",
    "> \"$PWD/made\"",
    "> src/../made",
    "> .git/config",
    "> ln1/made",
    "< a.txt",
    "< link.txt",
    "< ../outside/passwd",
    "0<secret.txt",
    "<<< one",
    "<<< \"$API_TOKEN\"",
    "2> /dev/fd/../../../made",
];

/// Formats of `printf` with which it runs, sets or hides something, besides plain ones.
const FORMATS: [&str; 22] = [
    "'%s\\n'",
    "%s",
    "'%b'",
    "'%q\\n'",
    "'%d\\n'",
    "'%5.2f|'",
    "'%%'",
    "'%n'",
    "'%*s'",
    "'%(%s)T'",
    "'\\x2e\\x2e/outside/passwd'",
    "'\\056\\056/outside/passwd'",
    "'../outside/passwd'",
    "'a.txt'",
    "'touch made'",
    "-v x '%s'",
    "-v PATH '%s'",
    "-v 'a[$(touch made)]' '%s'",
    "-- '%s'",
    "\"$API_TOKEN\"",
    "\"%s$(touch made)\"",
    "$'%s\\x0a'",
];

/// Composes the line that the bytes encode. `readers` are read-only lines.
pub(super) fn compose(readers: &[&str], data: &[u8]) -> String {
    let mut composer = Composer { choices: ByteChoices::new(data), readers };
    composer.compose_line(0)
}

struct Composer<'a> {
    choices: ByteChoices<'a>,
    readers: &'a [&'a str],
}

impl Composer<'_> {
    /// A line: a command with something around it.
    fn compose_line(&mut self, depth: usize) -> String {
        if depth >= MAX_DEPTH {
            return self.compose_simple();
        }
        match self.choices.next() % 12 {
            0 | 1 => self.compose_simple(),
            2 | 3 => self.compose_wrapped(depth),
            4 => self.compose_printf(depth),
            5 => self.compose_substitution(depth),
            6 => self.compose_pipeline(depth),
            7 => self.compose_redirection(depth),
            8 => self.compose_here_document(depth),
            9 => self.compose_function(depth),
            10 => self.compose_control(depth),
            _ => {
                let between = self.choices.one_of(&[" && ", "; ", " | ", "\n", " || ", " & ", " |& "]);
                let (first, second) = (self.compose_line(depth + 1), self.compose_line(depth + 1));
                format!("{first}{between}{second}")
            }
        }
    }

    /// A command without nested ones. Half of them only read.
    fn compose_simple(&mut self) -> String {
        match self.choices.next() % 8 {
            0 => self.choices.one_of(self.readers).to_owned(),
            1..4 => {
                let at = self.choices.below(READING_COMMANDS.len());
                let mut words: Vec<String> = READING_COMMANDS[at].iter().map(|word| (*word).to_owned()).collect();
                for _ in 0..self.choices.below(3) {
                    let operand = self.choices.one_of(&READ_OPERANDS);
                    words.push(self.spell(operand));
                }
                words.join(" ")
            }
            4 => self.compose_braces(),
            _ => {
                let at = self.choices.below(HOSTILE_COMMANDS.len());
                let words: Vec<String> = HOSTILE_COMMANDS[at].iter().map(|word| self.spell(word)).collect();
                words.join(" ")
            }
        }
    }

    /// A command whose words come from brace expansion.
    fn compose_braces(&mut self) -> String {
        let at = self.choices.below(HOSTILE_COMMANDS.len());
        let words = HOSTILE_COMMANDS[at];
        match self.choices.next() % 6 {
            0 => format!("{{{}}}", words.join(",")),
            1 => format!("{} {{{},}}", words[0], words[1..].join(",")),
            2 => format!("cat {{a.txt,{}}}", words.last().unwrap_or(&"")),
            3 => "cat .{.,}/outside/passwd".to_owned(),
            4 => format!("sort {{-o,made}} {}", self.choices.one_of(&READ_OPERANDS)),
            _ => format!("cat {{a,b}}.txt {{1..3}} {}", self.choices.one_of(&READ_OPERANDS)),
        }
    }

    fn compose_wrapped(&mut self, depth: usize) -> String {
        let mut line = String::new();
        for _ in 0..=self.choices.below(4) {
            line += self.choices.one_of(&WRAPPERS);
            line += " ";
        }
        match self.choices.next() % 6 {
            0 => {
                let shell = self.choices.one_of(&["sh -c", "bash -c", "eval", "env -S", "bash -lc", "trap"]);
                let inner = self.compose_line(depth + 1).replace('\'', "'\\''");
                format!("{line}{shell} '{inner}'")
            }
            1 => line + &self.compose_printf(depth + 1),
            _ => line + &self.compose_simple(),
        }
    }

    fn compose_printf(&mut self, depth: usize) -> String {
        let format = self.choices.one_of(&FORMATS);
        let argument = match self.choices.next() % 6 {
            0 => "../outside/passwd".to_owned(),
            1 => format!("\"$({})\"", self.compose_line(depth + 1)),
            2 => "'a[$(touch made)]'".to_owned(),
            3 => self.spell("made"),
            4 => String::new(),
            _ => "one".to_owned(),
        };
        let behind = match self.choices.next() % 8 {
            0 => " | sh",
            1 => " | xargs cat",
            2 => " | xargs -0 -I{} cat {}",
            3 => " > made",
            4 => " | cat",
            5 => "; echo $x",
            _ => "",
        };
        format!("printf {format} {argument}{behind}")
    }

    fn compose_substitution(&mut self, depth: usize) -> String {
        let (outer, inner) = (self.compose_simple(), self.compose_line(depth + 1));
        match self.choices.next() % 14 {
            0 => format!("{outer} $({inner})"),
            1 => format!("{outer} \"$({inner})\""),
            2 => format!("{outer} `{inner}`"),
            3 => format!("{outer} <({inner})"),
            4 => format!("{outer} > >({inner})"),
            5 => format!("echo ${{x:-$({inner})}}"),
            6 => format!("echo $((a[$({inner})]))"),
            7 => format!("x=$({inner}); {outer}"),
            8 => format!("$({inner})"),
            9 => format!("x='$({inner})'; echo ${{x@P}}"),
            10 => format!("test -v 'a[$({inner})]'"),
            11 => format!("echo '$({inner})'"),
            12 => format!("echo \\$\\({inner}\\)"),
            _ => format!("echo $'\\'$({inner})'"),
        }
    }

    fn compose_pipeline(&mut self, depth: usize) -> String {
        let (first, second) = (self.compose_line(depth + 1), self.compose_simple());
        match self.choices.next() % 12 {
            0 => format!("{first} | xargs {second}"),
            1 => format!("{first} | xargs -I{{}} {second} {{}}"),
            2 => format!("{first} | xargs -0 -n1 {second}"),
            3 => format!("{first} | rev | xargs cat"),
            4 => format!("{first} | sh"),
            5 => format!("{first} | tee made"),
            6 => format!("{first} | while read -r f; do cat $f; done"),
            7 => format!("{first} | env -S xargs cat"),
            8 => format!("{first} |& {second}"),
            9 => format!("{first} | {{ {second}; }}"),
            10 => format!("echo ../outside/passwd | xargs {second}"),
            _ => format!("{first} | {second} | {second}"),
        }
    }

    fn compose_redirection(&mut self, depth: usize) -> String {
        let (inner, redirection) = (self.compose_line(depth + 1), self.choices.one_of(&REDIRECTIONS));
        match self.choices.next() % 5 {
            0 => format!("{redirection} {inner}"),
            1 => format!("{{ {inner}; }} {redirection}"),
            2 => format!("({inner}) {redirection}"),
            3 => format!("{inner} {redirection} {}", self.choices.one_of(&REDIRECTIONS)),
            _ => format!("{inner} {redirection}"),
        }
    }

    fn compose_here_document(&mut self, depth: usize) -> String {
        let (reader, inner) = (self.compose_simple(), self.compose_line(depth + 1));
        match self.choices.next() % 13 {
            0 => format!("{reader} <<E\n{inner}\nE"),
            1 => format!("{reader} <<'E'\n{inner}\nE"),
            2 => format!("{reader} <<\"E\"\n$({inner})\nE"),
            3 => format!("{reader} <<E\n$({inner})\nE"),
            4 => format!("{reader} <<E\n`{inner}`\nE"),
            5 => format!("{reader} <<-E\n\t{inner}\n\tE"),
            6 => format!("{reader} <<E\nE \n E\nE\n{inner}"),
            7 => format!("{reader} <<E; {inner}\ntext\nE"),
            8 => format!("{reader} <<\\E\n$({inner})\nE"),
            9 => format!("{reader} <<A <<'B'\n$({inner})\nA\n$({inner})\nB"),
            10 => format!("sh <<E\n{inner}\nE"),
            11 => format!("{reader} <<$'E'\n{inner}\nE"),
            _ => format!("{reader} <<E\n\\$({inner})\nE"),
        }
    }

    fn compose_function(&mut self, depth: usize) -> String {
        let (inner, call) = (self.compose_line(depth + 1), self.compose_simple());
        let name = self.choices.one_of(&["f", "ls", "cat", "cd", "command", "grep", "[", "echo"]);
        match self.choices.next() % 9 {
            0 => format!("{name}() {{ {inner}; }}; {name}"),
            1 => format!("function {name} {{ {inner}; }}; {name} a.txt"),
            2 => format!("{name}() ( {inner} ); {call}"),
            3 => format!("{name}() {{ {inner}; }}\n{call}"),
            4 => format!("alias {name}='{inner}'\n{call}"),
            5 => format!("trap '{inner}' EXIT; {call}"),
            6 => format!("cd() {{ :; }}; cd src && {call}"),
            7 => format!("{name}() {{ {inner}; }} > made; {call}"),
            _ => format!("unset -f {name}; {call}; {inner}"),
        }
    }

    fn compose_control(&mut self, depth: usize) -> String {
        let (inner, other) = (self.compose_line(depth + 1), self.compose_simple());
        match self.choices.next() % 16 {
            0 => format!("if {inner}; then {other}; fi"),
            1 => format!("case x in x) {inner} ;; esac"),
            2 => format!("for f in a.txt; do {inner}; done"),
            3 => format!("for f in ../outside/passwd; do cat $f; {inner}; done"),
            4 => format!("while {other}; do {inner}; break; done"),
            5 => format!("[[ $({inner}) ]]"),
            6 => format!("(( a[$({inner})] ))"),
            7 => format!("coproc {inner}"),
            8 => format!("cd src && {inner}"),
            9 => format!("cd ln1 && {inner}"),
            10 => format!("cd docs; {inner}"),
            11 => format!("pushd docs > /dev/null; {inner}"),
            12 => format!("( {inner} )"),
            13 => format!("! {{ {inner}; }}"),
            14 => format!("cd src | {inner}"),
            _ => format!("until {inner}; do {other}; done"),
        }
    }

    /// A word in one of the ways that the shell reads as the same word, or nearly so.
    fn spell(&mut self, word: &str) -> String {
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "./-_=~:{}".contains(c));
        let single = format!("'{}'", word.replace('\'', "'\\''"));
        match self.choices.next() % 20 {
            0 => single,
            1 => format!("\"{word}\""),
            2 => format!("$'{}'", encode(word, |c| format!("\\x{:02x}", u32::from(c)))),
            3 => format!("$'{}'", encode(word, |c| format!("\\{:03o}", u32::from(c)))),
            4 => format!("$'{}'", encode(word, |c| format!("\\u{:04x}", u32::from(c)))),
            5 => word.chars().map(|c| format!("\\{c}")).collect(),
            6 => {
                let at = self.choices.below(word.chars().count() + 1);
                let quotes = self.choices.one_of(&["''", "\"\"", "$''", "\\\n", "${x}", "$(:)", "{,}"]);
                word.chars().take(at).chain(quotes.chars()).chain(word.chars().skip(at)).collect()
            }
            7 => format!("$(printf '{word}')"),
            8 => format!("${{x:-{word}}}"),
            9 => word.replacen('a', "?", 1),
            10 => word.replacen('.', "[.]", 1),
            _ if plain => word.to_owned(),
            _ => single,
        }
    }
}

/// Encodes every character for ANSI-C quotes.
fn encode(word: &str, one: impl Fn(char) -> String) -> String {
    word.chars().map(one).collect()
}
