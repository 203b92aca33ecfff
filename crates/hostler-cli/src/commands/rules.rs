//! `hostler rules`: lists, edits and tests the rules of the state directory. It needs no host; a running host
//! follows the file.

use std::path::{Path, PathBuf};

use hostler_rules::{
    Decision, DecisionOutcome, DecisionReason, DiskResolver, Effect, PermissionMode, Rule, RuleScope, RuleStore,
    RuleStoreError, RuleStoreSnapshot, ToolUse, decide_or_ask, explain, normalize_path,
};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::run::not_a_directory;
use super::trust::to_sentence_start;
use crate::Io;
use crate::args::{RuleArgs, RuleEffect, RulesCommand};
use crate::console::{Console, TextStyle, to_one_line};
use crate::environment::HostEnvironment;
use crate::escape_text::escape_invisible_line;
use crate::exit::{CommandFailure, Exit};
use crate::ports::Wiring;
use crate::settings::Settings;
use crate::state::StateDir;

/// Runs `hostler rules`.
pub(crate) async fn run_rules_command(
    command: &RulesCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let environment = &wiring.environment;
    match command {
        RulesCommand::List { .. } => print_rules(&load_rules(settings)?, settings.json, &mut io.console)?,
        RulesCommand::Add(args) => add_rule(RuleChange::new(args, environment)?, settings, io).await?,
        RulesCommand::Remove(args) => remove_rule(RuleChange::new(args, environment)?, settings, io).await?,
        RulesCommand::Test { call, .. } => test_rules(call, wiring, settings, &mut io.console)?,
    }
    Ok(Exit::Done)
}

/// Loads the rules, without creating anything.
fn load_rules(settings: &Settings) -> Result<RuleStoreSnapshot, CommandFailure> {
    Ok(RuleStore::open(&settings.state_dir).map_err(rule_store_failure)?.snapshot())
}

/// Rule, and the working directory that it is limited to, if any.
#[derive(Debug, Clone)]
struct RuleChange {
    rule: Rule,
    directory: Option<PathBuf>,
}

impl RuleChange {
    fn new(args: &RuleArgs, environment: &HostEnvironment) -> Result<Self, CommandFailure> {
        let effect = match args.effect {
            RuleEffect::Allow => Effect::Allow,
            RuleEffect::Ask => Effect::Ask,
            RuleEffect::Deny => Effect::Deny,
        };
        // Sessions name their directory in this form, and a directory's rules are looked up by that name.
        let directory = args.workspace.as_ref().map(|path| normalize_path(&environment.resolve_path(path)));
        let scope = if directory.is_some() { RuleScope::Workspace } else { RuleScope::Global };
        let invalid = |error| CommandFailure::new(Exit::Usage, "invalidRule", to_one_line(&format!("{error}.")));
        Ok(Self { rule: Rule::parse(effect, scope, &args.rule).map_err(invalid)?, directory })
    }

    /// Describes the change in a sentence.
    fn describe(&self) -> String {
        let scope = match &self.directory {
            Some(directory) => format!("for sessions in {}", directory.display()),
            None => "for all sessions".to_owned(),
        };
        escape_invisible_line(&format!("{} {}, {scope}", effect_name(self.rule.effect), self.rule))
    }
}

async fn add_rule(change: RuleChange, settings: &Settings, io: &mut Io) -> Result<(), CommandFailure> {
    if let Some(directory) = change.directory.as_ref().filter(|directory| !directory.is_dir()) {
        return Err(not_a_directory(directory));
    }
    StateDir::open(&settings.state_dir)?;
    let description = change.describe();
    let add = move |store: RuleStore| store.add(change.directory.as_deref(), std::slice::from_ref(&change.rule));
    let what = if edit_rules(add, settings, io).await? { "Added" } else { "Already exists" };
    io.console.write_note(&format!("{what}: {description}."), TextStyle::Plain);
    Ok(())
}

async fn remove_rule(change: RuleChange, settings: &Settings, io: &mut Io) -> Result<(), CommandFailure> {
    let description = change.describe();
    let remove = move |store: RuleStore| store.remove(change.directory.as_deref(), &change.rule);
    // Without a state directory there is no rule, and none is created.
    if !settings.state_dir.is_dir() || !edit_rules(remove, settings, io).await? {
        let text = format!("Rule not found: {description}. List all rules with `hostler rules list`.");
        return Err(CommandFailure::new(Exit::Failed, "ruleNotFound", text));
    }
    io.console.write_note(&format!("Removed: {description}."), TextStyle::Plain);
    Ok(())
}

/// Edits the rules. Another process may be writing them; waiting for it can be interrupted.
async fn edit_rules(
    change: impl FnOnce(RuleStore) -> Result<bool, RuleStoreError> + Send + 'static,
    settings: &Settings,
    io: &mut Io,
) -> Result<bool, CommandFailure> {
    let state_dir = settings.state_dir.clone();
    let work = tokio::task::spawn_blocking(move || RuleStore::open(&state_dir).and_then(change));
    io.signals.run_or_interrupt(work).await?.map_err(std::io::Error::other)?.map_err(rule_store_failure)
}

/// Rule in JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleListItem<'a> {
    effect: Effect,
    scope: RuleScope,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<&'a Path>,
    rule: String,
}

