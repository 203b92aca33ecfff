//! `hostler trust` and `hostler run --trust`: decisions about folders' own configuration, in the state directory.
//!
//! No host is needed, and one that runs follows. What a folder brings comes through a port
//! ([`Wiring::inspect`]); this module does not read a folder itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostler_driver::ConfigurationItem;
use hostler_rules::normalise;
use hostler_trust::{
    Assessment, Decision, TrustEntry, TrustError, TrustListing, TrustOptions, TrustState, TrustStore, TrustedBy,
};
use serde_json::json;

use super::sessions::{agreed, can_ask, print_json};
use crate::Io;
use crate::args::TrustCommand;
use crate::console::{Console, Style};
use crate::environment::HostEnvironment;
use crate::exit::{Exit, Failure};
use crate::ports::Wiring;
use crate::settings::Settings;
use crate::state::StateDir;
use crate::visible::visible_line;

/// The most items that are listed before a question; `check` lists all.
const MAX_LISTED_ITEMS: usize = 200;

/// Lists, makes and removes decisions.
pub(crate) async fn trust(
    command: &TrustCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, Failure> {
    let folders = Folders::new(wiring, settings);
    match command {
        TrustCommand::List { .. } => list(&folders, settings, io).await?,
        TrustCommand::Add { path, subfolders, yes, .. } => {
            let decision = if *subfolders { Decision::TrustSubfolders } else { Decision::Trust };
            add(path, decision, *yes, &folders, &wiring.environment, settings, io).await?;
        }
        TrustCommand::Remove { path, .. } => remove(path, &folders, &wiring.environment, settings, io).await?,
        TrustCommand::Check { path, .. } => {
            let path = path.as_deref().unwrap_or(Path::new(""));
            return check(wiring.environment.absolute(path), &folders, settings, io).await;
        }
    }
    Ok(Exit::Done)
}

/// The decisions of a state directory, and what folders bring.
#[derive(Clone)]
pub(crate) struct Folders {
    state_dir: PathBuf,
    options: Arc<TrustOptions>,
    inspect: crate::ports::FolderInspector,
}

impl Folders {
    pub(crate) fn new(wiring: &Wiring, settings: &Settings) -> Self {
        let home = Some(wiring.environment.home.clone());
        Self {
            state_dir: settings.state_dir.clone(),
            options: Arc::new(TrustOptions { trusted_folders: settings.trusted_folders.clone(), home }),
            inspect: Arc::clone(&wiring.inspect),
        }
    }

    /// Does something with the decisions. It reads folders and waits for other writers: that can be interrupted.
    async fn with<T: Send + 'static>(
        &self,
        io: &mut Io,
        act: impl FnOnce(&TrustStore) -> Result<T, TrustError> + Send + 'static,
    ) -> Result<T, Failure> {
        let Self { state_dir, options, .. } = self.clone();
        let work = tokio::task::spawn_blocking(move || act(&TrustStore::open(&state_dir, &options)));
        io.signals.unless(work).await?.map_err(std::io::Error::other)?.map_err(failed)
    }

    async fn assess(&self, directory: PathBuf, io: &mut Io) -> Result<Assessment, Failure> {
        let inspect = Arc::clone(&self.inspect);
        self.with(io, move |store| store.assess(&directory, |real| inspect(real))).await
    }
}

fn failed(error: TrustError) -> Failure {
    let exit = match error {
        TrustError::NotAFolder { .. } | TrustError::TooBroad { .. } | TrustError::TooBroadWithSubfolders { .. } => {
            Exit::Usage
        }
        _ => Exit::Failed,
    };
    Failure::new(exit, format!("{}.", sentence(&error.to_string())))
}

/// Whether a person wrote the folder's own path: absolute, without `..`, and no link except for the home folder itself.
fn is_named(written: &Path, assessment: &Assessment, environment: &HostEnvironment) -> bool {
    written.is_absolute() && (written == assessment.directory || written == environment.home)
}

