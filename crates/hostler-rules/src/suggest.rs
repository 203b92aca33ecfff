//! Rules to offer to a person who is tired of being asked. Each is narrow: it allows this call, and no other kind of it.

use std::path::Path;

use crate::call::{Access, Call, Scene, Touched};
use crate::decide::{Mode, Verdict, decide_scene};
use crate::glob::PathPattern;
use crate::matching::{grants_file, is_granted, needs_no_rule};
use crate::path::{Resolver, Spot};
use crate::rule::{CommandPattern, Domain, Effect, Matcher, Rule, Scope};
use crate::set::RuleSet;
use crate::shell::{Command, Kind, Line, is_sink};

/// A choice: these rules together allow the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The rules, all of which allow.
    pub rules: Vec<Rule>,
}

/// How many rules one choice may consist of; a person must be able to read them.
const MOST_RULES: usize = 5;

/// Commands whose further words neither write nor run more than the command itself does, so that a rule may leave them open.
const BY_SECOND_WORD: [(&str, &[&str]); 5] = [
    ("cargo", &["bench", "build", "clippy", "test"]),
    ("git", &["add", "checkout", "commit", "merge", "pull", "push", "restore", "switch"]),
    ("npm", &["ls", "outdated", "test"]),
    ("pnpm", &["test"]),
    ("yarn", &["test"]),
];

/// Programs that run a script of the project by its name.
const SCRIPT_RUNNERS: [&str; 4] = ["bun", "npm", "pnpm", "yarn"];

/// Programs none of whose options writes or runs anything, so that a rule may leave all their words open.
const READERS: [&str; 11] = ["cat", "cut", "diff", "du", "grep", "head", "ls", "stat", "tail", "wc", "which"];

/// Finds rules that would have allowed this call, the narrowest first. There are none for what cannot be seen.
pub fn suggest(call: &Call, scope: Scope, resolver: &dyn Resolver) -> Vec<Suggestion> {
    suggest_beside(&RuleSet::default(), call, scope, resolver)
}

/// Finds rules that would have allowed this call together with those that are there already, the narrowest first: only for the
/// parts that neither a rule allows nor need one.
pub fn suggest_beside(rules: &RuleSet, call: &Call, scope: Scope, resolver: &dyn Resolver) -> Vec<Suggestion> {
    let scene = Scene::new(call, resolver);
    let choices: Vec<Vec<Matcher>> = match &scene.touched {
        Touched::Shell(line) => [exact as fn(&Command) -> Option<CommandPattern>, prefix]
            .into_iter()
            .filter_map(|pattern| shell(&scene, rules, line, pattern))
            .collect(),
        Touched::Files(access, spots) => files(&scene, *access, spots),
        Touched::Host(host) => vec![vec![Matcher::Domain(Domain { host: host.clone(), below: false })]],
        Touched::Nothing if call.is_mcp() => vec![vec![Matcher::Mcp { name: call.tool.clone(), open: false }]],
        Touched::Nothing => vec![vec![Matcher::Tool(call.tool.clone())]],
        Touched::Opaque(_) => Vec::new(),
    };
    let mut found: Vec<Suggestion> = Vec::new();
    for matchers in choices {
        let suggested = matchers.into_iter().map(|matcher| Rule { effect: Effect::Allow, matcher, scope });
        let Some(suggested) = distinct(suggested) else {
            continue;
        };
        let suggestion = Suggestion { rules: suggested };
        // What is offered must work, as it will be stored: by its text.
        if !found.contains(&suggestion) && works(&suggestion, rules, &scene) {
            found.push(suggestion);
        }
    }
    found
}

fn distinct(rules: impl Iterator<Item = Rule>) -> Option<Vec<Rule>> {
    let mut found: Vec<Rule> = Vec::new();
    for rule in rules {
        if !found.contains(&rule) {
            found.push(rule);
        }
    }
    (1..=MOST_RULES).contains(&found.len()).then_some(found)
}

