//! Matches deny and ask rules against any part of a call.

use std::path::{Path, PathBuf};

use super::{matches_command_name, matches_tool};
use crate::path::{CandidatePaths, PathKind, PathResolver as _};
use crate::path_pattern::PathPattern;
use crate::read_only::{CommandReads, ReadPath, resolve_word};
use crate::rule::{CommandPattern, DomainPattern, Effect, Matcher, Rule, covers_tool};
use crate::shell::{CommandLine, ShellCommand, ShellWord, WordForm, base_name};
use crate::tool_use::{DecisionContext, PathAccess, ToolTarget};

/// A deny or ask rule that matches a part of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestrictionMatch<'a> {
    pub rule: &'a Rule,
    pub part: String,
    /// Whether the part is certain to match the rule. Otherwise it only may.
    pub is_certain: bool,
}

/// All matches of rules with this effect.
pub(crate) fn find_restrictions<'a>(
    scene: &DecisionContext<'_>,
    rules: impl Iterator<Item = &'a Rule>,
    effect: Effect,
) -> Vec<RestrictionMatch<'a>> {
    rules
        .filter(|rule| rule.effect == effect)
        .flat_map(|rule| {
            find_matching_parts(scene, rule).into_iter().map(move |(part, certain)| RestrictionMatch {
                rule,
                part,
                is_certain: certain,
            })
        })
        .collect()
}

/// The parts of the call that match the rule, and whether each match is certain.
fn find_matching_parts(scene: &DecisionContext<'_>, rule: &Rule) -> Vec<(String, bool)> {
    if matches_tool(&rule.matcher, &scene.call.tool) {
        return vec![(whole_call(scene), true)];
    }
    match (&rule.matcher, &scene.target) {
        (Matcher::Command(pattern), ToolTarget::Shell(line)) => match_commands(pattern, line),
        // A rule for a file tool without a path also covers files that the shell opens.
        (Matcher::Tool(tool), ToolTarget::Shell(line)) => {
            let opened =
                line.redirections.iter().filter(|file| covers_tool(tool, if file.writes { "Write" } else { "Read" }));
            opened.filter(|file| !is_output_device(file)).map(|file| (format_redirection(file), true)).collect()
        }
        (Matcher::Path { tool, .. }, ToolTarget::Shell(line)) => match_shell_paths(scene, rule, tool, line),
        (Matcher::Path { tool, pattern }, ToolTarget::Files(access, spots)) if covers_tool(tool, &scene.call.tool) => {
            let mut parts: Vec<(String, bool)> = spots
                .iter()
                .filter(|spot| matches_path(scene, rule, spot))
                .map(|spot| (spot.text.clone(), true))
                .collect();
            // A search above a denied path reads it.
            let reaches = |spot: &&CandidatePaths| has_match_below(scene, pattern, spot);
            if parts.is_empty() && *access == PathAccess::Search {
                parts.extend(spots.iter().filter(reaches).map(|spot| (spot.text.clone(), false)));
            }
            parts
        }
        (Matcher::Path { tool, .. }, ToolTarget::Unanalyzable(_)) if covers_tool(tool, &scene.call.tool) => {
            vec![(whole_call(scene), false)]
        }
        (Matcher::Command(_), ToolTarget::Unanalyzable(_)) if scene.call.tool == "Bash" => {
            vec![(whole_call(scene), false)]
        }
        (Matcher::Domain(_), ToolTarget::Unanalyzable(_)) if scene.call.tool == "WebFetch" => {
            vec![(whole_call(scene), false)]
        }
        (Matcher::Domain(domain), ToolTarget::Host(host)) if matches_host(domain, host) => vec![(host.clone(), true)],
        _ => Vec::new(),
    }
}

fn whole_call(scene: &DecisionContext<'_>) -> String {
    scene.call.tool.clone()
}

/// A rule that restricts a domain covers its subdomains.
fn matches_host(domain: &DomainPattern, host: &str) -> bool {
    let below = host.strip_suffix(domain.host.as_str()).is_some_and(|rest| rest.ends_with('.'));
    below || (host == domain.host && !domain.subdomains_only)
}

/// Does the rule match one of the candidate paths? The pattern's literal prefix is resolved too, since it may be a
/// link.
fn matches_path(scene: &DecisionContext<'_>, rule: &Rule, spot: &CandidatePaths) -> bool {
    let Matcher::Path { pattern, .. } = &rule.matcher else {
        return false;
    };
    let ground = scene.pattern_bases();
    if spot.paths.iter().any(|path| pattern.matches(path, &ground, true)) {
        return true;
    }
    let Some(spelled) = pattern.literal_prefix(&ground) else {
        return false;
    };
    let Some(real) = scene.resolver.resolve(&spelled).ok().filter(|real| *real != spelled) else {
        return false;
    };
    let moved = |path: &PathBuf| path.strip_prefix(&real).ok().map(|rest| join_path(&spelled, rest));
    spot.paths.iter().filter_map(moved).any(|path| pattern.matches(&path, &ground, true))
}

