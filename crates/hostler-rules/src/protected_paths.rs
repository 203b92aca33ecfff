//! Places that no mode but bypass touches without a question: secrets, and files that make other programs run something.
//!
//! Names are compared without regard to case, since some file systems do. A person's rule can still allow such a place.

use std::path::{Component, Path, PathBuf};

use crate::path::{CandidatePaths, PathKind, PathResolver};

/// Directories of secrets, start-up files and services: with everything below, wherever they are.
const PROTECTED_DIRECTORIES: [&[&str]; 23] = [
    &[".ssh"],
    &[".gnupg"],
    &[".aws"],
    &[".azure"],
    &[".kube"],
    &[".oci"],
    &[".password-store"],
    &[".config", "gcloud"],
    &[".config", "gh"],
    &[".config", "git"],
    &[".config", "hub"],
    &[".config", "op"],
    &[".config", "fish"],
    &[".config", "autostart"],
    &[".config", "systemd"],
    &[".config", "environment.d"],
    &[".local", "share", "keyrings"],
    &[".local", "share", "systemd"],
    &["Library", "Keychains"],
    &["Library", "LaunchAgents"],
    &["Library", "LaunchDaemons"],
    &[".git", "hooks"],
    &[".mozilla"],
];

/// Single files, wherever they are.
const PROTECTED_FILES: [&str; 36] = [
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".claude.json",
    ".credentials.json",
    ".cshrc",
    ".envrc",
    ".git-credentials",
    ".gitconfig",
    ".inputrc",
    ".kshrc",
    ".login",
    ".mcp.json",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pam_environment",
    ".pgpass",
    ".profile",
    ".pypirc",
    ".tcshrc",
    ".vault-token",
    ".xinitrc",
    ".xprofile",
    ".xsessionrc",
    ".yarnrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "id_ed25519",
    "id_rsa",
    "ssh_host_ed25519_key",
];

/// Files by the names of their last directories.
const PROTECTED_PATH_SUFFIXES: [&[&str]; 8] = [
    &[".git", "config"],
    &[".git", "config.worktree"],
    &[".claude", "settings.json"],
    &[".claude", "settings.local.json"],
    &[".claude", "managed-settings.json"],
    &[".cargo", "credentials"],
    &[".docker", "config.json"],
    &[".cargo", "credentials.toml"],
];

/// Directories whose files make other programs run something when they are changed. Reading them is ordinary.
const EXECUTED_CONFIG_NAMES: [&str; 7] =
    [".claude", ".git", ".gitmodules", ".husky", ".idea", ".vscode", ".devcontainer"];

/// Directories of the system that show processes, their environments and devices.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Why the place is never read without a question, if so. `own` are the host's own directories.
pub(crate) fn find_read_protection(spot: &CandidatePaths, own: &[PathBuf]) -> Option<&'static str> {
    spot.paths.iter().find_map(|path| find_protection(path, own))
}

/// Why the place is never written without a question, if so.
pub(crate) fn find_write_protection(spot: &CandidatePaths, own: &[PathBuf]) -> Option<&'static str> {
    let runs = |path: &PathBuf| path_names(path).any(|name| is_one_of(name, &EXECUTED_CONFIG_NAMES));
    find_read_protection(spot, own)
        .or_else(|| spot.paths.iter().any(runs).then_some("it changes a file that makes other programs run something"))
}

/// What a search leaves out of what lies below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchExclusion {
    /// Nothing.
    Nothing,
    /// The directory of a repository, unless the search begins in it.
    GitDirectory,
    /// Names with a dot in front, unless a file of names to ignore takes them back.
    HiddenFiles,
}

/// Lies a place that is never read without a question below this one, so that reading everything reads it as well? Where a
/// bounded look at the disk does not suffice, it does.
pub(crate) fn has_protected_below(
    spot: &CandidatePaths,
    own: &[PathBuf],
    home: &[PathBuf],
    skips: SearchExclusion,
    resolver: &dyn PathResolver,
) -> bool {
    let at_home = home.iter().flat_map(|home| {
        let directories = PROTECTED_DIRECTORIES.iter().filter(|names| names.first() != Some(&".git"));
        directories.map(move |names| names.iter().fold(home.clone(), |path, name| path.join(name)))
    });
    let all = own.iter().cloned().chain(at_home).chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from));
    let places: Vec<PathBuf> = all.collect();
    spot.paths.iter().any(|path| places.iter().any(|place| place.starts_with(path)))
        || contains_protected(&spot.paths, own, skips, resolver)
}

/// How many files are looked at to find out that none of them is guarded.
const MAX_SCANNED_ENTRIES: usize = 200_000;

