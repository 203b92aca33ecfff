//! Derives new command lines from the corpus: bytes select a line and the fragments that are spliced into it.

/// Operands, options and shell fragments that give a read-only command other effects.
const FRAGMENTS: [&str; 119] = [
    "-o",
    "-omade",
    "-o made",
    "--output=made",
    "--output made",
    "--out=made",
    "-exec",
    "-execdir",
    "-delete",
    "-fprint",
    "-fprintf",
    "-ok",
    "{}",
    "+",
    "';'",
    "\\;",
    "--pre",
    "--pre=./evil.sh",
    "./evil.sh",
    "evil.sh",
    "made",
    "../outside/passwd",
    "ln1/passwd",
    "link.txt",
    "ln1",
    "up",
    "..",
    "x:y/etc/passwd",
    "self/environ",
    "/etc/passwd",
    "/proc/self/environ",
    "src/escape/passwd",
    "~/notes.txt",
    "$HOME",
    "*",
    "ln?",
    "{a,b}.txt",
    "-",
    "--",
    "-R",
    "-L",
    "-H",
    "-r",
    "-n",
    "-f",
    "-F",
    "-i",
    "-e",
    "-c",
    "-C",
    "-S",
    "-a",
    "-0",
    "-z",
    "-O",
    "-p",
    "-T",
    "-m",
    "-s",
    "-u",
    "-w",
    "-x",
    "-X",
    "-l",
    "-d",
    "--files0-from=names0",
    "--follow",
    "--dereference",
    "--no-index",
    "--ext-diff",
    "--textconv",
    "--git-dir=docs",
    "-C docs",
    "names.txt",
    "names0",
    "a.txt",
    "src",
    "docs",
    "docs/HEAD",
    "secret.txt",
    "xargs cat",
    "xargs",
    "env",
    "env -C docs",
    "timeout 5",
    "nice",
    "command",
    "builtin",
    "exec",
    "eval",
    "time",
    "!",
    "cd src &&",
    "cd docs &&",
    "cd .. &&",
    "cd ln1;",
    "| sh",
    "| tee made",
    "> made",
    "< link.txt",
    "< ../outside/passwd",
    ">> .git/config",
    "2>made",
    "&> made",
    ">/dev/null",
    "2>&1",
    "$(touch made)",
    "`touch made`",
    "<(touch made)",
    "; touch made",
    "&& ./evil.sh",
    "& touch made",
    "\ntouch made",
    "uniq - made",
    "uniq",
    "sort",
    "git status",
    "w made",
    "HEAD:secret.txt",
];

/// Characters that change how the rest of a line is parsed.
const CHARACTERS: [&str; 40] = [
    " ", "'", "\"", "\\", "$", "`", "(", ")", "{", "}", "[", "]", ";", "&", "|", "<", ">", "\n", "\t", "#", "~", "*",
    "?", "=", ":", ",", "!", "-", ".", "/", "\r", "\u{a0}", "$'", "$(", "${", "''", "\"\"", "\\\n", "..", "--",
];

/// Bytes that are consumed one by one; zeros follow after the last one.
pub(super) struct ByteChoices<'a>(std::slice::Iter<'a, u8>);

impl<'a> ByteChoices<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self(data.iter())
    }

    pub(super) fn next(&mut self) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default())
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        let wide = (self.next() << 8) | self.next();
        wide.checked_rem(limit).unwrap_or_default()
    }

    pub(super) fn one_of<'l>(&mut self, list: &[&'l str]) -> &'l str {
        let at = self.below(list.len());
        list.get(at).copied().unwrap_or_default()
    }
}

/// The line that the bytes encode. The first ones select a line, more often a read-only one; the rest mutates it.
pub(super) fn mutate(readers: &[&str], lines: &[&str], data: &[u8]) -> String {
    let mut choices = ByteChoices::new(data);
    let first = if choices.next().is_multiple_of(4) { lines } else { readers };
    let mut line = choices.one_of(first).to_owned();
    for _ in 0..choices.below(5) {
        line = mutate_once(&line, lines, &mut choices);
    }
    line
}

fn mutate_once(line: &str, lines: &[&str], choices: &mut ByteChoices<'_>) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let at = choices.below(words.len());
    let word = words.get(at).cloned().unwrap_or_default();
    match choices.next() % 16 {
        0..4 => words.insert(at + 1, choices.one_of(&FRAGMENTS).to_owned()),
        4 => words.insert(at, choices.one_of(&FRAGMENTS).to_owned()),
        5 => words[at] = choices.one_of(&FRAGMENTS).to_owned(),
        6 => drop(words.remove(at)),
        7 => {
            let other = choices.one_of(lines).split(' ').map(str::to_owned).collect::<Vec<_>>();
            let piece = other.get(choices.below(other.len())).cloned().unwrap_or_default();
            words.insert(at + 1, piece);
        }
        8 => {
            let other = choices.one_of(lines);
            words[at] = other.split(' ').next_back().unwrap_or_default().to_owned();
        }
        9 => {
            let to = choices.below(words.len());
            words.swap(at, to);
        }
        10 => words[at] = quoted(&word, choices),
        11 | 12 => {
            let mut characters: Vec<char> = line.chars().collect();
            let place = choices.below(characters.len() + 1);
            characters.splice(place..place, choices.one_of(&CHARACTERS).chars());
            return characters.into_iter().collect();
        }
        13 => {
            let between = choices.one_of(&[" && ", "; ", " | ", "\n", " || ", " & ", " |& "]);
            return format!("{line}{between}{}", choices.one_of(lines));
        }
        14 => {
            let (before, after) = *[
                ("(", ")"),
                ("{ ", "; }"),
                ("echo $(", ")"),
                ("echo \"$(", ")\""),
                ("if ", "; then ls; fi"),
                ("! ", ""),
                ("time ", ""),
                ("cat <(", ")"),
                ("cat <<E\n", "\nE"),
                ("f() { ", "; }; f"),
                ("cd src && ", ""),
                ("cd docs && ", ""),
                ("timeout 5 ", ""),
                ("env ", ""),
                ("for f in a; do ", "; done"),
                ("NO_COLOR=1 ", ""),
            ]
            .get(choices.below(16))
            .unwrap_or(&("", ""));
            return format!("{before}{line}{after}");
        }
        _ => {
            // Adds a letter to a cluster of short options.
            if word.starts_with('-') && !word.starts_with("--") {
                words[at] = format!("{word}{}", char::from(b'A' + u8::try_from(choices.below(58)).unwrap_or_default()));
            } else {
                words[at] = format!("{word}{}", choices.one_of(&FRAGMENTS));
            }
        }
    }
    words.join(" ")
}

fn quoted(word: &str, choices: &mut ByteChoices<'_>) -> String {
    match choices.next() % 5 {
        0 => format!("'{word}'"),
        1 => format!("\"{word}\""),
        2 => format!("$'{word}'"),
        3 => word.chars().map(|c| format!("\\{c}")).collect(),
        _ => {
            let at = choices.below(word.chars().count() + 1);
            word.chars().take(at).chain("''".chars()).chain(word.chars().skip(at)).collect()
        }
    }
}
