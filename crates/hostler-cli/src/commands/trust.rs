//! `hostler trust` and `hostler run --trust`: decisions about folders' own configuration, in the state directory.
//!
//! These commands need no host; a running host follows the file. A folder's configuration comes through a port
//! ([`Wiring::folder_inspector`]); this module does not read a folder itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostler_driver::ConfigurationItem;
use hostler_rules::normalize_path;
use hostler_trust::{
    TrustAssessment, TrustDecision, TrustEntry, TrustError, TrustListing, TrustOptions, TrustState, TrustStore,
    TrustedBy,
};
use serde_json::json;

use super::sessions::{is_interactive, print_json, read_confirmation};
use crate::Io;
use crate::args::TrustCommand;
use crate::console::{Console, TextStyle};
use crate::environment::HostEnvironment;
use crate::escape_text::escape_invisible_line;
use crate::exit::{CommandFailure, Exit};
use crate::ports::Wiring;
use crate::settings::Settings;
use crate::state::StateDir;

/// Maximum number of items that are listed before a question; `check` lists all.
const MAX_LISTED_ITEMS: usize = 200;

/// Runs `hostler trust`.
pub(crate) async fn run_trust_command(
    command: &TrustCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let folders = FolderTrust::new(wiring, settings);
    match command {
        TrustCommand::List { .. } => list_decisions(&folders, settings, io).await?,
        TrustCommand::Add { path, subfolders, yes, .. } => {
            let decision = if *subfolders { TrustDecision::TrustSubfolders } else { TrustDecision::Trust };
            add_decision(path, decision, *yes, &folders, &wiring.environment, settings, io).await?;
        }
        TrustCommand::Remove { path, .. } => {
            return remove_decision(path, &folders, &wiring.environment, settings, io).await;
        }
        TrustCommand::Check { path, .. } => {
            let path = path.as_deref().unwrap_or(Path::new(""));
            return check_folder(wiring.environment.resolve_path(path), &folders, settings, io).await;
        }
    }
    Ok(Exit::Done)
}

/// Decisions of a state directory, and the inspection of folders.
#[derive(Clone)]
pub(crate) struct FolderTrust {
    state_dir: PathBuf,
    options: Arc<TrustOptions>,
    inspect: crate::ports::FolderInspector,
}

impl FolderTrust {
    pub(crate) fn new(wiring: &Wiring, settings: &Settings) -> Self {
        let home = Some(wiring.environment.home.clone());
        Self {
            state_dir: settings.state_dir.clone(),
            options: Arc::new(TrustOptions { trusted_folders: settings.trusted_folders.clone(), home }),
            inspect: Arc::clone(&wiring.folder_inspector),
        }
    }

    /// Runs an operation on the decisions. It reads folders and waits for other writers; it can be interrupted.
    async fn with_store<T: Send + 'static>(
        &self,
        io: &mut Io,
        act: impl FnOnce(&TrustStore) -> Result<T, TrustError> + Send + 'static,
    ) -> Result<T, CommandFailure> {
        let Self { state_dir, options, .. } = self.clone();
        let work = tokio::task::spawn_blocking(move || act(&TrustStore::open(&state_dir, &options)));
        io.signals.run_or_interrupt(work).await?.map_err(std::io::Error::other)?.map_err(trust_failure)
    }

    async fn assess(&self, directory: PathBuf, io: &mut Io) -> Result<TrustAssessment, CommandFailure> {
        let inspect = Arc::clone(&self.inspect);
        self.with_store(io, move |store| store.assess(&directory, |real| inspect(real))).await
    }
}

fn trust_failure(error: TrustError) -> CommandFailure {
    let exit = match error {
        TrustError::NotAFolder { .. } | TrustError::TooBroad { .. } | TrustError::TooBroadWithSubfolders { .. } => {
            Exit::Usage
        }
        _ => Exit::Failed,
    };
    CommandFailure::new(exit, error.code(), format!("{}.", to_sentence_start(&error.to_string())))
}

