//! What rules have against a call.

use std::path::{Path, PathBuf};

use super::{is_called, names_tool};
use crate::call::{Access, Scene, Touched};
use crate::glob::PathPattern;
use crate::path::{Entry, Spot};
use crate::reads::{Finding, Reach, spots};
use crate::rule::{CommandPattern, Domain, Effect, Matcher, Rule, covers};
use crate::shell::{Command, Form, Line, Word, base_name};

/// A rule that is against a part of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Objection<'a> {
    pub rule: &'a Rule,
    pub part: String,
    /// Whether the part is what the rule names, or only could be.
    pub certain: bool,
}

/// All objections of rules with this effect.
pub(crate) fn objections<'a>(
    scene: &Scene<'_>,
    rules: impl Iterator<Item = &'a Rule>,
    effect: Effect,
) -> Vec<Objection<'a>> {
    rules
        .filter(|rule| rule.effect == effect)
        .flat_map(|rule| parts(scene, rule).into_iter().map(move |(part, certain)| Objection { rule, part, certain }))
        .collect()
}

/// The parts of the call that the rule names, and whether that is certain.
fn parts(scene: &Scene<'_>, rule: &Rule) -> Vec<(String, bool)> {
    if names_tool(&rule.matcher, &scene.call.tool) {
        return vec![(whole(scene), true)];
    }
    match (&rule.matcher, &scene.touched) {
        (Matcher::Command(pattern), Touched::Shell(line)) => commands(pattern, line),
        // A bare rule for files means what the shell opens, too.
        (Matcher::Tool(tool), Touched::Shell(line)) => {
            let opened = line.files.iter().filter(|file| covers(tool, if file.writes { "Write" } else { "Read" }));
            opened.filter(|file| !is_sink(file)).map(|file| (redirection(file), true)).collect()
        }
        (Matcher::Path { tool, .. }, Touched::Shell(line)) => shell_paths(scene, rule, tool, line),
        (Matcher::Path { tool, pattern }, Touched::Files(access, spots)) if covers(tool, &scene.call.tool) => {
            let mut parts: Vec<(String, bool)> = spots
                .iter()
                .filter(|spot| names_spot(scene, rule, spot))
                .map(|spot| (spot.text.clone(), true))
                .collect();
            // A search from above reads what is denied below.
            let reaches = |spot: &&Spot| lies_below(scene, pattern, spot);
            if parts.is_empty() && *access == Access::Search {
                parts.extend(spots.iter().filter(reaches).map(|spot| (spot.text.clone(), false)));
            }
            parts
        }
        (Matcher::Path { tool, .. }, Touched::Opaque(_)) if covers(tool, &scene.call.tool) => {
            vec![(whole(scene), false)]
        }
        (Matcher::Command(_), Touched::Opaque(_)) if scene.call.tool == "Bash" => vec![(whole(scene), false)],
        (Matcher::Domain(_), Touched::Opaque(_)) if scene.call.tool == "WebFetch" => vec![(whole(scene), false)],
        (Matcher::Domain(domain), Touched::Host(host)) if is_at(domain, host) => vec![(host.clone(), true)],
        _ => Vec::new(),
    }
}

fn whole(scene: &Scene<'_>) -> String {
    scene.call.tool.clone()
}

/// A rule against a domain is against the hosts below it.
fn is_at(domain: &Domain, host: &str) -> bool {
    let below = host.strip_suffix(domain.host.as_str()).is_some_and(|rest| rest.ends_with('.'));
    below || (host == domain.host && !domain.below)
}

/// Does the rule name this spot, by any of its paths? Its own plain part may be a link, too.
fn names_spot(scene: &Scene<'_>, rule: &Rule, spot: &Spot) -> bool {
    let Matcher::Path { pattern, .. } = &rule.matcher else {
        return false;
    };
    let ground = scene.ground();
    if spot.paths.iter().any(|path| pattern.matches(path, &ground, true)) {
        return true;
    }
    let Some(spelled) = pattern.spelled_out(&ground) else {
        return false;
    };
    let Some(real) = scene.resolver.resolve(&spelled).ok().filter(|real| *real != spelled) else {
        return false;
    };
    let moved = |path: &PathBuf| path.strip_prefix(&real).ok().map(|rest| join(&spelled, rest));
    spot.paths.iter().filter_map(moved).any(|path| pattern.matches(&path, &ground, true))
}

fn join(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { base.to_owned() } else { base.join(rest) }
}

