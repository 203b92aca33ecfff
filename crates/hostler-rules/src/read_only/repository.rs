//! The repository that Git would use in a directory, and whether its configuration can run anything.
//!
//! Git runs programs that a repository's configuration names: monitors, pagers, filters, diff drivers, hooks. A folder
//! of unknown origin may contain such a configuration. Git commands are allowed without approval only if the repository
//! is an ordinary one (a `.git` directory, not a link, not bare, no shared parts), its configuration contains only keys
//! that are known to be harmless, no hook runs when the index is refreshed, and no submodule adds another
//! configuration.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::path::{PathKind, PathResolver};

const MAX_CONFIG_BYTES: u64 = 64 * 1024;
/// Limit of the scan that looks for links in a repository.
const MAX_SCANNED_ENTRIES: usize = 20_000;
const MAX_INDEX_BYTES: u64 = 32 * 1024 * 1024;

/// Keys that cannot run or redirect anything, as `section.key`; a star is the whole section.
const HARMLESS_CONFIG_KEYS: [&str; 38] = [
    "branch.*",
    "color.*",
    "core.abbrev",
    "core.autocrlf",
    "core.commentchar",
    "core.compression",
    "core.eol",
    "core.filemode",
    "core.hidedotfiles",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.longpaths",
    "core.precomposeunicode",
    "core.preloadindex",
    "core.protecthfs",
    "core.protectntfs",
    "core.quotepath",
    "core.repositoryformatversion",
    "core.safecrlf",
    "core.symlinks",
    "core.untrackedcache",
    "core.whitespace",
    "extensions.objectformat",
    "fetch.prune",
    "gc.*",
    "init.defaultbranch",
    "merge.conflictstyle",
    "merge.ff",
    "pull.*",
    "push.autosetupremote",
    "push.default",
    "remote.fetch",
    "remote.prune",
    "remote.pushurl",
    "remote.tagopt",
    "remote.url",
    "rerere.enabled",
    "user.*",
];

/// The top of the repository's work tree, or why Git requires approval there.
pub(super) fn find_harmless_repository(directory: &Path, resolver: &dyn PathResolver) -> Result<PathBuf, &'static str> {
    let real = resolver.resolve(directory).map_err(|_| "its working directory cannot be resolved")?;
    for top in real.ancestors() {
        let git = top.join(".git");
        let has = |name: &str| resolver.path_kind(&top.join(name)) != PathKind::Missing;
        if has("HEAD") && (has("objects") || has("refs") || has("commondir")) {
            return Err("it would use a bare repository");
        }
        match resolver.path_kind(&git) {
            PathKind::Directory => {
                check_repository(&git, top, resolver)?;
                return Ok(top.to_owned());
            }
            PathKind::File | PathKind::Other => return Err("its repository is in another directory"),
            PathKind::Missing => {}
        }
    }
    Err("no Git repository was found")
}

fn check_repository(git: &Path, top: &Path, resolver: &dyn PathResolver) -> Result<(), &'static str> {
    const SHARED: &str = "its repository shares data with another repository";
    for (name, why) in [
        ("commondir", SHARED),
        ("gitdir", SHARED),
        ("config.worktree", "its repository has a worktree-specific configuration"),
        ("objects/info/alternates", SHARED),
        ("hooks/post-index-change", "its repository has a hook that read-only commands can run"),
        ("hooks/reference-transaction", "its repository has a hook that read-only commands can run"),
    ] {
        if resolver.path_kind(&git.join(name)) != PathKind::Missing {
            return Err(why);
        }
    }
    // Git ignores a `.git` directory that is not a repository, and uses a repository above it.
    let is_directory = |name: &str| resolver.path_kind(&git.join(name)) == PathKind::Directory;
    let head = resolver.read(&git.join("HEAD"), MAX_CONFIG_BYTES).unwrap_or_default();
    if !is_head(&head) || !is_directory("objects/.") || !is_directory("refs/.") {
        return Err("its repository is incomplete");
    }
    if has_links(git, resolver) {
        return Err(SHARED);
    }
    const CONFIG: &str = "its repository's configuration is not known to be safe";
    match resolver.path_kind(&git.join("config")) {
        PathKind::Missing => {}
        PathKind::File => {
            let config = resolver.read(&git.join("config"), MAX_CONFIG_BYTES).ok_or(CONFIG)?;
            let config = String::from_utf8(config).map_err(|_| CONFIG)?;
            if !is_harmless_config(&config) {
                return Err(CONFIG);
            }
        }
        PathKind::Directory | PathKind::Other => return Err(CONFIG),
    }
    match resolver.path_kind(&git.join("index")) {
        PathKind::Missing => Ok(()),
        PathKind::File => {
            const INDEX: &str = "its repository's index cannot be read";
            let index = resolver.read(&git.join("index"), MAX_INDEX_BYTES).ok_or(INDEX)?;
            let entries = parse_index(&index).ok_or(INDEX)?;
            let is_plain =
                |name: Component<'_>| matches!(name, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
            if !entries.iter().all(|(path, _)| path.components().all(is_plain)) {
                return Err("its repository's index refers to paths outside the repository");
            }
            let populated = |path: &Path| resolver.path_kind(&top.join(path).join(".git")) != PathKind::Missing;
            if entries.iter().any(|(path, is_submodule)| *is_submodule && populated(path)) {
                return Err("its repository has submodules");
            }
            // `git grep` opens tracked files by their paths.
            let parents: BTreeSet<&Path> = entries.iter().flat_map(|(path, _)| path.ancestors().skip(1)).collect();
            let is_link = |path: &&Path| resolver.path_kind(&top.join(path)) == PathKind::Other;
            if parents.iter().any(is_link) { Err("a directory in its repository is a symbolic link") } else { Ok(()) }
        }
        PathKind::Directory | PathKind::Other => Err(SHARED),
    }
}

