//! Rules to suggest to a person instead of asking again. Each is narrow: it allows this call, and no other kind of
//! call.

use std::path::Path;

use crate::decide::{DecisionOutcome, PermissionMode, decide_in_context};
use crate::matching::{grants_write, is_granted, needs_no_rule};
use crate::path::{CandidatePaths, PathResolver};
use crate::path_pattern::PathPattern;
use crate::rule::{CommandPattern, DomainPattern, Effect, Matcher, Rule, RuleScope};
use crate::rule_set::RuleSet;
use crate::shell::{CommandKind, CommandLine, ShellCommand, is_output_device_path};
use crate::tool_use::{DecisionContext, PathAccess, ToolTarget, ToolUse};

/// A choice: these rules together allow the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSuggestion {
    /// The rules, all of which allow.
    pub rules: Vec<Rule>,
}

impl RuleSuggestion {
    /// The same rules in another scope.
    #[must_use]
    pub fn with_scope(&self, scope: RuleScope) -> Self {
        Self { rules: self.rules.iter().map(|rule| Rule { scope, ..rule.clone() }).collect() }
    }
}

/// Maximum number of rules in one suggestion; a person must be able to read them.
const MAX_SUGGESTED_RULES: usize = 5;

/// Commands whose further words neither write nor run more than the command itself, so that a rule may leave them open.
const PREFIX_SUBCOMMANDS: [(&str, &[&str]); 5] = [
    ("cargo", &["bench", "build", "clippy", "test"]),
    ("git", &["add", "checkout", "commit", "merge", "pull", "push", "restore", "switch"]),
    ("npm", &["ls", "outdated", "test"]),
    ("pnpm", &["test"]),
    ("yarn", &["test"]),
];

/// Programs that run a script of the project by its name.
const SCRIPT_RUNNERS: [&str; 4] = ["bun", "npm", "pnpm", "yarn"];

/// Programs without options that write or run anything, so that a rule may leave all their words open.
const PREFIX_PROGRAMS: [&str; 11] = ["cat", "cut", "diff", "du", "grep", "head", "ls", "stat", "tail", "wc", "which"];

/// Finds rules that would have allowed this call, the narrowest first. There are none for unanalyzable calls.
pub fn suggest_rules(call: &ToolUse, scope: RuleScope, resolver: &dyn PathResolver) -> Vec<RuleSuggestion> {
    suggest_additional_rules(&RuleSet::default(), call, scope, resolver)
}

/// Finds rules that would have allowed this call together with the existing ones, the narrowest first. Covers only
/// parts that no rule allows and that need one.
pub fn suggest_additional_rules(
    rules: &RuleSet,
    call: &ToolUse,
    scope: RuleScope,
    resolver: &dyn PathResolver,
) -> Vec<RuleSuggestion> {
    let scene = DecisionContext::new(call, resolver);
    let choices: Vec<Vec<Matcher>> = match &scene.target {
        ToolTarget::Shell(line) => [exact_pattern as fn(&ShellCommand) -> Option<CommandPattern>, prefix_pattern]
            .into_iter()
            .filter_map(|pattern| suggest_for_shell(&scene, rules, line, pattern))
            .collect(),
        ToolTarget::Files(access, spots) => suggest_for_files(&scene, *access, spots),
        ToolTarget::Host(host) => {
            vec![vec![Matcher::Domain(DomainPattern { host: host.clone(), subdomains_only: false })]]
        }
        ToolTarget::ToolOnly if call.is_mcp() => vec![vec![Matcher::Mcp { name: call.tool.clone(), is_prefix: false }]],
        ToolTarget::ToolOnly => vec![vec![Matcher::Tool(call.tool.clone())]],
        ToolTarget::Unanalyzable(_) => Vec::new(),
    };
    let mut found: Vec<RuleSuggestion> = Vec::new();
    for matchers in choices {
        let suggested = matchers.into_iter().map(|matcher| Rule { effect: Effect::Allow, matcher, scope });
        let Some(suggested) = collect_distinct(suggested) else {
            continue;
        };
        let suggestion = RuleSuggestion { rules: suggested };
        // A suggestion is checked as it will be stored: by its text.
        if !found.contains(&suggestion) && is_sufficient(&suggestion, rules, &scene) {
            found.push(suggestion);
        }
    }
    found
}

fn collect_distinct(rules: impl Iterator<Item = Rule>) -> Option<Vec<Rule>> {
    let mut found: Vec<Rule> = Vec::new();
    for rule in rules {
        if !found.contains(&rule) {
            found.push(rule);
        }
    }
    (1..=MAX_SUGGESTED_RULES).contains(&found.len()).then_some(found)
}