/// The files that a line opens, what its commands are known to read, and the names among the words of the others.
fn shell_paths(scene: &Scene<'_>, rule: &Rule, tool: &str, line: &Line) -> Vec<(String, bool)> {
    let Matcher::Path { pattern, .. } = &rule.matcher else { return Vec::new() };
    let (reads, writes) = (covers(tool, "Read"), covers(tool, "Write"));
    let mut found = Vec::new();
    let reading = scene.reading(line);
    for file in line.files.iter().filter(|file| if file.writes { writes } else { reads }) {
        let spots = |name: &str| spots(scene, reading.directories.as_deref(), &file.name, name);
        let certain = match file.name.known() {
            Some(name) if spots(name).iter().any(|spot| names_spot(scene, rule, spot)) => {
                Some(!line.moves || name.starts_with('/'))
            }
            // In which directory it is opened is not known.
            Some(name) if reading.directories.is_none() && !name.starts_with('/') => Some(false),
            None if reads => Some(false),
            _ => None,
        };
        found.extend(certain.map(|certain| (redirection(file), certain)));
    }
    if !reads && !writes {
        return found;
    }
    for (command, finding) in line.all().into_iter().zip(&reading.commands) {
        let certain = match &finding.reaches {
            Some(reaches) => {
                let names = |reach: &Reach| names_spot(scene, rule, &reach.spot);
                let below = |reach: &Reach| {
                    let ground = scene.ground();
                    let may = || reach.spot.paths.iter().any(|path| pattern.may_match_below(path, &ground));
                    reach.below && if reach.in_history { may() } else { lies_below(scene, pattern, &reach.spot) }
                };
                match reads {
                    true if reaches.iter().any(names) => Some(true),
                    true if reaches.iter().any(below) => Some(false),
                    _ => None,
                }
            }
            _ => by_words(scene, rule, pattern, command, finding, (reads, writes)),
        };
        found.extend(certain.map(|certain| (command.text.clone(), certain)));
    }
    found
}

/// Could a command that is not known touch what the rule names? Which words it reads and which it writes is its own affair:
/// reading is presumed, writing is possible.
fn by_words(
    scene: &Scene<'_>,
    rule: &Rule,
    pattern: &PathPattern,
    command: &Command,
    finding: &Finding,
    (reads, writes): (bool, bool),
) -> Option<bool> {
    let directories = finding.directories.as_deref();
    let mut possible = reads && searches_here(command) && {
        let here = spots(scene, directories, &Word::literal("."), ".");
        here.is_empty() || here.iter().any(|spot| lies_below(scene, pattern, spot))
    };
    for word in command.words.iter().skip(1) {
        let Some(text) = word.known() else {
            possible |= reads && opens_files(command) && may_expand_to(scene, pattern, finding, word);
            continue;
        };
        let named = |text: &str| spots(scene, directories, word, text).iter().any(|spot| names_spot(scene, rule, spot));
        let parts = [Some(text), text.split_once('=').map(|(_, value)| value)];
        if parts.into_iter().flatten().any(|part| looks_like_path(part) && named(part)) {
            return Some(reads);
        }
        let hidden = [text.split_once(':').map(|(_, path)| path), text.strip_prefix('-').and_then(after_first)];
        let in_directory = || {
            let spots = spots(scene, directories, word, text);
            let is_directory = |path: &PathBuf| scene.resolver.entry(path) == Entry::Directory;
            let directory = |spot: &&Spot| spot.paths.iter().any(is_directory);
            spots.iter().filter(directory).any(|spot| lies_below(scene, pattern, spot))
        };
        possible |= parts.into_iter().chain(hidden).flatten().any(named) || (reads && in_directory());
    }
    (possible && (reads || writes)).then_some(false)
}

fn after_first(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    chars.next();
    Some(chars.as_str()).filter(|rest| !rest.is_empty())
}

/// Programs that read what is below the directory they run in without naming it.
fn searches_here(command: &Command) -> bool {
    let name = command.words.first().and_then(Word::known).map(base_name).unwrap_or_default();
    let git = || {
        let shows = |word: &Word| {
            let commands =
                ["show", "diff", "log", "grep", "blame", "cat-file", "archive", "bundle", "format-patch", "stash"];
            word.known().is_some_and(|text| commands.contains(&text))
        };
        command.words.iter().skip(1).any(shows)
    };
    match name {
        "rg" | "ag" | "ack" | "rgrep" | "ugrep" | "pt" | "sift" => true,
        "grep" | "egrep" | "fgrep" | "zgrep" | "diff" => {
            let recursive = |word: &Word| {
                word.head.starts_with("--")
                    || word.head.strip_prefix('-').is_some_and(|letters| letters.contains(['r', 'R', 'd']))
            };
            command.words.iter().skip(1).any(recursive)
        }
        "git" => git(),
        _ => false,
    }
}

