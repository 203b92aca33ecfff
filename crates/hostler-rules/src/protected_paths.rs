//! Paths that only bypass mode touches without asking: secrets, and files that make other programs run something.
//!
//! Names are compared case-insensitively, as some file systems do. A person's rule can allow such a path.

use std::path::{Component, Path, PathBuf};

use crate::path::{CandidatePaths, PathKind, PathResolver};

/// Directories of secrets, start-up files and services, with everything below them, at any location.
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

/// File names, at any location.
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

/// Files by the last components of their path.
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

/// Names of directories and files that make other programs run something when changed. Reading them is not protected.
const EXECUTED_CONFIG_NAMES: [&str; 7] =
    [".claude", ".git", ".gitmodules", ".husky", ".idea", ".vscode", ".devcontainer"];

/// System directories that show processes, their environments and devices.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Why reading the path requires approval, if so. `own` are the host's own directories.
pub(crate) fn find_read_protection(spot: &CandidatePaths, own: &[PathBuf]) -> Option<&'static str> {
    spot.paths.iter().find_map(|path| find_protection(path, own))
}

/// Why writing the path requires approval, if so.
pub(crate) fn find_write_protection(spot: &CandidatePaths, own: &[PathBuf]) -> Option<&'static str> {
    let runs = |path: &PathBuf| path_names(path).any(|name| is_one_of(name, &EXECUTED_CONFIG_NAMES));
    find_read_protection(spot, own).or_else(|| {
        spot.paths.iter().any(runs).then_some("it changes a file that can make other programs run commands")
    })
}

/// What a search excludes below its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchExclusion {
    /// Nothing.
    Nothing,
    /// The `.git` directory, unless the search starts in it.
    GitDirectory,
    /// Names with a leading dot, unless an ignore file includes them again.
    HiddenFiles,
}

/// Is there a protected path below this one, which a recursive read would include? If the bounded scan exceeds its
/// limit, the answer is yes.
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

/// Limit of the directory scan that looks for protected files.
const MAX_SCANNED_ENTRIES: usize = 200_000;

fn contains_protected(
    starts: &[PathBuf],
    own: &[PathBuf],
    skips: SearchExclusion,
    resolver: &dyn PathResolver,
) -> bool {
    let shown = |directory: &Path| reveals_hidden_files(directory, resolver);
    // Ignore files of all parent directories apply as well.
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
            // The scan does not follow links.
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

/// An agent's configuration in a project: writing it is protected, but a search that reads it reveals no secret.
fn is_project_configuration(path: &Path) -> bool {
    const NAMES: [&str; 3] = [".mcp.json", ".claude/settings.json", ".claude/settings.local.json"];
    NAMES.iter().any(|name| path.ends_with(name))
}

/// Can an ignore file in this directory include a protected name again, as `!.npmrc` does?
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
    // `*.rs` does not match a protected name.
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
        return Some("it accesses Hostler's own files");
    }
    if SYSTEM_DIRECTORIES.iter().any(|system| path.starts_with(system)) {
        return Some("it accesses process or device files of the system");
    }
    let names: Vec<&str> = path_names(path).collect();
    let has = |wanted: &&[&str]| names.windows(wanted.len()).any(|window| equals_ignoring_case(window, wanted));
    let ends = |wanted: &&[&str]| {
        let from = names.len().checked_sub(wanted.len());
        from.and_then(|from| names.get(from..)).is_some_and(|last| equals_ignoring_case(last, wanted))
    };
    let file = || names.last().is_some_and(|name| is_one_of(name, &PROTECTED_FILES));
    // Configurations of submodules in `.git/modules` are protected as well.
    let buried =
        || names.last().is_some_and(|name| name.eq_ignore_ascii_case("config")) && names.iter().any(is_git_directory);
    if PROTECTED_DIRECTORIES.iter().any(has) || PROTECTED_PATH_SUFFIXES.iter().any(ends) || file() || buried() {
        return Some("it accesses a file that can contain secrets or make other programs run commands");
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