fn works(suggestion: &Suggestion, rules: &RuleSet, scene: &Scene<'_>) -> bool {
    let mut set = rules.clone();
    let stored = suggestion.rules.iter().try_for_each(|rule| {
        let read = Rule::parse(rule.effect, rule.scope, &rule.to_string()).ok()?;
        (read == *rule).then_some(())?;
        set.add(read).ok().map(drop)
    });
    stored.is_some() && decide_scene(&set, Mode::Default, scene).verdict == Verdict::Allow
}

fn shell(
    scene: &Scene<'_>,
    rules: &RuleSet,
    line: &Line,
    pattern: fn(&Command) -> Option<CommandPattern>,
) -> Option<Vec<Matcher>> {
    let mut matchers = Vec::new();
    let mut waiting: Vec<&Command> = line.commands.iter().rev().collect();
    while let Some(command) = waiting.pop() {
        match command.kind {
            Kind::Hidden(_) => return None,
            _ if command.words.is_empty() => {}
            _ if needs_no_rule(scene, command) || is_granted(rules, command) => {}
            // What a carrier runs is what matters.
            Kind::Carrier => waiting.extend(command.inner.iter().rev().flat_map(|inner| inner.commands.iter().rev())),
            Kind::Runner(_) => matchers.push(Matcher::Command(exact(command)?)),
            Kind::Plain => {
                let pattern = pattern(command)?;
                let inner = if pattern.open { command.inner.as_slice() } else { &[] };
                waiting.extend(inner.iter().rev().flat_map(|inner| inner.commands.iter().rev()));
                matchers.push(Matcher::Command(pattern));
            }
        }
    }
    let writes = line.files.iter().filter(|file| file.writes && !file.name.known().is_some_and(is_sink));
    for file in writes {
        let spot = scene.spot(file.name.known()?).ok()?;
        if !grants_file(rules, scene, &spot) {
            matchers.push(path("Edit", &spot, false, scene)?);
        }
    }
    Some(matchers)
}

/// All words, as they are.
fn exact(command: &Command) -> Option<CommandPattern> {
    let words = command.words.iter().map(|word| word.known().map(str::to_owned)).collect::<Option<Vec<_>>>()?;
    Some(CommandPattern { words, open: false })
}

/// The words that say what kind of command this is; exactly the command where that is not known.
fn prefix(command: &Command) -> Option<CommandPattern> {
    let known = |at: usize| command.words.get(at).and_then(|word| word.known());
    let (name, second) = (known(0)?, known(1).unwrap_or_default());
    let is_open = |(program, commands): &(&str, &[&str])| *program == name && commands.contains(&second);
    let is_script = || known(2).is_some_and(|script| script.starts_with(|c: char| c.is_ascii_alphabetic()));
    let length = if READERS.contains(&name) {
        Some(1)
    } else if BY_SECOND_WORD.iter().any(is_open) {
        Some(2)
    } else if SCRIPT_RUNNERS.contains(&name) && matches!(second, "run" | "run-script") && is_script() {
        Some(3)
    } else {
        None
    };
    match length {
        Some(length) if command.inner.is_empty() => {
            let words = (0..length).map(|at| known(at).map(str::to_owned)).collect::<Option<Vec<_>>>()?;
            Some(CommandPattern { words, open: true })
        }
        _ => exact(command),
    }
}

fn files(scene: &Scene<'_>, access: Access, spots: &[Spot]) -> Vec<Vec<Matcher>> {
    let tool = if access == Access::Write { "Edit" } else { "Read" };
    let mut choices = Vec::new();
    choices.extend(spots.iter().map(|spot| path(tool, spot, false, scene)).collect::<Option<Vec<_>>>());
    choices.extend(spots.iter().map(|spot| path(tool, spot, true, scene)).collect::<Option<Vec<_>>>());
    choices
}

/// A rule for this file, or for its directory. The directory must be one below the workspace: all of it would be too much.
fn path(tool: &str, spot: &Spot, directory: bool, scene: &Scene<'_>) -> Option<Matcher> {
    let file: &Path = spot.paths.first()?;
    let workspace = scene.ground().workspace.first()?;
    let wanted = if directory { file.parent()? } else { file };
    if directory && (!wanted.starts_with(workspace) || wanted == workspace) {
        return None;
    }
    let pattern = PathPattern::exact(wanted, directory, workspace)?;
    Some(Matcher::Path { tool: tool.to_owned(), pattern })
}