/// Trusts the working directory of a new session as it is now.
pub(crate) async fn trust_working_directory(
    written: Option<&Path>,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<(), Failure> {
    let folders = Folders::new(wiring, settings);
    let assessment = folders.assess(settings.cwd.clone(), io).await?;
    if matches!(assessment.state, TrustState::Empty | TrustState::Trusted(_)) {
        return Ok(());
    }
    StateDir::open(&settings.state_dir)?;
    let named = written.is_some_and(|written| is_named(written, &assessment, &wiring.environment));
    folders.with(io, move |store| store.decide(&assessment, Decision::Trust, named)).await
}

/// What is said about a folder whose configuration is ignored: if there is no person to ask, or nothing to ask.
pub(crate) async fn ignored_configuration(
    directory: PathBuf,
    attended: bool,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Option<String>, Failure> {
    // The folder of an older session may be gone; then there is nothing to ignore.
    let Ok(assessment) = Folders::new(wiring, settings).assess(directory, io).await else { return Ok(None) };
    let folder = visible_line(&assessment.directory.display().to_string());
    Ok(match &assessment.state {
        TrustState::Undecided | TrustState::Changed(_) if !attended => {
            let why = if matches!(assessment.state, TrustState::Undecided) { "is not trusted" } else { "has changed" };
            Some(format!(
                "Ignored the configuration of {folder} ({}): it {why}. Review it with `hostler trust check`, then trust it \
                 with `hostler trust add` or --trust.",
                counted(&assessment.configuration.items)
            ))
        }
        TrustState::Refused(reason) => {
            Some(format!("Ignored the configuration of {folder}: {}.", visible_line(reason).trim_end_matches('.')))
        }
        _ => None,
    })
}

async fn list(folders: &Folders, settings: &Settings, io: &mut Io) -> Result<(), Failure> {
    // Where there is no state directory there is no decision, and none is made for a look.
    let entries = match settings.state_dir.is_dir() {
        true => folders.with(io, TrustStore::entries).await?,
        false => Vec::new(),
    };
    if settings.json {
        return print_json(&TrustListing::new(&entries, &settings.trusted_folders), io);
    }
    if entries.is_empty() && settings.trusted_folders.is_empty() {
        io.console.note("No trusted folders. Add one with `hostler trust add PATH`.", Style::Dim);
    }
    for entry in &entries {
        io.console.out_line(&row(entry), Style::Plain)?;
    }
    for folder in &settings.trusted_folders {
        let folder = visible_line(&folder.display().to_string());
        io.console.out_line(&format!("trusted      {folder}  (trusted-folders in the settings)"), Style::Plain)?;
    }
    Ok(())
}

fn row(entry: &TrustEntry) -> String {
    let decision = match entry.decision {
        Decision::Trust | Decision::TrustSubfolders => "trusted",
        Decision::Restrict => "not trusted",
    };
    let facts = match (&entry.inherited_from, entry.decision) {
        (Some(parent), _) => format!("  (inherited from {})", visible_line(&parent.display().to_string())),
        (None, Decision::TrustSubfolders) => "  (with subfolders)".to_owned(),
        _ => String::new(),
    };
    let folder = visible_line(&entry.path.display().to_string());
    format!("{decision:<11}  {folder}{facts}")
}

async fn add(
    path: &Path,
    decision: Decision,
    yes: bool,
    folders: &Folders,
    environment: &HostEnvironment,
    settings: &Settings,
    io: &mut Io,
) -> Result<(), Failure> {
    if !yes && !can_ask(environment) {
        return Err(Failure::new(Exit::Usage, "Not running in a terminal, so there is no one to ask. Pass --yes."));
    }
    let assessment = folders.assess(environment.absolute(path), io).await?;
    let named = is_named(path, &assessment, environment);
    if !settings.json || !yes {
        show(&assessment, decision, &mut io.console);
    }
    if !yes {
        io.console.note("Trust it? [y/N]", Style::Bold);
        if !io.signals.unless(agreed(&mut io.stdin)).await?? {
            return Err(Failure::new(Exit::Failed, "Nothing was changed."));
        }
    }
    StateDir::open(&settings.state_dir)?;
    let directory = assessment.directory.clone();
    folders.with(io, move |store| store.decide(&assessment, decision, named)).await?;
    if settings.json {
        let assessment = folders.assess(directory, io).await?;
        return print_json(&assessment.report(), io);
    }
    io.console.note(&format!("Trusted: {}.", visible_line(&directory.display().to_string())), Style::Plain);
    Ok(())
}

/// What a person decides about.
fn show(assessment: &Assessment, decision: Decision, console: &mut Console) {
    let folder = visible_line(&assessment.directory.display().to_string());
    let below = if decision == Decision::TrustSubfolders { " and its subfolders" } else { "" };
    let items = &assessment.configuration.items;
    let brings = if items.is_empty() {
        "It brings no configuration now.".to_owned()
    } else {
        format!("It brings {}:", counted(items))
    };
    console.note(&format!("{folder}{below}"), Style::Bold);
    console.note(&brings, Style::Plain);
    for line in lines(assessment).take(MAX_LISTED_ITEMS) {
        console.note(&line, Style::Plain);
    }
    if let Some(more) = items.len().checked_sub(MAX_LISTED_ITEMS).filter(|more| *more > 0) {
        console.note(&format!("  … and {more} more; `hostler trust check` lists all."), Style::Plain);
    }
}

/// A line for each item, those that have changed first.
fn lines(assessment: &Assessment) -> impl Iterator<Item = String> {
    let (marked, same): (Vec<_>, Vec<_>) = match &assessment.state {
        TrustState::Changed(difference) => {
            let is_new =
                |item: &&ConfigurationItem| difference.added.contains(item) || difference.changed.contains(item);
            let same = assessment.configuration.items.iter().filter(|item| !is_new(item));
            (difference.marked().collect(), same.collect())
        }
        _ => (Vec::new(), assessment.configuration.items.iter().collect()),
    };
    marked.into_iter().chain(same.into_iter().map(|item| (' ', item))).map(|(mark, item)| {
        let blocked = item.blocked.as_ref().map(|why| format!(" (not applied: {})", why.trim_end_matches('.')));
        let name = visible_line(&format!("{}: {}", item.kind.label(), item.name));
        let (source, blocked) = (visible_line(&item.source), visible_line(&blocked.unwrap_or_default()));
        format!("{mark} {name}  [{source}] {blocked}").trim_end().to_owned()
    })
}

/// How many items of each kind: `2 hooks, 1 MCP server`.
fn counted(items: &[ConfigurationItem]) -> String {
    let mut counts: Vec<(_, usize)> = Vec::new();
    for item in items {
        match counts.iter_mut().find(|(kind, _)| *kind == item.kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((item.kind, 1)),
        }
    }
    counts.sort_by_key(|(kind, _)| *kind);
    let words = |(kind, count): (hostler_driver::ConfigurationKind, usize)| {
        // Acronyms keep their case.
        let label = kind.label();
        let label = if label.starts_with("MCP") { label.to_owned() } else { label.to_lowercase() };
        match (count, label.strip_suffix('y')) {
            (1, _) => format!("1 {label}"),
            (many, Some(stem)) => format!("{many} {stem}ies"),
            (many, None) => format!("{many} {label}s"),
        }
    };
    counts.into_iter().map(words).collect::<Vec<_>>().join(", ")
}

async fn remove(
    path: &Path,
    folders: &Folders,
    environment: &HostEnvironment,
    settings: &Settings,
    io: &mut Io,
) -> Result<(), Failure> {
    let directory = normalise(&environment.absolute(path));
    let folder = visible_line(&directory.display().to_string());
    // Where there is no state directory there is no decision, and none is made.
    let target = directory.clone();
    let removed = settings.state_dir.is_dir() && folders.with(io, move |store| store.remove(&target)).await?;
    if settings.json {
        print_json(&json!({ "removed": removed }), io)?;
    }
    if !removed {
        let text = format!("There is no decision about {folder}. `hostler trust list` shows the decisions.");
        return Err(Failure::new(Exit::Failed, text));
    }
    if settings.json {
        return Ok(());
    }
    io.console.note(&format!("Removed: {folder}."), Style::Plain);
    // The folder may be gone.
    match folders.assess(directory, io).await.map(|assessment| assessment.state) {
        Ok(TrustState::Trusted(by)) => {
            io.console.note(&format!("It is still trusted{}.", through(&by)), Style::Yellow);
        }
        Ok(TrustState::Restricted) => {
            io.console.note("It is not trusted. Trust it again with `hostler trust add`.", Style::Plain);
        }
        _ => {}
    }
    Ok(())
}

/// Why a folder is trusted.
fn through(by: &TrustedBy) -> String {
    match by {
        TrustedBy::Person => String::new(),
        TrustedBy::Parent(parent) => format!(" through {}", visible_line(&parent.display().to_string())),
        TrustedBy::HostConfiguration => " through `trusted-folders` of the settings".to_owned(),
    }
}

async fn check(directory: PathBuf, folders: &Folders, settings: &Settings, io: &mut Io) -> Result<Exit, Failure> {
    let assessment = folders.assess(directory, io).await?;
    let passes = matches!(assessment.state, TrustState::Empty | TrustState::Trusted(_));
    let exit = if passes { Exit::Done } else { Exit::Failed };
    if settings.json {
        print_json(&assessment.report(), io)?;
        return Ok(exit);
    }
    let folder = visible_line(&assessment.directory.display().to_string());
    let (verdict, style) = match &assessment.state {
        TrustState::Empty => ("brings no configuration".to_owned(), Style::Green),
        TrustState::Trusted(by) => (format!("is trusted{}", through(by)), Style::Green),
        TrustState::Undecided => ("is not trusted: no one has decided yet".to_owned(), Style::Yellow),
        TrustState::Restricted => ("is not trusted, as decided".to_owned(), Style::Yellow),
        TrustState::Changed(_) => {
            ("is not trusted: its configuration has changed since it was".to_owned(), Style::Yellow)
        }
        TrustState::Refused(reason) => {
            (format!("cannot be trusted: {}", visible_line(reason).trim_end_matches('.')), Style::Red)
        }
    };
    io.console.out_line(&format!("{folder} {verdict}."), style)?;
    for line in lines(&assessment) {
        io.console.out_line(&line, Style::Plain)?;
    }
    if assessment.asks() {
        let quoted = format!("'{}'", folder.replace('\'', r"'\''"));
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
        let word = if folder.chars().all(plain) { &folder } else { &quoted };
        io.console.note(&format!("Trust it with `hostler trust add {word}`."), Style::Dim);
    }
    Ok(exit)
}

/// A reason as the beginning of a sentence, on one line.
fn sentence(reason: &str) -> String {
    let line = visible_line(reason);
    let mut letters = line.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}
