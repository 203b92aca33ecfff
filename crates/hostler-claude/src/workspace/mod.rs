//! The configuration of a folder for Claude Code, and the private copy that an agent is started with.
//!
//! The configuration is read once, without following links ([`ConfigurationSnapshot`]): the same bytes are listed,
//! fingerprinted and applied. An agent never reads the folder's own files: it is started on a directory of the host
//! ([`StagedConfiguration`]) that is empty, or contains the reduced copy of what was trusted. So a file that is
//! changed, swapped or added after the check has no effect. `staged_configuration.rs` has two ways: builds with
//! `--project-config-root`, and all others.
//!
//! `CLAUDE.md` and rules are text for the model, not configuration: they are read in every folder.
//!
//! This module does not know which folders are trusted, and it runs nothing.

mod configuration_tree;
mod denied_variables;
mod frontmatter;
mod instructions;
mod settings;
mod staged_configuration;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hostler_driver::{ConfigurationItem, ConfigurationKind, WorkspaceConfiguration};
use serde_json::{Map, Value};

use self::configuration_tree::{ConfigurationEntry, ConfigurationTree, EntryContent};
use self::settings::FolderSettings;
use crate::transcript_locator::config_directory;

pub(crate) use self::staged_configuration::{
    CONFIG_ROOT_FLAG, ConfigIsolation, StagedConfiguration, remove_stale_stages,
};

/// Part of the fingerprint. Changed whenever more is listed or applied, so that an earlier decision does not cover
/// it.
const FINGERPRINT_VERSION: &[u8] = b"claude 1";

/// Maximum length of an item's name, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Maximum number of items: more cannot be reviewed or stored.
const MAX_ITEMS: usize = 2_000;

/// Maximum total size of variables, settings and directories. The kernel limits one argument or variable to 128 KiB.
const MAX_VALUES_BYTES: usize = 64 * 1024;

const LINK_BLOCKED_REASON: &str = "Symbolic links are not followed.";
const HEADER_BLOCKED_REASON: &str = "Its frontmatter has no end.";
const CONFLICT_BLOCKED_REASON: &str = "A nearer directory has an entry of another kind with this name.";
const ENCODING_BLOCKED_REASON: &str = "It is not valid UTF-8.";

/// Directories in `.claude` whose files apply, and the kind of their items.
const APPLIED_DIRECTORIES: [(&str, ConfigurationKind); 4] = [
    ("commands", ConfigurationKind::Command),
    ("skills", ConfigurationKind::Skill),
    ("agents", ConfigurationKind::Agent),
    ("output-styles", ConfigurationKind::Setting),
];

/// The configuration that a folder brings to Claude Code with these environment variables.
pub fn workspace_configuration<'a>(
    working_directory: &Path,
    variable: impl Fn(&str) -> Option<&'a OsStr>,
) -> WorkspaceConfiguration {
    ConfigurationSnapshot::read(working_directory, config_directory(variable).as_deref()).configuration
}

/// The configuration of a folder at one moment.
#[derive(Debug, Default)]
pub(crate) struct ConfigurationSnapshot {
    pub(crate) configuration: WorkspaceConfiguration,
    /// Variables that apply.
    pub(crate) environment: BTreeMap<String, String>,
    /// Settings that apply.
    pub(crate) settings: Map<String, Value>,
    /// Directories beside the working directory, absolute.
    pub(crate) directories: Vec<PathBuf>,
    /// Files that apply, by their path below `.claude`.
    files: BTreeMap<String, AppliedFile>,
    /// The skills.
    skills: BTreeMap<String, SkillSummary>,
}

#[derive(Debug)]
struct SkillSummary {
    source: String,
    contents: blake3::Hasher,
    /// A note beside its name.
    note: String,
}

#[derive(Debug)]
struct AppliedFile {
    bytes: Vec<u8>,
    executable: bool,
}

impl ConfigurationSnapshot {
    /// Reads the configuration of a folder. `config_directory` is the user's own and never part of it.
    pub(crate) fn read(working_directory: &Path, config_directory: Option<&Path>) -> Self {
        let Ok(working_directory) = working_directory.canonicalize() else { return Self::default() };
        let own = config_directory.and_then(|directory| directory.canonicalize().ok());
        let mut tree = ConfigurationTree::default();
        for (level, directory) in project_directories(&working_directory).into_iter().enumerate() {
            read_level(&mut tree, directory, level, own.as_deref());
        }
        let fingerprint = fingerprint(&tree.entries);
        let mut snapshot = Self::default();
        let mut settings = FolderSettings::default();
        for entry in &tree.entries {
            snapshot.add_entry(entry, &mut settings, &mut tree.problem);
        }
        for (name, skill) in std::mem::take(&mut snapshot.skills) {
            let (name, hash) = (format!("{name}{}", skill.note), skill.contents.finalize());
            snapshot.push(configuration_item(ConfigurationKind::Skill, name, &skill.source, hash.as_bytes(), None));
        }
        let configuration = &mut snapshot.configuration;
        configuration.items.extend(settings.items);
        configuration.items.sort_by(|a, b| (a.kind, &a.source, &a.name).cmp(&(b.kind, &b.source, &b.name)));
        configuration.rules = settings.rules;
        let directories = settings.directories.iter().map(|path| working_directory.join(path)).collect::<Vec<_>>();
        let items = configuration.items.len();
        configuration.problem =
            tree.problem.or_else(|| size_problem(items, &settings.environment, &settings.applied, &directories));
        if !configuration.is_empty() {
            configuration.fingerprint = fingerprint;
        }
        snapshot.environment = settings.environment;
        snapshot.settings = settings.applied;
        snapshot.directories = directories;
        snapshot
    }