fn print_rules(rules: &RuleStoreSnapshot, json: bool, console: &mut Console) -> Result<(), CommandFailure> {
    if json {
        let items: Vec<RuleListItem<'_>> = rules.iter().map(to_list_item).collect();
        let text = serde_json::to_string_pretty(&items).map_err(std::io::Error::other)?;
        return Ok(console.write_out(&format!("{text}\n"))?);
    }
    let rows: Vec<[String; 4]> = rules.iter().map(to_table_row).collect();
    if rows.is_empty() {
        console.write_note("No rules. Add one with `hostler rules add`.", TextStyle::Dim);
        return Ok(());
    }
    let header = ["EFFECT", "SCOPE", "RULE", "DIRECTORY"].map(str::to_owned);
    let mut widths = [0; 4];
    for row in std::iter::once(&header).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    console.write_out_line(&format_table_line(&header, widths), TextStyle::Bold)?;
    rows.iter().try_for_each(|row| Ok(console.write_out_line(&format_table_line(row, widths), TextStyle::Plain)?))
}

fn to_list_item<'a>((directory, rule): (Option<&'a Path>, &Rule)) -> RuleListItem<'a> {
    let scope = if directory.is_some() { RuleScope::Workspace } else { RuleScope::Global };
    RuleListItem { effect: rule.effect, scope, directory, rule: rule.to_string() }
}

fn to_table_row((directory, rule): (Option<&Path>, &Rule)) -> [String; 4] {
    let (scope, directory) = match directory {
        Some(directory) => ("workspace", escape_invisible_line(&directory.display().to_string())),
        None => ("global", String::new()),
    };
    [effect_name(rule.effect).to_owned(), scope.to_owned(), escape_invisible_line(&rule.to_string()), directory]
}

fn format_table_line(row: &[String; 4], widths: [usize; 4]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.width())));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// Prints the decision for a call.
fn test_rules(call: &str, wiring: &Wiring, settings: &Settings, console: &mut Console) -> Result<(), CommandFailure> {
    let directory = normalize_path(&settings.cwd);
    let invalid = |error| {
        CommandFailure::new(Exit::Usage, "invalidToolCall", to_one_line(&format!("Invalid tool call: {error}.")))
    };
    let own = wiring.environment.private_directories(&settings.state_dir);
    let call = ToolUse::parse(call, &directory).map_err(invalid)?.with_home(&wiring.environment.home);
    let call = call.with_host_directories(own);
    let mode = parse_permission_mode(settings)?;
    let rules = load_rules(settings)?.rules_for(&directory).map_err(|error| rule_store_failure(error.into()))?;
    let decision = decide_or_ask(&rules, mode, &call, wiring.plans_dir.as_deref(), &DiskResolver);
    if settings.json {
        let text = serde_json::to_string(&RuleTestResult::from(&decision)).map_err(std::io::Error::other)?;
        return Ok(console.write_out(&format!("{text}\n"))?);
    }
    let style = match decision.outcome {
        DecisionOutcome::Allow => TextStyle::Green,
        DecisionOutcome::Ask | DecisionOutcome::Undecided => TextStyle::Yellow,
        DecisionOutcome::Deny => TextStyle::Red,
    };
    let sentences = explain(&decision);
    for (at, sentence) in sentences.iter().enumerate() {
        let (indent, style) = if at == 0 { ("", style) } else { ("  ", TextStyle::Plain) };
        console.write_out_line(&format!("{indent}{}", escape_invisible_line(sentence)), style)?;
    }
    Ok(())
}

/// Decision in JSON output.
#[derive(Serialize)]
struct RuleTestResult {
    decision: &'static str,
    reason: String,
    /// Rule that decided; null if none did.
    rule: Option<String>,
}

impl From<&Decision> for RuleTestResult {
    fn from(decision: &Decision) -> Self {
        let rule = decision.reasons.iter().find_map(|reason| match reason {
            DecisionReason::Rule { rule, .. } => Some(rule.to_string()),
            DecisionReason::Unanalyzable { .. } | DecisionReason::Mode { .. } | DecisionReason::NoRule { .. } => None,
        });
        let outcome = match decision.outcome {
            DecisionOutcome::Allow => "allow",
            DecisionOutcome::Ask | DecisionOutcome::Undecided => "ask",
            DecisionOutcome::Deny => "deny",
        };
        Self { decision: outcome, reason: explain(decision).join(" "), rule }
    }
}

/// Parses the permission mode of the settings.
fn parse_permission_mode(settings: &Settings) -> Result<PermissionMode, CommandFailure> {
    let Some(name) = &settings.permission_mode else { return Ok(PermissionMode::default()) };
    serde_json::from_value(serde_json::Value::String(name.clone())).map_err(|_| {
        let modes = "default, acceptEdits, plan, dontAsk, bypassPermissions";
        let text = format!("Unknown permission mode: {}. Choose one of: {modes}.", to_one_line(name));
        CommandFailure::new(Exit::Usage, "invalidPermissionMode", text)
    })
}

fn effect_name(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allow",
        Effect::Ask => "ask",
        Effect::Deny => "deny",
    }
}

fn rule_store_failure(error: RuleStoreError) -> CommandFailure {
    CommandFailure::new(Exit::Failed, error.code(), format!("{}.", to_sentence_start(&error.to_string())))
}
