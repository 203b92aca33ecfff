//! `hostler rules`: the book of the state directory, for people and scripts. No host is needed, and one that runs follows.

use std::path::{Path, PathBuf};

use hostler_rules::{
    Call, Decision, Disk, Effect, Mode, Page, Rule, RuleBook, RuleBookError, Scope, Verdict, Why, explain, judge,
    normalise,
};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::Io;
use crate::args::{RuleArgs, RuleEffect, RulesCommand};
use crate::console::{Console, Style, one_line};
use crate::environment::HostEnvironment;
use crate::exit::{Exit, Failure};
use crate::ports::Wiring;
use crate::settings::Settings;
use crate::state::StateDir;
use crate::visible::visible_line;

/// Lists, changes and tests rules.
pub(crate) async fn rules(
    command: &RulesCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, Failure> {
    let environment = &wiring.environment;
    match command {
        RulesCommand::List { .. } => list(&page(settings)?, settings.json, &mut io.console)?,
        RulesCommand::Add(args) => add(Change::new(args, environment)?, settings, io).await?,
        RulesCommand::Remove(args) => remove(Change::new(args, environment)?, settings, io).await?,
        RulesCommand::Test { call, .. } => test(call, wiring, settings, &mut io.console)?,
    }
    Ok(Exit::Done)
}

/// What the book says now. Looks and makes nothing.
fn page(settings: &Settings) -> Result<Page, Failure> {
    Ok(RuleBook::open(&settings.state_dir).map_err(in_trouble)?.page())
}

/// A rule, and the working directory that it is for, if not for all.
#[derive(Debug, Clone)]
struct Change {
    rule: Rule,
    directory: Option<PathBuf>,
}

impl Change {
    fn new(args: &RuleArgs, environment: &HostEnvironment) -> Result<Self, Failure> {
        let effect = match args.effect {
            RuleEffect::Allow => Effect::Allow,
            RuleEffect::Ask => Effect::Ask,
            RuleEffect::Deny => Effect::Deny,
        };
        // Sessions name their directory like this, and the rules of a directory are found by its name.
        let directory = args.workspace.as_ref().map(|path| normalise(&environment.absolute(path)));
        let scope = if directory.is_some() { Scope::Workspace } else { Scope::Global };
        let wrong = |error| Failure::new(Exit::Usage, one_line(&format!("{error}.")));
        Ok(Self { rule: Rule::parse(effect, scope, &args.rule).map_err(wrong)?, directory })
    }

    /// The change in a sentence.
    fn told(&self) -> String {
        let whom = match &self.directory {
            Some(directory) => format!("for sessions in {}", directory.display()),
            None => "for all sessions".to_owned(),
        };
        visible_line(&format!("{} {}, {whom}", word(self.rule.effect), self.rule))
    }
}

async fn add(change: Change, settings: &Settings, io: &mut Io) -> Result<(), Failure> {
    if let Some(directory) = change.directory.as_ref().filter(|directory| !directory.is_dir()) {
        return Err(Failure::new(Exit::Usage, format!("{} is not a directory.", directory.display())));
    }
    StateDir::open(&settings.state_dir)?;
    let told = change.told();
    let add = move |book: RuleBook| book.add(change.directory.as_deref(), std::slice::from_ref(&change.rule));
    let what = if edit(add, settings, io).await? { "Added" } else { "Already there" };
    io.console.note(&format!("{what}: {told}."), Style::Plain);
    Ok(())
}

async fn remove(change: Change, settings: &Settings, io: &mut Io) -> Result<(), Failure> {
    let told = change.told();
    let remove = move |book: RuleBook| book.remove(change.directory.as_deref(), &change.rule);
    // Where there is no directory there is no rule, and nothing is made.
    if !settings.state_dir.is_dir() || !edit(remove, settings, io).await? {
        let text = format!("There is no rule to {told}: `hostler rules list` shows those that are.");
        return Err(Failure::new(Exit::Failed, text));
    }
    io.console.note(&format!("Removed: {told}."), Style::Plain);
    Ok(())
}

/// Changes the book. Somebody else may be writing it: that wait can be interrupted.
async fn edit(
    change: impl FnOnce(RuleBook) -> Result<bool, RuleBookError> + Send + 'static,
    settings: &Settings,
    io: &mut Io,
) -> Result<bool, Failure> {
    let state_dir = settings.state_dir.clone();
    let work = tokio::task::spawn_blocking(move || RuleBook::open(&state_dir).and_then(change));
    io.signals.unless(work).await?.map_err(std::io::Error::other)?.map_err(in_trouble)
}

/// A rule, as scripts see it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    effect: Effect,
    scope: Scope,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<&'a Path>,
    rule: String,
}