    /// Adds one file.
    fn add_entry(&mut self, entry: &ConfigurationEntry, settings: &mut FolderSettings, problem: &mut Option<String>) {
        let ConfigurationEntry { path, content } = entry;
        let place = path.trim_start_matches("../");
        let bytes = match content {
            EntryContent::File { bytes, .. } => bytes,
            EntryContent::Link(target) => {
                let kind = classify_path(place).map_or(ConfigurationKind::Setting, |(_, kind, _)| kind);
                let name = format!("{path} → {}", String::from_utf8_lossy(target));
                return self.push(configuration_item(kind, name, path, target, Some(LINK_BLOCKED_REASON)));
            }
        };
        if let Some((directory, kind, name)) = classify_path(place) {
            return self.add_file(entry, directory, kind, name);
        }
        if ![".mcp.json", ".claude/settings.json", ".claude/settings.local.json"].contains(&place) {
            return;
        }
        match serde_json::from_slice::<Map<String, Value>>(bytes) {
            Ok(file) if place == ".mcp.json" => settings.add_servers(path, &file),
            Ok(file) => settings.add(path, &file),
            Err(_) if bytes.iter().all(u8::is_ascii_whitespace) => {}
            Err(_) => {
                problem.get_or_insert_with(|| format!("{path} is not a JSON object."));
            }
        }
    }

    /// Adds a file of one of the directories.
    fn add_file(&mut self, entry: &ConfigurationEntry, directory: &str, kind: ConfigurationKind, name: &str) {
        let EntryContent::File { bytes, executable } = &entry.content else { return };
        // A file in place of the directory contains no items.
        if name.is_empty() {
            return;
        }
        let is_skill = kind == ConfigurationKind::Skill;
        if is_skill && !self.is_of_nearest_skill(&entry.path, name, bytes) || !is_skill && !name.ends_with(".md") {
            return;
        }
        let mut applied = Some(bytes.clone());
        let mut blocked = None;
        let mut note = String::new();
        // Some file systems are case-insensitive.
        if name.to_ascii_lowercase().ends_with(".md") {
            match std::str::from_utf8(bytes).map(frontmatter::reduce_header) {
                Ok(Some(reduced)) => {
                    if reduced.text.contains("!`") || reduced.text.contains("```!") {
                        note.push_str(" (its shell commands are blocked)");
                    }
                    if !reduced.removed_keys.is_empty() {
                        note.push_str(&format!(" (without {})", reduced.removed_keys.join(", ")));
                    }
                    applied = Some(reduced.text.into_bytes());
                }
                Ok(None) => (applied, blocked) = (None, Some(HEADER_BLOCKED_REASON)),
                Err(_) => (applied, blocked) = (None, Some(ENCODING_BLOCKED_REASON)),
            }
        }
        let key = format!("{directory}/{name}");
        if applied.is_some() && self.conflicts_with_nearer(&key) {
            (applied, blocked) = (None, Some(CONFLICT_BLOCKED_REASON));
        }
        if let Some((skill, file)) = name.split_once('/').filter(|_| is_skill)
            && file.eq_ignore_ascii_case("SKILL.md")
            && let Some(skill) = self.skills.get_mut(skill)
        {
            skill.note.push_str(&note);
        }
        if let Some(bytes) = applied {
            self.files.entry(key).or_insert(AppliedFile { bytes, executable: *executable });
        }
        if !is_skill {
            let stem = name.strip_suffix(".md").unwrap_or(name);
            let name = match kind {
                ConfigurationKind::Command => format!("/{}{note}", stem.replace('/', ":")),
                ConfigurationKind::Setting => format!("Output style {stem}{note}"),
                _ => format!("{stem}{note}"),
            };
            self.push(configuration_item(kind, name, &entry.path, bytes, blocked));
        }
    }