/// Programs that take words for texts: what the shell puts there is not opened. Git opens files to show them.
fn opens_files(command: &Command) -> bool {
    match command.words.first().and_then(Word::known).map(base_name) {
        Some("echo" | "printf" | "test" | "[" | "seq" | "expr" | "basename" | "dirname" | "export" | "sleep") => false,
        Some("git") => searches_here(command),
        _ => true,
    }
}

/// Could a word that the shell expands become the name of something that the pattern matches?
fn may_expand_to(scene: &Scene<'_>, pattern: &PathPattern, finding: &Finding, word: &Word) -> bool {
    // What a command writes into a pipe is no file.
    if word.head.starts_with("/dev/fd/") {
        return false;
    }
    if word.text.contains(['$', '`', '{']) || !word.text.starts_with(word.head.as_str()) {
        return true;
    }
    let (directory, last) = word.text.rsplit_once('/').unwrap_or((".", word.text.as_str()));
    if directory.contains(['*', '?', '[', '\\', '\'', '"']) {
        return true;
    }
    let directory = if directory.is_empty() { "/" } else { directory };
    let spots = spots(scene, finding.directories.as_deref(), word, directory);
    let ground = scene.ground();
    let below = |spot: &Spot| spot.paths.iter().any(|path| pattern.may_match_below(path, &ground));
    // What it expands to may be a directory, with everything in it.
    spots.is_empty() || (spots.iter().any(below) && (pattern.is_spelled_out() || pattern.may_end_with(last)))
}

/// How many files are looked at to find out that none of them is denied.
const MOST_ENTRIES: usize = 10_000;

/// Is something that the pattern matches below this place? A pattern that spells out its path needs no look at the disk; for
/// others a bounded one, and where that does not suffice, it is.
fn lies_below(scene: &Scene<'_>, pattern: &PathPattern, spot: &Spot) -> bool {
    let ground = scene.ground();
    let may = |path: &&PathBuf| pattern.may_match_below(path, &ground);
    let mut waiting: Vec<PathBuf> = spot.paths.iter().filter(may).cloned().collect();
    if waiting.is_empty() || pattern.is_spelled_out() {
        return !waiting.is_empty();
    }
    let mut left = MOST_ENTRIES;
    while let Some(directory) = waiting.pop() {
        let Some(entries) = scene.resolver.list(&directory, left) else {
            return scene.resolver.entry(&directory) != Entry::File || pattern.matches(&directory, &ground, true);
        };
        left -= entries.len();
        for (path, entry) in entries {
            if pattern.matches(&path, &ground, true) {
                return true;
            }
            // The parts of a repository are not files that people name.
            if entry == Entry::Directory && !path.ends_with(".git") {
                waiting.push(path);
            }
        }
    }
    false
}

fn looks_like_path(word: &str) -> bool {
    !word.starts_with('-') && !word.contains('\n') && (word.contains(['/', '.']) || word.starts_with('~'))
}

pub(super) fn redirection(file: &crate::shell::File) -> String {
    format!("{} {}", if file.writes { ">" } else { "<" }, file.name.text)
}

pub(super) fn is_sink(file: &crate::shell::File) -> bool {
    file.name.known().is_some_and(crate::shell::is_sink)
}

fn commands(pattern: &CommandPattern, line: &Line) -> Vec<(String, bool)> {
    let objects = |command: &Command| could_be(pattern, command).map(|certain| (command.text.clone(), certain));
    line.all().into_iter().filter_map(objects).collect()
}

/// Is the command what the pattern names? Nothing if not; otherwise whether that is certain.
fn could_be(pattern: &CommandPattern, command: &Command) -> Option<bool> {
    let mut certain = true;
    for (at, wanted) in pattern.words.iter().enumerate() {
        let word = command.words.get(at)?;
        match word.form {
            Form::Literal => {
                let same = if at == 0 { is_called(&word.text, wanted) } else { word.text == *wanted };
                same.then_some(())?;
            }
            Form::One => {
                wanted.starts_with(&word.head).then_some(())?;
                certain = false;
            }
            // From here on any word may be anything.
            Form::Any => return Some(false),
        }
    }
    let further = command.words.get(pattern.words.len()..).unwrap_or_default();
    if pattern.open || further.is_empty() {
        return Some(certain);
    }
    // Words that may vanish.
    further.iter().all(|word| word.form == Form::Any).then_some(false)
}