fn join_path(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { base.to_owned() } else { base.join(rest) }
}

/// Matches the files that a line opens, the known reads of its commands, and path-like words of unknown commands.
fn match_shell_paths(scene: &DecisionContext<'_>, rule: &Rule, tool: &str, line: &CommandLine) -> Vec<(String, bool)> {
    let Matcher::Path { pattern, .. } = &rule.matcher else { return Vec::new() };
    let (reads, writes) = (covers_tool(tool, "Read"), covers_tool(tool, "Write"));
    let mut found = Vec::new();
    let reading = scene.read_analysis(line);
    for file in line.redirections.iter().filter(|file| if file.writes { writes } else { reads }) {
        let spots = |name: &str| resolve_word(scene, reading.directories.as_deref(), &file.target, name);
        let certain = match file.target.as_literal() {
            Some(name) if spots(name).iter().any(|spot| matches_path(scene, rule, spot)) => {
                Some(!line.changes_directory || name.starts_with('/'))
            }
            // The directory in which it is opened is unknown.
            Some(name) if reading.directories.is_none() && !name.starts_with('/') => Some(false),
            None if reads => Some(false),
            _ => None,
        };
        found.extend(certain.map(|certain| (format_redirection(file), certain)));
    }
    if !reads && !writes {
        return found;
    }
    for (command, finding) in line.all_commands().into_iter().zip(&reading.commands) {
        let certain = match &finding.reads {
            Some(reaches) => {
                let names = |reach: &ReadPath| matches_path(scene, rule, &reach.candidates);
                let below = |reach: &ReadPath| {
                    let ground = scene.pattern_bases();
                    let may = || reach.candidates.paths.iter().any(|path| pattern.may_match_below(path, &ground));
                    reach.recursive
                        && if reach.from_history { may() } else { has_match_below(scene, pattern, &reach.candidates) }
                };
                match reads {
                    true if reaches.iter().any(names) => Some(true),
                    true if reaches.iter().any(below) => Some(false),
                    _ => None,
                }
            }
            _ => match_unknown_command(scene, rule, pattern, command, finding, (reads, writes)),
        };
        found.extend(certain.map(|certain| (command.text.clone(), certain)));
    }
    found
}

/// May an unknown command touch a path that the rule names? Which words it reads or writes is unknown: reading is
/// assumed to be certain, writing to be possible.
fn match_unknown_command(
    scene: &DecisionContext<'_>,
    rule: &Rule,
    pattern: &PathPattern,
    command: &ShellCommand,
    finding: &CommandReads,
    (reads, writes): (bool, bool),
) -> Option<bool> {
    let directories = finding.directories.as_deref();
    let mut possible = reads && reads_current_directory(command) && {
        let here = resolve_word(scene, directories, &ShellWord::literal("."), ".");
        here.is_empty() || here.iter().any(|spot| has_match_below(scene, pattern, spot))
    };
    for word in command.words.iter().skip(1) {
        let Some(text) = word.as_literal() else {
            possible |= reads && opens_files(command) && may_expand_to(scene, pattern, finding, word);
            continue;
        };
        let named = |text: &str| {
            resolve_word(scene, directories, word, text).iter().any(|spot| matches_path(scene, rule, spot))
        };
        let parts = [Some(text), text.split_once('=').map(|(_, value)| value)];
        if parts.into_iter().flatten().any(|part| looks_like_path(part) && named(part)) {
            return Some(reads);
        }
        let hidden = [text.split_once(':').map(|(_, path)| path), text.strip_prefix('-').and_then(strip_first_char)];
        let in_directory = || {
            let spots = resolve_word(scene, directories, word, text);
            let is_directory = |path: &PathBuf| scene.resolver.path_kind(path) == PathKind::Directory;
            let directory = |spot: &&CandidatePaths| spot.paths.iter().any(is_directory);
            spots.iter().filter(directory).any(|spot| has_match_below(scene, pattern, spot))
        };
        possible |= parts.into_iter().chain(hidden).flatten().any(named) || (reads && in_directory());
    }
    (possible && (reads || writes)).then_some(false)
}

fn strip_first_char(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    chars.next();
    Some(chars.as_str()).filter(|rest| !rest.is_empty())
}

/// Does the program read below its current directory without naming it?
fn reads_current_directory(command: &ShellCommand) -> bool {
    let name = command.words.first().and_then(ShellWord::as_literal).map(base_name).unwrap_or_default();
    let git = || {
        let shows = |word: &ShellWord| {
            let commands =
                ["show", "diff", "log", "grep", "blame", "cat-file", "archive", "bundle", "format-patch", "stash"];
            word.as_literal().is_some_and(|text| commands.contains(&text))
        };
        command.words.iter().skip(1).any(shows)
    };
    match name {
        "rg" | "ag" | "ack" | "rgrep" | "ugrep" | "pt" | "sift" => true,
        "grep" | "egrep" | "fgrep" | "zgrep" | "diff" => {
            let recursive = |word: &ShellWord| {
                word.known_prefix.starts_with("--")
                    || word.known_prefix.strip_prefix('-').is_some_and(|letters| letters.contains(['r', 'R', 'd']))
            };
            command.words.iter().skip(1).any(recursive)
        }
        "git" => git(),
        _ => false,
    }
}