/// Returns whether the path was typed in full: absolute, without `..`, and no link except for the home folder
/// itself.
fn is_path_explicit(written: &Path, assessment: &TrustAssessment, environment: &HostEnvironment) -> bool {
    written.is_absolute() && (written == assessment.directory || written == environment.home)
}

/// Trusts the working directory of a new session as it is now.
pub(crate) async fn trust_working_directory(
    written: Option<&Path>,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<(), CommandFailure> {
    let folders = FolderTrust::new(wiring, settings);
    let assessment = folders.assess(settings.cwd.clone(), io).await?;
    if matches!(assessment.state, TrustState::Empty | TrustState::Trusted(_)) {
        return Ok(());
    }
    StateDir::open(&settings.state_dir)?;
    let is_explicit = written.is_some_and(|written| is_path_explicit(written, &assessment, &wiring.environment));
    folders.with_store(io, move |store| store.decide(&assessment, TrustDecision::Trust, is_explicit)).await
}

/// Returns the note about a folder whose configuration is ignored: there is no person to ask, or it may not be trusted.
pub(crate) async fn ignored_configuration_note(
    directory: PathBuf,
    is_attended: bool,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Option<String>, CommandFailure> {
    // The folder of an older session may no longer exist; then there is nothing to ignore.
    let Ok(assessment) = FolderTrust::new(wiring, settings).assess(directory, io).await else { return Ok(None) };
    let folder = escape_invisible_line(&assessment.directory.display().to_string());
    Ok(match &assessment.state {
        TrustState::Undecided | TrustState::Changed(_) if !is_attended => {
            let reason =
                if matches!(assessment.state, TrustState::Undecided) { "is not trusted" } else { "has changed" };
            Some(format!(
                "Ignored the configuration of {folder} ({}): it {reason}. Review it with `hostler trust check`, then trust it \
                 with `hostler trust add` or --trust.",
                count_by_kind(&assessment.configuration.items)
            ))
        }
        TrustState::Refused(reason) => Some(format!(
            "Ignored the configuration of {folder}: {}.",
            escape_invisible_line(reason).trim_end_matches('.')
        )),
        _ => None,
    })
}

async fn list_decisions(folders: &FolderTrust, settings: &Settings, io: &mut Io) -> Result<(), CommandFailure> {
    // Without a state directory there is no decision, and reading does not create one.
    let entries = match settings.state_dir.is_dir() {
        true => folders.with_store(io, TrustStore::entries).await?,
        false => Vec::new(),
    };
    if settings.json {
        return print_json(&TrustListing::new(&entries, &settings.trusted_folders), io);
    }
    if entries.is_empty() && settings.trusted_folders.is_empty() {
        io.console.write_note("No trusted folders. Add one with `hostler trust add PATH`.", TextStyle::Dim);
    }
    for entry in &entries {
        io.console.write_out_line(&format_entry(entry), TextStyle::Plain)?;
    }
    for folder in &settings.trusted_folders {
        let folder = escape_invisible_line(&folder.display().to_string());
        io.console.write_out_line(&format!("trusted      {folder}  (setting trusted-folders)"), TextStyle::Plain)?;
    }
    Ok(())
}

fn format_entry(entry: &TrustEntry) -> String {
    let decision = match entry.decision {
        TrustDecision::Trust | TrustDecision::TrustSubfolders => "trusted",
        TrustDecision::Restrict => "not trusted",
    };
    let details = match (&entry.inherited_from, entry.decision) {
        (Some(parent), _) => format!("  (inherited from {})", escape_invisible_line(&parent.display().to_string())),
        (None, TrustDecision::TrustSubfolders) => "  (with subfolders)".to_owned(),
        _ => String::new(),
    };
    let folder = escape_invisible_line(&entry.path.display().to_string());
    format!("{decision:<11}  {folder}{details}")
}

async fn add_decision(
    path: &Path,
    decision: TrustDecision,
    yes: bool,
    folders: &FolderTrust,
    environment: &HostEnvironment,
    settings: &Settings,
    io: &mut Io,
) -> Result<(), CommandFailure> {
    if !yes && !is_interactive(environment) {
        return Err(CommandFailure::new(
            Exit::Usage,
            "confirmationRequired",
            "Not running in a terminal. Pass --yes to trust the folder.",
        ));
    }
    let assessment = folders.assess(environment.resolve_path(path), io).await?;
    let is_explicit = is_path_explicit(path, &assessment, environment);
    if !settings.json || !yes {
        print_assessment(&assessment, decision, &mut io.console);
    }
    if !yes {
        io.console.write_note("Trust this folder? [y/N]", TextStyle::Bold);
        if !io.signals.run_or_interrupt(read_confirmation(&mut io.stdin)).await?? {
            return Err(CommandFailure::new(Exit::Failed, "notConfirmed", "Canceled. Nothing was changed."));
        }
    }
    StateDir::open(&settings.state_dir)?;
    let directory = assessment.directory.clone();
    folders.with_store(io, move |store| store.decide(&assessment, decision, is_explicit)).await?;
    if settings.json {
        let assessment = folders.assess(directory, io).await?;
        return print_json(&assessment.report(), io);
    }
    io.console.write_note(
        &format!("Trusted: {}.", escape_invisible_line(&directory.display().to_string())),
        TextStyle::Plain,
    );
    Ok(())
}

/// Prints what the decision is about.
fn print_assessment(assessment: &TrustAssessment, decision: TrustDecision, console: &mut Console) {
    let folder = escape_invisible_line(&assessment.directory.display().to_string());
    let below = if decision == TrustDecision::TrustSubfolders { " and its subfolders" } else { "" };
    let items = &assessment.configuration.items;
    let summary = if items.is_empty() {
        "It has no configuration.".to_owned()
    } else {
        format!("It has {}:", count_by_kind(items))
    };
    console.write_note(&format!("{folder}{below}"), TextStyle::Bold);
    console.write_note(&summary, TextStyle::Plain);
    for line in item_lines(assessment).take(MAX_LISTED_ITEMS) {
        console.write_note(&line, TextStyle::Plain);
    }
    if let Some(more) = items.len().checked_sub(MAX_LISTED_ITEMS).filter(|more| *more > 0) {
        console.write_note(&format!("  … and {more} more. List all with `hostler trust check`."), TextStyle::Plain);
    }
}

/// Returns a line for each item, changed items first.
fn item_lines(assessment: &TrustAssessment) -> impl Iterator<Item = String> {
    let (marked, same): (Vec<_>, Vec<_>) = match &assessment.state {
        TrustState::Changed(difference) => {
            let is_new =
                |item: &&ConfigurationItem| difference.added.contains(item) || difference.changed.contains(item);
            let same = assessment.configuration.items.iter().filter(|item| !is_new(item));
            (difference.iter_marked().collect(), same.collect())
        }
        _ => (Vec::new(), assessment.configuration.items.iter().collect()),
    };
    marked.into_iter().chain(same.into_iter().map(|item| (' ', item))).map(|(mark, item)| {
        let blocked = item.blocked.as_ref().map(|reason| format!(" (not applied: {})", reason.trim_end_matches('.')));
        let name = escape_invisible_line(&format!("{}: {}", item.kind.label(), item.name));
        let (source, blocked) =
            (escape_invisible_line(&item.source), escape_invisible_line(&blocked.unwrap_or_default()));
        format!("{mark} {name}  [{source}] {blocked}").trim_end().to_owned()
    })
}

/// Counts items by kind: `2 hooks, 1 MCP server`.
fn count_by_kind(items: &[ConfigurationItem]) -> String {
    let mut counts: Vec<(_, usize)> = Vec::new();
    for item in items {
        match counts.iter_mut().find(|(kind, _)| *kind == item.kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((item.kind, 1)),
        }
    }
    counts.sort_by_key(|(kind, _)| *kind);
    let describe = |(kind, count): (hostler_driver::ConfigurationKind, usize)| {
        // Acronyms keep their case.
        let label = kind.label();
        let label = if label.starts_with("MCP") { label.to_owned() } else { label.to_lowercase() };
        match (count, label.strip_suffix('y')) {
            (1, _) => format!("1 {label}"),
            (many, Some(stem)) => format!("{many} {stem}ies"),
            (many, None) => format!("{many} {label}s"),
        }
    };
    counts.into_iter().map(describe).collect::<Vec<_>>().join(", ")
}

async fn remove_decision(
    path: &Path,
    folders: &FolderTrust,
    environment: &HostEnvironment,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let directory = normalize_path(&environment.resolve_path(path));
    let folder = escape_invisible_line(&directory.display().to_string());
    // Without a state directory there is no decision, and none is created.
    let target = directory.clone();
    let removed = settings.state_dir.is_dir() && folders.with_store(io, move |store| store.remove(&target)).await?;
    if settings.json {
        print_json(&json!({ "removed": removed }), io)?;
    }
    if !removed {
        let text = format!("No decision about {folder}. List all decisions with `hostler trust list`.");
        io.console.write_note(&text, TextStyle::Red);
        return Ok(Exit::Failed);
    }
    if settings.json {
        return Ok(Exit::Done);
    }
    io.console.write_note(&format!("Removed: {folder}."), TextStyle::Plain);
    // The folder may no longer exist.
    match folders.assess(directory, io).await.map(|assessment| assessment.state) {
        Ok(TrustState::Trusted(by)) => {
            io.console.write_note(&format!("The folder is still trusted{}.", trust_source(&by)), TextStyle::Yellow);
        }
        Ok(TrustState::Restricted) => {
            io.console
                .write_note("The folder is not trusted. Trust it again with `hostler trust add`.", TextStyle::Plain);
        }
        _ => {}
    }
    Ok(Exit::Done)
}

/// Describes why a folder is trusted.
fn trust_source(by: &TrustedBy) -> String {
    match by {
        TrustedBy::Person => String::new(),
        TrustedBy::Parent(parent) => format!(" through {}", escape_invisible_line(&parent.display().to_string())),
        TrustedBy::HostConfiguration => " through the setting `trusted-folders`".to_owned(),
    }
}

async fn check_folder(
    directory: PathBuf,
    folders: &FolderTrust,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let assessment = folders.assess(directory, io).await?;
    let passes = matches!(assessment.state, TrustState::Empty | TrustState::Trusted(_));
    let exit = if passes { Exit::Done } else { Exit::Failed };
    if settings.json {
        print_json(&assessment.report(), io)?;
        return Ok(exit);
    }
    let folder = escape_invisible_line(&assessment.directory.display().to_string());
    let (state, style) = match &assessment.state {
        TrustState::Empty => ("has no configuration".to_owned(), TextStyle::Green),
        TrustState::Trusted(by) => (format!("is trusted{}", trust_source(by)), TextStyle::Green),
        TrustState::Undecided => ("is not trusted: not decided yet".to_owned(), TextStyle::Yellow),
        TrustState::Restricted => ("is not trusted: a person decided so".to_owned(), TextStyle::Yellow),
        TrustState::Changed(_) => ("is not trusted: its configuration has changed".to_owned(), TextStyle::Yellow),
        TrustState::Refused(reason) => {
            (format!("cannot be trusted: {}", escape_invisible_line(reason).trim_end_matches('.')), TextStyle::Red)
        }
    };
    io.console.write_out_line(&format!("{folder} {state}."), style)?;
    for line in item_lines(&assessment) {
        io.console.write_out_line(&line, TextStyle::Plain)?;
    }
    if assessment.needs_decision() {
        let quoted = format!("'{}'", folder.replace('\'', r"'\''"));
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
        let argument = if folder.chars().all(plain) { &folder } else { &quoted };
        io.console.write_note(&format!("Trust it with `hostler trust add {argument}`."), TextStyle::Dim);
    }
    Ok(exit)
}

/// Turns a reason into the beginning of a sentence, on one line.
pub(super) fn to_sentence_start(reason: &str) -> String {
    let line = escape_invisible_line(reason);
    let mut letters = line.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}
