//! What rules have against a call.

use std::path::{Path, PathBuf};

use super::{is_called, names_tool};
use crate::call::{Access, Scene, Touched};
use crate::path::Spot;
use crate::rule::{CommandPattern, Domain, Effect, Matcher, Rule, covers};
use crate::shell::{Command, Form, Line};

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
            let reaches = |spot: &&Spot| spot.paths.iter().any(|path| pattern.reaches_below(path, &scene.ground()));
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

/// The files that a line opens, and the names among its words that could be files.
fn shell_paths(scene: &Scene<'_>, rule: &Rule, tool: &str, line: &Line) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let named = |name: &str| scene.spot(name).is_ok_and(|spot| names_spot(scene, rule, &spot));
    for file in &line.files {
        if covers(tool, if file.writes { "Write" } else { "Read" }) && file.name.known().is_some_and(named) {
            found.push((redirection(file), true));
        }
    }
    // Which words a program reads and which it writes is its own affair: reading is presumed, writing is possible.
    let (reads, writes) = (covers(tool, "Read"), covers(tool, "Write"));
    if reads || writes {
        for command in line.all() {
            let words = command.words.iter().skip(1).filter_map(|word| word.known());
            for word in words.flat_map(|word| [Some(word), word.split_once('=').map(|(_, value)| value)]).flatten() {
                if looks_like_path(word) && named(word) {
                    found.push((command.text.clone(), reads));
                }
            }
        }
    }
    found
}

fn looks_like_path(word: &str) -> bool {
    !word.starts_with('-') && !word.contains('\n') && (word.contains(['/', '.']) || word.starts_with('~'))
}

pub(super) fn redirection(file: &crate::shell::File) -> String {
    format!("{} {}", if file.writes { ">" } else { "<" }, file.name.text)
}

pub(super) fn is_sink(file: &crate::shell::File) -> bool {
    file.name.known().is_some_and(crate::shell::readonly::is_sink)
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