    /// Whether a file belongs to the nearest skill of its name, which hides others of that name.
    fn is_of_nearest_skill(&mut self, path: &str, name: &str, bytes: &[u8]) -> bool {
        let skill = name.split('/').next().unwrap_or(name);
        let source = path.strip_suffix(name).map_or_else(|| path.to_owned(), |base| format!("{base}{skill}"));
        let known = self.skills.entry(skill.to_owned());
        let (contents, note) = (blake3::Hasher::new(), String::new());
        let nearest = known.or_insert_with(|| SkillSummary { source: source.clone(), contents, note });
        if nearest.source != source {
            return false;
        }
        for part in [name.as_bytes(), bytes] {
            nearest.contents.update(blake3::hash(part).as_bytes());
        }
        true
    }

    /// Whether a nearer directory has a file where this path needs a directory, or the other way around.
    fn conflicts_with_nearer(&self, key: &str) -> bool {
        let below = format!("{key}/");
        let has_below = self.files.range(below.clone()..).next().is_some_and(|(file, _)| file.starts_with(&below));
        has_below
            || key.match_indices('/').any(|(end, _)| key.get(..end).is_some_and(|above| self.files.contains_key(above)))
    }

    fn push(&mut self, item: ConfigurationItem) {
        self.configuration.items.push(item);
    }
}

/// The problem of a configuration that is too large to review or to pass to a process.
fn size_problem(
    items: usize,
    environment: &BTreeMap<String, String>,
    settings: &Map<String, Value>,
    directories: &[PathBuf],
) -> Option<String> {
    if items > MAX_ITEMS {
        return Some("The configuration has more than 2,000 entries.".to_owned());
    }
    let variables: usize = environment.iter().map(|(name, value)| name.len() + value.len()).sum();
    // The size in an argument, as JSON.
    let settings: usize = settings.iter().map(|(key, value)| key.len() + value.to_string().len()).sum();
    let directories: usize = directories.iter().map(|path| Value::from(path.to_string_lossy()).to_string().len()).sum();
    (variables + settings + directories > MAX_VALUES_BYTES)
        .then(|| "The variables and settings of the configuration are larger than 64 KiB.".to_owned())
}

/// The working directory and its parents up to the nearest one with a `.git` of any kind.
fn project_directories(working_directory: &Path) -> Vec<&Path> {
    let is_root = |directory: &&Path| directory.join(".git").symlink_metadata().is_ok();
    match working_directory.ancestors().position(|directory| is_root(&directory)) {
        Some(root) => working_directory.ancestors().take(root + 1).collect(),
        None => vec![working_directory],
    }
}

/// Reads the configuration of one directory; `level` 0 is the working directory.
fn read_level(tree: &mut ConfigurationTree, directory: &Path, level: usize, own: Option<&Path>) {
    let up = "../".repeat(level);
    let Some(opened) = configuration_tree::open_directory(directory) else {
        return tree.set_problem(&format!("{up}."), "it cannot be opened");
    };
    tree.read(&opened, ".mcp.json", format!("{up}.mcp.json"));
    let claude = directory.join(".claude");
    if own.is_some_and(|own| claude.canonicalize().is_ok_and(|claude| claude == own)) {
        return;
    }
    let Some(inside) = configuration_tree::open_subdirectory(&opened, ".claude") else {
        // Missing, a link, or no directory: the reader distinguishes them.
        return tree.read(&opened, ".claude", format!("{up}.claude"));
    };
    // Agents read settings only from their working directory.
    let settings: &[&str] = if level == 0 { &["settings.json", "settings.local.json"] } else { &[] };
    for name in settings.iter().copied().chain(APPLIED_DIRECTORIES.map(|(name, _)| name)) {
        tree.read(&inside, name, format!("{up}.claude/{name}"));
    }
}

/// The applied directory that contains a file, and the file's path below it.
fn classify_path(place: &str) -> Option<(&'static str, ConfigurationKind, &str)> {
    let place = place.strip_prefix(".claude/")?;
    let (first, name) = place.split_once('/').unwrap_or((place, ""));
    APPLIED_DIRECTORIES.iter().find(|(known, _)| *known == first).map(|(known, kind)| (*known, *kind, name))
}

fn configuration_item(
    kind: ConfigurationKind,
    name: String,
    source: &str,
    contents: &[u8],
    blocked: Option<&str>,
) -> ConfigurationItem {
    let name = match name.chars().count() > MAX_NAME_CHARS {
        true => name.chars().take(MAX_NAME_CHARS - 1).chain(['…']).collect(),
        false => name,
    };
    let hash = blake3::hash(contents).to_hex().chars().take(32).collect();
    ConfigurationItem { kind, name, source: source.to_owned(), hash, blocked: blocked.map(str::to_owned) }
}

/// A hash of every byte, every path and every link.
fn fingerprint<'a>(entries: impl IntoIterator<Item = &'a ConfigurationEntry>) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(bytes);
    };
    part(FINGERPRINT_VERSION);
    for ConfigurationEntry { path, content } in entries {
        part(path.as_bytes());
        match content {
            EntryContent::File { bytes, executable } => {
                part(if *executable { b"program" } else { b"file" });
                part(bytes);
            }
            EntryContent::Link(target) => {
                part(b"link");
                part(target);
            }
        }
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests;