fn is_sufficient(suggestion: &RuleSuggestion, rules: &RuleSet, scene: &DecisionContext<'_>) -> bool {
    let mut set = rules.clone();
    let stored = suggestion.rules.iter().try_for_each(|rule| {
        let read = Rule::parse(rule.effect, rule.scope, &rule.to_string()).ok()?;
        (read == *rule).then_some(())?;
        set.add(read).ok().map(drop)
    });
    stored.is_some() && decide_in_context(&set, PermissionMode::Default, scene).outcome == DecisionOutcome::Allow
}

fn suggest_for_shell(
    scene: &DecisionContext<'_>,
    rules: &RuleSet,
    line: &CommandLine,
    pattern: fn(&ShellCommand) -> Option<CommandPattern>,
) -> Option<Vec<Matcher>> {
    let mut matchers = Vec::new();
    let mut waiting: Vec<&ShellCommand> = line.commands.iter().rev().collect();
    while let Some(command) = waiting.pop() {
        match command.kind {
            CommandKind::Unanalyzable(_) => return None,
            _ if command.words.is_empty() => {}
            _ if needs_no_rule(scene, command) || is_granted(rules, command) => {}
            // For a wrapper, the command that it runs gets the rule.
            CommandKind::Wrapper => {
                waiting.extend(command.nested.iter().rev().flat_map(|inner| inner.commands.iter().rev()))
            }
            CommandKind::Launcher(_) => matchers.push(Matcher::Command(exact_pattern(command)?)),
            CommandKind::Plain => {
                let pattern = pattern(command)?;
                let inner = if pattern.is_prefix { command.nested.as_slice() } else { &[] };
                waiting.extend(inner.iter().rev().flat_map(|inner| inner.commands.iter().rev()));
                matchers.push(Matcher::Command(pattern));
            }
        }
    }
    let writes = line
        .redirections
        .iter()
        .filter(|file| file.writes && !file.target.as_literal().is_some_and(is_output_device_path));
    for file in writes {
        let spot = scene.resolve_path(file.target.as_literal()?).ok()?;
        if !grants_write(rules, scene, &spot) {
            matchers.push(path_matcher("Edit", &spot, false, scene)?);
        }
    }
    Some(matchers)
}

/// A pattern of all words.
fn exact_pattern(command: &ShellCommand) -> Option<CommandPattern> {
    let words = command.words.iter().map(|word| word.as_literal().map(str::to_owned)).collect::<Option<Vec<_>>>()?;
    Some(CommandPattern { words, is_prefix: false })
}

/// A pattern of the words that identify the kind of command; of all words if those are not known.
fn prefix_pattern(command: &ShellCommand) -> Option<CommandPattern> {
    let known = |at: usize| command.words.get(at).and_then(|word| word.as_literal());
    let (name, second) = (known(0)?, known(1).unwrap_or_default());
    let is_open = |(program, commands): &(&str, &[&str])| *program == name && commands.contains(&second);
    let is_script = || known(2).is_some_and(|script| script.starts_with(|c: char| c.is_ascii_alphabetic()));
    let length = if PREFIX_PROGRAMS.contains(&name) {
        Some(1)
    } else if PREFIX_SUBCOMMANDS.iter().any(is_open) {
        Some(2)
    } else if SCRIPT_RUNNERS.contains(&name) && matches!(second, "run" | "run-script") && is_script() {
        Some(3)
    } else {
        None
    };
    match length {
        Some(length) if command.nested.is_empty() => {
            let words = (0..length).map(|at| known(at).map(str::to_owned)).collect::<Option<Vec<_>>>()?;
            Some(CommandPattern { words, is_prefix: true })
        }
        _ => exact_pattern(command),
    }
}

fn suggest_for_files(scene: &DecisionContext<'_>, access: PathAccess, spots: &[CandidatePaths]) -> Vec<Vec<Matcher>> {
    let tool = if access == PathAccess::Write { "Edit" } else { "Read" };
    let mut choices = Vec::new();
    choices.extend(spots.iter().map(|spot| path_matcher(tool, spot, false, scene)).collect::<Option<Vec<_>>>());
    choices.extend(spots.iter().map(|spot| path_matcher(tool, spot, true, scene)).collect::<Option<Vec<_>>>());
    choices
}

/// A rule for this file, or for its directory. The directory must be below the workspace, because the whole workspace
/// would be too broad.
fn path_matcher(tool: &str, spot: &CandidatePaths, directory: bool, scene: &DecisionContext<'_>) -> Option<Matcher> {
    let file: &Path = spot.paths.first()?;
    let workspace = scene.pattern_bases().workspace.first()?;
    let wanted = if directory { file.parent()? } else { file };
    if directory && (!wanted.starts_with(workspace) || wanted == workspace) {
        return None;
    }
    let pattern = PathPattern::for_path(wanted, directory, workspace)?;
    Some(Matcher::Path { tool: tool.to_owned(), pattern })
}
