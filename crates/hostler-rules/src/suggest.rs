//! Rules to offer to a person who is tired of being asked. Each is narrow: it allows this call, and no other kind of it.

use std::path::Path;

use crate::call::{Access, Call, Scene, Touched};
use crate::decide::{Mode, Verdict, decide};
use crate::glob::PathPattern;
use crate::path::{Resolver, Spot};
use crate::rule::{CommandPattern, Domain, Effect, Matcher, Rule, Scope};
use crate::set::RuleSet;
use crate::shell::readonly::is_sink;
use crate::shell::{Command, Kind, Line};

/// A choice: these rules together allow the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The rules, all of which allow.
    pub rules: Vec<Rule>,
}

/// How many rules one choice may consist of; a person must be able to read them.
const MOST_RULES: usize = 5;

/// Programs whose second word says what they do, so that a rule may leave the rest open.
const BY_SECOND_WORD: [&str; 17] = [
    "apt", "brew", "bun", "cargo", "deno", "docker", "dotnet", "gh", "git", "go", "kubectl", "npm", "pip", "pnpm",
    "poetry", "uv", "yarn",
];

/// Programs that only read, so that a rule may leave all their words open.
const READERS: [&str; 14] =
    ["cat", "cut", "diff", "du", "file", "grep", "head", "ls", "rg", "stat", "tail", "tree", "wc", "which"];

/// Second words that run anything at all; the third one says what.
const RUNS_ANYTHING: [&str; 6] = ["run", "exec", "x", "dlx", "tool", "run-script"];

/// Finds rules that would have allowed this call, the narrowest first. There are none for what cannot be seen.
pub fn suggest(call: &Call, scope: Scope, resolver: &dyn Resolver) -> Vec<Suggestion> {
    let scene = Scene::new(call, resolver);
    let choices: Vec<Vec<Matcher>> = match &scene.touched {
        Touched::Shell(line) => [exact as fn(&Command) -> Option<CommandPattern>, prefix]
            .into_iter()
            .filter_map(|pattern| shell(&scene, line, pattern))
            .collect(),
        Touched::Files(access, spots) => files(&scene, *access, spots),
        Touched::Host(host) => vec![vec![Matcher::Domain(Domain { host: host.clone(), below: false })]],
        Touched::Nothing if call.is_mcp() => vec![vec![Matcher::Mcp { name: call.tool.clone(), open: false }]],
        Touched::Nothing => vec![vec![Matcher::Tool(call.tool.clone())]],
        Touched::Opaque(_) => Vec::new(),
    };
    let mut found: Vec<Suggestion> = Vec::new();
    for matchers in choices {
        let rules = matchers.into_iter().map(|matcher| Rule { effect: Effect::Allow, matcher, scope });
        let Some(rules) = distinct(rules) else {
            continue;
        };
        let suggestion = Suggestion { rules };
        // What is offered must work, as it will be stored: by its text.
        if !found.contains(&suggestion) && works(&suggestion, call, resolver) {
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

fn works(suggestion: &Suggestion, call: &Call, resolver: &dyn Resolver) -> bool {
    let mut set = RuleSet::default();
    let stored = suggestion.rules.iter().try_for_each(|rule| {
        let read = Rule::parse(rule.effect, rule.scope, &rule.to_string()).ok()?;
        (read == *rule).then_some(())?;
        set.add(read).ok().map(drop)
    });
    stored.is_some() && decide(&set, Mode::Default, call, resolver).verdict == Verdict::Allow
}

fn shell(scene: &Scene<'_>, line: &Line, pattern: fn(&Command) -> Option<CommandPattern>) -> Option<Vec<Matcher>> {
    let mut matchers = Vec::new();
    let mut waiting: Vec<&Command> = line.commands.iter().rev().collect();
    while let Some(command) = waiting.pop() {
        match command.kind {
            Kind::Hidden(_) => return None,
            _ if command.words.is_empty() => {}
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
        matchers.push(path("Edit", &spot, false, scene)?);
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
    let name = known(0)?;
    let plain = |at: usize| known(at).filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    let length = if READERS.contains(&name) {
        Some(1)
    } else if BY_SECOND_WORD.contains(&name) {
        match plain(1) {
            Some(second) if RUNS_ANYTHING.contains(&second) => plain(2).map(|_| 3),
            Some(_) => Some(2),
            None => None,
        }
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
