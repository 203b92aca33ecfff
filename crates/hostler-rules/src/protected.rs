//! Places that no mode but bypass touches without a question: secrets, and files that make other programs run something.
//!
//! Names are compared without regard to case, since some file systems do. A person's rule can still allow such a place.

use std::path::{Component, Path, PathBuf};

use crate::path::{Entry, Resolver, Spot};

/// Directories of secrets, start-up files and services: with everything below, wherever they are.
const DIRECTORIES: [&[&str]; 23] = [
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
const FILES: [&str; 36] = [
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
const FILES_IN: [&[&str]; 8] = [
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
const RUNS_WHEN_CHANGED: [&str; 7] = [".claude", ".git", ".gitmodules", ".husky", ".idea", ".vscode", ".devcontainer"];

/// Directories of the system that show processes, their environments and devices.
const SYSTEM: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Why the place is never read without a question, if so. `own` are the host's own directories.
pub(crate) fn guards_reading(spot: &Spot, own: &[PathBuf]) -> Option<&'static str> {
    spot.paths.iter().find_map(|path| guarded(path, own))
}

/// Why the place is never written without a question, if so.
pub(crate) fn guards_writing(spot: &Spot, own: &[PathBuf]) -> Option<&'static str> {
    let runs = |path: &PathBuf| names(path).any(|name| is_one_of(name, &RUNS_WHEN_CHANGED));
    guards_reading(spot, own)
        .or_else(|| spot.paths.iter().any(runs).then_some("it changes a file that makes other programs run something"))
}

/// What a search leaves out of what lies below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skips {
    /// Nothing.
    Nothing,
    /// The directory of a repository, unless the search begins in it.
    Repository,
    /// Names with a dot in front, unless a file of names to ignore takes them back.
    Hidden,
}

/// Lies a place that is never read without a question below this one, so that reading everything reads it as well? Where a
/// bounded look at the disk does not suffice, it does.
pub(crate) fn guards_below(
    spot: &Spot,
    own: &[PathBuf],
    home: &[PathBuf],
    skips: Skips,
    resolver: &dyn Resolver,
) -> bool {
    let at_home = home.iter().flat_map(|home| {
        let directories = DIRECTORIES.iter().filter(|names| names.first() != Some(&".git"));
        directories.map(move |names| names.iter().fold(home.clone(), |path, name| path.join(name)))
    });
    let all = own.iter().cloned().chain(at_home).chain(SYSTEM.iter().map(PathBuf::from));
    let places: Vec<PathBuf> = all.collect();
    spot.paths.iter().any(|path| places.iter().any(|place| place.starts_with(path)))
        || holds_guarded(&spot.paths, own, skips, resolver)
}

/// How many files are looked at to find out that none of them is guarded.
const MOST_ENTRIES: usize = 200_000;

fn holds_guarded(starts: &[PathBuf], own: &[PathBuf], skips: Skips, resolver: &dyn Resolver) -> bool {
    let shown = |directory: &Path| shows_hidden(directory, resolver);
    // Files of names to ignore count from all directories above as well.
    if skips == Skips::Hidden && starts.iter().any(|start| start.ancestors().any(shown)) {
        return holds_guarded(starts, own, Skips::Nothing, resolver);
    }
    let mut waiting: Vec<PathBuf> = starts.to_vec();
    let mut left = MOST_ENTRIES;
    while let Some(directory) = waiting.pop() {
        let Some(entries) = resolver.list(&directory, left) else {
            if resolver.entry(&directory) == Entry::Directory {
                return true;
            }
            continue;
        };
        left -= entries.len();
        if skips == Skips::Hidden && shown(&directory) {
            return holds_guarded(starts, own, Skips::Nothing, resolver);
        }
        for (path, entry) in entries {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let skipped = match skips {
                Skips::Nothing => false,
                Skips::Repository => is_git(&name),
                Skips::Hidden => name.starts_with('.'),
            };
            // Links are not followed on the way down.
            if skipped || entry == Entry::Other {
                continue;
            }
            if guarded(&path, own).is_some() && !is_project_configuration(&path) {
                return true;
            }
            if entry == Entry::Directory {
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
fn shows_hidden(directory: &Path, resolver: &dyn Resolver) -> bool {
    const LONGEST: u64 = 256 * 1024;
    let is_guarded = |name: &str| {
        let all = DIRECTORIES.iter().chain(&FILES_IN).flat_map(|names| names.iter()).chain(&FILES);
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
        match resolver.entry(&path) {
            Entry::Missing | Entry::Directory => false,
            _ => {
                resolver.read(&path, LONGEST).is_none_or(|text| String::from_utf8_lossy(&text).lines().any(takes_back))
            }
        }
    })
}

fn guarded(path: &Path, own: &[PathBuf]) -> Option<&'static str> {
    if own.iter().any(|own| path.starts_with(own)) {
        return Some("it is in a directory of Hostler itself");
    }
    if SYSTEM.iter().any(|system| path.starts_with(system)) {
        return Some("it is a file of the system that shows processes or devices");
    }
    let names: Vec<&str> = names(path).collect();
    let has = |wanted: &&[&str]| names.windows(wanted.len()).any(|window| is_same(window, wanted));
    let ends = |wanted: &&[&str]| {
        let from = names.len().checked_sub(wanted.len());
        from.and_then(|from| names.get(from..)).is_some_and(|last| is_same(last, wanted))
    };
    let file = || names.last().is_some_and(|name| is_one_of(name, &FILES));
    // The host's parts of a repository within `.git/modules` count, too.
    let buried = || names.last().is_some_and(|name| name.eq_ignore_ascii_case("config")) && names.iter().any(is_git);
    if DIRECTORIES.iter().any(has) || FILES_IN.iter().any(ends) || file() || buried() {
        return Some("it holds secrets, or makes other programs run something");
    }
    None
}

fn is_git(name: &&str) -> bool {
    name.eq_ignore_ascii_case(".git")
}

fn names(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })
}

fn is_one_of(name: &str, list: &[&str]) -> bool {
    list.iter().any(|other| name.eq_ignore_ascii_case(other))
}

fn is_same(window: &[&str], wanted: &[&str]) -> bool {
    window.len() == wanted.len() && window.iter().zip(wanted).all(|(name, wanted)| name.eq_ignore_ascii_case(wanted))
}