/// Does the program open files named by its words? Some take words as text. Git opens files only to show them.
fn opens_files(command: &ShellCommand) -> bool {
    match command.words.first().and_then(ShellWord::as_literal).map(base_name) {
        Some("echo" | "printf" | "test" | "[" | "seq" | "expr" | "basename" | "dirname" | "export" | "sleep") => false,
        Some("git") => reads_current_directory(command),
        _ => true,
    }
}

/// May a word that the shell expands become a path that the pattern matches?
fn may_expand_to(scene: &DecisionContext<'_>, pattern: &PathPattern, finding: &CommandReads, word: &ShellWord) -> bool {
    // A process substitution is a pipe, not a file.
    if word.known_prefix.starts_with("/dev/fd/") {
        return false;
    }
    if word.text.contains(['$', '`', '{']) || !word.text.starts_with(word.known_prefix.as_str()) {
        return true;
    }
    let (directory, last) = word.text.rsplit_once('/').unwrap_or((".", word.text.as_str()));
    if directory.contains(['*', '?', '[', '\\', '\'', '"']) {
        return true;
    }
    let directory = if directory.is_empty() { "/" } else { directory };
    let spots = resolve_word(scene, finding.directories.as_deref(), word, directory);
    let ground = scene.pattern_bases();
    let below = |spot: &CandidatePaths| spot.paths.iter().any(|path| pattern.may_match_below(path, &ground));
    // The word may expand to a directory, including everything in it.
    spots.is_empty() || (spots.iter().any(below) && (pattern.is_literal() || pattern.may_end_with(last)))
}

/// Limit of the directory scan that looks for denied files.
const MAX_SCANNED_ENTRIES: usize = 10_000;

/// Is there a path below that the pattern matches? A literal pattern needs no disk access. For others a bounded scan is
/// made; if it exceeds its limit, the answer is yes.
fn has_match_below(scene: &DecisionContext<'_>, pattern: &PathPattern, spot: &CandidatePaths) -> bool {
    let ground = scene.pattern_bases();
    let may = |path: &&PathBuf| pattern.may_match_below(path, &ground);
    let mut waiting: Vec<PathBuf> = spot.paths.iter().filter(may).cloned().collect();
    if waiting.is_empty() || pattern.is_literal() {
        return !waiting.is_empty();
    }
    let mut left = MAX_SCANNED_ENTRIES;
    while let Some(directory) = waiting.pop() {
        let Some(entries) = scene.resolver.list(&directory, left) else {
            return scene.resolver.path_kind(&directory) != PathKind::File
                || pattern.matches(&directory, &ground, true);
        };
        left -= entries.len();
        for (path, entry) in entries {
            if pattern.matches(&path, &ground, true) {
                return true;
            }
            // The contents of `.git` are not files that rules name.
            if entry == PathKind::Directory && !path.ends_with(".git") {
                waiting.push(path);
            }
        }
    }
    false
}

fn looks_like_path(word: &str) -> bool {
    !word.starts_with('-') && !word.contains('\n') && (word.contains(['/', '.']) || word.starts_with('~'))
}

pub(super) fn format_redirection(file: &crate::shell::FileRedirection) -> String {
    format!("{} {}", if file.writes { ">" } else { "<" }, file.target.text)
}

pub(super) fn is_output_device(file: &crate::shell::FileRedirection) -> bool {
    file.target.as_literal().is_some_and(crate::shell::is_output_device_path)
}

fn match_commands(pattern: &CommandPattern, line: &CommandLine) -> Vec<(String, bool)> {
    let objects =
        |command: &ShellCommand| match_command(pattern, command).map(|certain| (command.text.clone(), certain));
    line.all_commands().into_iter().filter_map(objects).collect()
}

/// Does the command match the pattern? `None` if not, otherwise whether the match is certain.
fn match_command(pattern: &CommandPattern, command: &ShellCommand) -> Option<bool> {
    let mut certain = true;
    for (at, wanted) in pattern.words.iter().enumerate() {
        let word = command.words.get(at)?;
        match word.form {
            WordForm::Literal => {
                let same = if at == 0 { matches_command_name(&word.text, wanted) } else { word.text == *wanted };
                same.then_some(())?;
            }
            WordForm::SingleWord => {
                wanted.starts_with(&word.known_prefix).then_some(())?;
                certain = false;
            }
            // From here on, each word may be anything.
            WordForm::AnyWords => return Some(false),
        }
    }
    let further = command.words.get(pattern.words.len()..).unwrap_or_default();
    if pattern.is_prefix || further.is_empty() {
        return Some(certain);
    }
    // Words that may expand to nothing.
    further.iter().all(|word| word.form == WordForm::AnyWords).then_some(false)
}