fn list(page: &Page, json: bool, console: &mut Console) -> Result<(), Failure> {
    if json {
        let rules: Vec<Listed<'_>> = page.iter().map(listed).collect();
        let text = serde_json::to_string_pretty(&rules).map_err(std::io::Error::other)?;
        return Ok(console.out(&format!("{text}\n"))?);
    }
    let rows: Vec<[String; 4]> = page.iter().map(row).collect();
    if rows.is_empty() {
        console.note("There are no rules: `hostler rules add --help` shows how to add one.", Style::Dim);
        return Ok(());
    }
    let header = ["EFFECT", "SCOPE", "RULE", "DIRECTORY"].map(str::to_owned);
    let mut widths = [0; 4];
    for row in std::iter::once(&header).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    console.out_line(&line(&header, widths), Style::Bold)?;
    rows.iter().try_for_each(|row| Ok(console.out_line(&line(row, widths), Style::Plain)?))
}

fn listed<'a>((directory, rule): (Option<&'a Path>, &Rule)) -> Listed<'a> {
    let scope = if directory.is_some() { Scope::Workspace } else { Scope::Global };
    Listed { effect: rule.effect, scope, directory, rule: rule.to_string() }
}

fn row((directory, rule): (Option<&Path>, &Rule)) -> [String; 4] {
    let (scope, directory) = match directory {
        Some(directory) => ("workspace", visible_line(&directory.display().to_string())),
        None => ("global", String::new()),
    };
    [word(rule.effect).to_owned(), scope.to_owned(), visible_line(&rule.to_string()), directory]
}

fn line(row: &[String; 4], widths: [usize; 4]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.width())));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// Says what the host would do about a call.
fn test(call: &str, wiring: &Wiring, settings: &Settings, console: &mut Console) -> Result<(), Failure> {
    let directory = normalise(&settings.cwd);
    let wrong = |error| Failure::new(Exit::Usage, one_line(&format!("This is not a call: {error}.")));
    let own = wiring.environment.own_directories(&settings.state_dir);
    let call = Call::parse(call, &directory).map_err(wrong)?.with_home(&wiring.environment.home);
    let call = call.with_own_directories(own);
    let mode = mode(settings)?;
    let rules = page(settings)?.rules_for(&directory).map_err(|error| in_trouble(error.into()))?;
    let decision = judge(&rules, mode, &call, wiring.plans.as_deref(), &Disk);
    if settings.json {
        let text = serde_json::to_string(&Tested::from(&decision)).map_err(std::io::Error::other)?;
        return Ok(console.out(&format!("{text}\n"))?);
    }
    let style = match decision.verdict {
        Verdict::Allow => Style::Green,
        Verdict::Ask | Verdict::Leave => Style::Yellow,
        Verdict::Deny => Style::Red,
    };
    let said = explain(&decision);
    for (at, sentence) in said.iter().enumerate() {
        let (indent, style) = if at == 0 { ("", style) } else { ("  ", Style::Plain) };
        console.out_line(&format!("{indent}{}", visible_line(sentence)), style)?;
    }
    Ok(())
}

/// A decision, as scripts see it.
#[derive(Serialize)]
struct Tested {
    decision: &'static str,
    reason: String,
    /// The rule that decided; nothing if none did.
    rule: Option<String>,
}

impl From<&Decision> for Tested {
    fn from(decision: &Decision) -> Self {
        let rule = decision.why.iter().find_map(|why| match why {
            Why::Rule { rule, .. } => Some(rule.to_string()),
            Why::Opaque { .. } | Why::Mode { .. } | Why::NoRule { .. } => None,
        });
        let word = match decision.verdict {
            Verdict::Allow => "allow",
            Verdict::Ask | Verdict::Leave => "ask",
            Verdict::Deny => "deny",
        };
        Self { decision: word, reason: explain(decision).join(" "), rule }
    }
}

/// The permission mode of the settings.
fn mode(settings: &Settings) -> Result<Mode, Failure> {
    let Some(name) = &settings.permission_mode else { return Ok(Mode::default()) };
    serde_json::from_value(serde_json::Value::String(name.clone())).map_err(|_| {
        let modes = "default, acceptEdits, plan, dontAsk or bypassPermissions";
        Failure::new(Exit::Usage, format!("There is no permission mode {}: choose {modes}.", one_line(name)))
    })
}

fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allow",
        Effect::Ask => "ask",
        Effect::Deny => "deny",
    }
}

fn in_trouble(error: RuleBookError) -> Failure {
    Failure::new(Exit::Failed, format!("That failed: {error}."))
}