fn contains_protected(
    starts: &[PathBuf],
    own: &[PathBuf],
    skips: SearchExclusion,
    resolver: &dyn PathResolver,
) -> bool {
    let shown = |directory: &Path| reveals_hidden_files(directory, resolver);
    // Files of names to ignore count from all directories above as well.
    if skips == SearchExclusion::HiddenFiles && starts.iter().any(|start| start.ancestors().any(shown)) {
        return contains_protected(starts, own, SearchExclusion::Nothing, resolver);
    }
    let mut waiting: Vec<PathBuf> = starts.to_vec();
    let mut left = MAX_SCANNED_ENTRIES;
    while let Some(directory) = waiting.pop() {
        let Some(entries) = resolver.list(&directory, left) else {
            if resolver.path_kind(&directory) == PathKind::Directory {
                return true;
            }
            continue;
        };
        left -= entries.len();
        if skips == SearchExclusion::HiddenFiles && shown(&directory) {
            return contains_protected(starts, own, SearchExclusion::Nothing, resolver);
        }
        for (path, entry) in entries {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let skipped = match skips {
                SearchExclusion::Nothing => false,
                SearchExclusion::GitDirectory => is_git_directory(&name),
                SearchExclusion::HiddenFiles => name.starts_with('.'),
            };
            // Links are not followed on the way down.
            if skipped || entry == PathKind::Other {
                continue;
            }
            if find_protection(&path, own).is_some() && !is_project_configuration(&path) {
                return true;
            }
            if entry == PathKind::Directory {
                waiting.push(path);
            }
        }
    }
    false
}

/// Configuration of an agent in a project: changing it is guarded, and a search that comes across it shows no secret.
fn is_project_configuration(path: &Path) -> bool {
    const NAMES: [&str; 3] = [".mcp.json", ".claude/settings.json", ".claude/settings.local.json"];
    NAMES.iter().any(|name| path.ends_with(name))
}

/// Could a file of names to ignore in this directory take a guarded name back, as `!.npmrc` does?
fn reveals_hidden_files(directory: &Path, resolver: &dyn PathResolver) -> bool {
    const LONGEST: u64 = 256 * 1024;
    let is_guarded = |name: &str| {
        let all = PROTECTED_DIRECTORIES
            .iter()
            .chain(&PROTECTED_PATH_SUFFIXES)
            .flat_map(|names| names.iter())
            .chain(&PROTECTED_FILES);
        all.copied().any(|guarded| guarded.eq_ignore_ascii_case(name))
    };
    // `*.rs` names no place that is guarded.
    let is_ending = |name: &str| name.strip_prefix("*.").is_some_and(|end| end.chars().all(char::is_alphanumeric));
    let is_open = |name: &str| name.contains(['*', '?', '[', '{', '\\']) && !is_ending(name);
    let takes_back = |line: &str| {
        line.strip_prefix('!')
            .is_some_and(|names| names.trim_end().split('/').any(|name| is_open(name) || is_guarded(name)))
    };
    [".gitignore", ".ignore", ".rgignore", ".git/info/exclude"].iter().any(|name| {
        let path = directory.join(name);
        match resolver.path_kind(&path) {
            PathKind::Missing | PathKind::Directory => false,
            _ => {
                resolver.read(&path, LONGEST).is_none_or(|text| String::from_utf8_lossy(&text).lines().any(takes_back))
            }
        }
    })
}

fn find_protection(path: &Path, own: &[PathBuf]) -> Option<&'static str> {
    if own.iter().any(|own| path.starts_with(own)) {
        return Some("it is in a directory of Hostler itself");
    }
    if SYSTEM_DIRECTORIES.iter().any(|system| path.starts_with(system)) {
        return Some("it is a file of the system that shows processes or devices");
    }
    let names: Vec<&str> = path_names(path).collect();
    let has = |wanted: &&[&str]| names.windows(wanted.len()).any(|window| equals_ignoring_case(window, wanted));
    let ends = |wanted: &&[&str]| {
        let from = names.len().checked_sub(wanted.len());
        from.and_then(|from| names.get(from..)).is_some_and(|last| equals_ignoring_case(last, wanted))
    };
    let file = || names.last().is_some_and(|name| is_one_of(name, &PROTECTED_FILES));
    // The host's parts of a repository within `.git/modules` count, too.
    let buried =
        || names.last().is_some_and(|name| name.eq_ignore_ascii_case("config")) && names.iter().any(is_git_directory);
    if PROTECTED_DIRECTORIES.iter().any(has) || PROTECTED_PATH_SUFFIXES.iter().any(ends) || file() || buried() {
        return Some("it holds secrets, or makes other programs run something");
    }
    None
}

fn is_git_directory(name: &&str) -> bool {
    name.eq_ignore_ascii_case(".git")
}

fn path_names(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })
}

fn is_one_of(name: &str, list: &[&str]) -> bool {
    list.iter().any(|other| name.eq_ignore_ascii_case(other))
}

fn equals_ignoring_case(window: &[&str], wanted: &[&str]) -> bool {
    window.len() == wanted.len() && window.iter().zip(wanted).all(|(name, wanted)| name.eq_ignore_ascii_case(wanted))
}