/// Does Git accept this as the `HEAD` of a repository?
fn is_head(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let is_id = |text: &str| matches!(text.len(), 40 | 64) && text.chars().all(|c| c.is_ascii_hexdigit());
    head.strip_prefix("ref:").map_or_else(|| is_id(head.trim_end()), |name| name.trim_start().starts_with("refs/"))
}

/// Is a part of the repository a link, so that Git would read files elsewhere? Individual loose objects are not
/// checked.
fn has_links(git: &Path, resolver: &dyn PathResolver) -> bool {
    let mut left = MAX_SCANNED_ENTRIES;
    let mut waiting: Vec<(PathBuf, bool)> = ["refs", "logs"].map(|name| (git.join(name), true)).to_vec();
    waiting
        .extend(["", "hooks", "info", "objects", "objects/info", "objects/pack"].map(|name| (git.join(name), false)));
    while let Some((directory, below)) = waiting.pop() {
        if resolver.path_kind(&directory) == PathKind::Missing {
            continue;
        }
        let Some(parts) = resolver.list(&directory, left) else { return true };
        left -= parts.len();
        if parts.iter().any(|(_, entry)| *entry == PathKind::Other) {
            return true;
        }
        let directories = parts.into_iter().filter(|(_, entry)| below && *entry == PathKind::Directory);
        waiting.extend(directories.map(|(path, _)| (path, true)));
    }
    false
}

/// Are all keys of a configuration harmless? Syntax that this parser does not know is not.
fn is_harmless_config(config: &str) -> bool {
    let mut section = String::new();
    for line in config.trim_start_matches('\u{feff}').lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            // A quoted subsection name may contain brackets. Such a section is refused.
            let Some((header, rest)) = rest.split_once(']') else { return false };
            let name = header.split([' ', '\t', '.']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            line = rest.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = line.split_once('=').map_or((line, None), |(key, value)| (key.trim(), Some(value.trim())));
        let key = key.to_ascii_lowercase();
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        // A value that continues in the next line could hide a key from this parser or from Git.
        if !is_key || section.is_empty() || value.is_some_and(|value| value.ends_with('\\')) {
            return false;
        }
        let off =
            value.is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0"));
        let harmless = match (section.as_str(), key.as_str()) {
            ("core", "bare" | "fsmonitor") => off,
            _ => HARMLESS_CONFIG_KEYS.iter().any(|known| match known.split_once('.') {
                Some((known, "*")) => known == section,
                Some((known, name)) => known == section && name == key,
                None => false,
            }),
        };
        if !harmless {
            return false;
        }
    }
    true
}

/// The paths in an index, and which of them are submodules; `None` if the format is not known.
fn parse_index(index: &[u8]) -> Option<Vec<(PathBuf, bool)>> {
    const SUBMODULE: u32 = 0o160_000;
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    (index.get(..4)? == b"DIRC").then_some(())?;
    let (version, count) = (number(4)?, number(8)?);
    (2..=4).contains(&version).then_some(())?;
    // Hashes have 20 bytes; with longer ones all offsets shift and the trailer does not match.
    let (mut at, mut path, mut found) = (12, Vec::new(), Vec::new());
    for _ in 0..count {
        let mode = number(at + 24)?;
        let flags = u16::from_be_bytes(index.get(at + 60..at + 62)?.try_into().ok()?);
        let name = at + if flags & 0x4000 != 0 { 64 } else { 62 };
        let rest = index.get(name..)?;
        if version == 4 {
            let (cut, used) = parse_varint(rest)?;
            let end = rest.get(used..)?.iter().position(|byte| *byte == 0)?;
            path.truncate(path.len().checked_sub(cut)?);
            path.extend_from_slice(rest.get(used..used + end)?);
            at = name + used + end + 1;
        } else {
            let end = rest.iter().position(|byte| *byte == 0)?;
            path = rest.get(..end)?.to_vec();
            at += ((name - at + end) / 8 + 1) * 8;
        }
        found.push((PathBuf::from(String::from_utf8(path.clone()).ok()?), mode & 0o170_000 == SUBMODULE));
    }
    // Extensions follow; a `link` extension means that most entries are in another file.
    while at + 28 <= index.len() {
        (index.get(at..at + 4)? != b"link" && index.get(at..at + 4)? != b"sdir").then_some(())?;
        at = at.checked_add(8)?.checked_add(usize::try_from(number(at + 4)?).ok()?)?;
    }
    (at + 20 == index.len()).then_some(found)
}

/// Parses Git's variable-length integer: seven bits per byte, with one added at each step.
fn parse_varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
        value = (value + 1) << 7;
    }
    None
}

#[cfg(test)]
mod tests;
