//! The file list of a directory, for completions.
//!
//! Completions read the disk off the actor, within limits. A directory's file list stays valid while no directory and
//! no ignore file in it has a new modification time; what changed during the walk is walked again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ignore::WalkBuilder;

/// Maximum number of listed files of a directory.
const MAX_LISTED_FILES: usize = 50_000;

/// Maximum duration of a walk; then the list is incomplete.
const MAX_WALK_DURATION: Duration = Duration::from_secs(2);

/// Maximum number of paths whose modification times are checked. A larger directory is walked again after a while.
const MAX_TRACKED_PATHS: usize = 5_000;

/// Validity of the list of a directory that is too large to be checked.
const UNTRACKED_LIST_TTL: Duration = Duration::from_secs(10);

/// A path that changed this recently may change again without a new modification time.
const MTIME_SETTLE_TIME: Duration = Duration::from_millis(100);

/// Maximum number of cached directories.
const MAX_CACHED_DIRECTORIES: usize = 32;

/// The paths of a directory's files, relative to it, with slashes.
pub(crate) type FileList = Arc<[Box<str>]>;

/// The cached lists of directories.
#[derive(Debug, Default)]
pub(super) struct FileListCache {
    lists: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<Option<CachedFileList>>>>>,
}

#[derive(Debug)]
struct CachedFileList {
    files: FileList,
    /// Directories and ignore files, with their modification times.
    tracked_paths: Vec<(PathBuf, SystemTime)>,
    validity: CacheValidity,
}

#[derive(Debug, PartialEq, Eq)]
enum CacheValidity {
    /// While no tracked path has changed.
    WhileUnchanged,
    /// For a limited time.
    ExpiresAfter(Instant),
    /// Not at all: a path was changing during the walk.
    Never,
}

impl FileListCache {
    /// The files of a directory without those in excluded directories. Concurrent requests wait for the same walk.
    pub(super) async fn files(&self, directory: &Path, except: Vec<PathBuf>) -> FileList {
        let place = {
            let mut known = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MAX_CACHED_DIRECTORIES && !known.contains_key(directory) {
                known.clear();
            }
            Arc::clone(known.entry(directory.to_owned()).or_default())
        };
        let mut list = place.lock().await;
        let (old, directory) = (list.take(), directory.to_owned());
        // Blocking, because the disk may be slow.
        let fresh = tokio::task::spawn_blocking(move || match old {
            Some(list) if list.is_valid() => list,
            _ => walk_directory(&directory, except),
        });
        match fresh.await {
            Ok(fresh) => Arc::clone(&list.insert(fresh).files),
            Err(error) => {
                tracing::error!(%error, "failed to list a directory");
                FileList::default()
            }
        }
    }
}

impl CachedFileList {
    fn is_valid(&self) -> bool {
        match self.validity {
            CacheValidity::WhileUnchanged => {
                self.tracked_paths.iter().all(|(place, then)| modified_at(place) == Some(*then))
            }
            CacheValidity::ExpiresAfter(then) => then.elapsed() < UNTRACKED_LIST_TTL,
            CacheValidity::Never => false,
        }
    }
}

fn modified_at(place: &Path) -> Option<SystemTime> {
    std::fs::symlink_metadata(place).ok()?.modified().ok()
}

/// Walks a directory without the excluded ones. Ignore files apply outside of git repositories as well.
fn walk_directory(directory: &Path, except: Vec<PathBuf>) -> CachedFileList {
    let (began, now) = (Instant::now(), SystemTime::now());
    let mut walker = WalkBuilder::new(directory);
    walker.hidden(false).require_git(false).follow_links(false).sort_by_file_name(OsStr::cmp);
    let is_private = move |path: &Path| except.iter().any(|private| private == path);
    walker.filter_entry(move |entry| entry.file_name() != ".git" && !is_private(entry.path()));
    let mut files: Vec<Box<str>> = Vec::new();
    let mut watched = Vec::new();
    let mut whole = true;
    for entry in walker.build().flatten() {
        if files.len() >= MAX_LISTED_FILES || began.elapsed() > MAX_WALK_DURATION {
            whole = false;
            break;
        }
        let Some(kind) = entry.file_type() else { continue };
        let decides = matches!(entry.file_name().to_str(), Some(".gitignore" | ".ignore"));
        if (kind.is_dir() || decides)
            && watched.len() <= MAX_TRACKED_PATHS
            && let Some(then) = modified_at(entry.path())
        {
            watched.push((entry.path().to_owned(), then));
        }
        if !kind.is_dir()
            && let Some(path) = entry.path().strip_prefix(directory).ok().and_then(Path::to_str)
        {
            files.push(path.into());
        }
    }
    let unsettled = |then: &SystemTime| now.duration_since(*then).map_or(true, |age| age < MTIME_SETTLE_TIME);
    let holds = if !whole || watched.len() > MAX_TRACKED_PATHS {
        CacheValidity::ExpiresAfter(Instant::now())
    } else if watched.iter().any(|(_, then)| unsettled(then)) {
        CacheValidity::Never
    } else {
        CacheValidity::WhileUnchanged
    };
    CachedFileList { files: files.into(), tracked_paths: watched, validity: holds }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, path: &str, text: &str) {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Makes all modification times old.
    fn settle(directory: &Path) {
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        for entry in WalkBuilder::new(directory).standard_filters(false).build().flatten() {
            std::fs::File::open(entry.path()).unwrap().set_modified(long_ago).unwrap();
        }
    }

    fn names(files: &FileList) -> Vec<&str> {
        files.iter().map(|name| &**name).collect()
    }

    #[test]
    fn walk_lists_hidden_files_but_not_ignored_ones() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            (".gitignore", "target/\n*.log\n"),
            ("src/main.rs", ""),
            ("src/debug.log", ""),
            ("target/out", ""),
            (".github/ci.yml", ""),
            (".git/HEAD", ""),
            ("docs/.ignore", "secret\n"),
            ("docs/secret", ""),
        ] {
            write(dir.path(), path, text);
        }
        let list = walk_directory(dir.path(), Vec::new());
        assert_eq!(names(&list.files), [".github/ci.yml", ".gitignore", "docs/.ignore", "src/main.rs"]);
    }

    #[tokio::test]
    async fn file_list_is_cached_until_files_or_ignore_rules_change() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "a/one", "");
        write(dir.path(), ".gitignore", "");
        settle(dir.path());
        let walks = FileListCache::default();
        let first = walks.files(dir.path(), Vec::new()).await;
        assert!(
            Arc::ptr_eq(&first, &walks.files(dir.path(), Vec::new()).await),
            "nothing has changed, so nothing is walked"
        );
        write(dir.path(), "a/two", "");
        assert_eq!(names(&walks.files(dir.path(), Vec::new()).await), [".gitignore", "a/one", "a/two"]);
        settle(dir.path());
        let again = walks.files(dir.path(), Vec::new()).await;
        assert!(Arc::ptr_eq(&again, &walks.files(dir.path(), Vec::new()).await));
        write(dir.path(), ".gitignore", "two\n");
        assert_eq!(names(&walks.files(dir.path(), Vec::new()).await), [".gitignore", "a/one"]);
    }

    #[test]
    fn recently_changed_directory_is_not_cached() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "one", "");
        assert_eq!(walk_directory(dir.path(), Vec::new()).validity, CacheValidity::Never);
        assert_eq!(walk_directory(&dir.path().join("nowhere"), Vec::new()).files.len(), 0);
    }
}
