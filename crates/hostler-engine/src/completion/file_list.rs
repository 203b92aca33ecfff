//! The files of a directory, for completions: walked within bounds, kept, and walked again when something has changed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ignore::WalkBuilder;

/// How many files of a directory are known at most.
const MAX_LISTED_FILES: usize = 50_000;

/// How long a walk may take. What was found until then is enough.
const MAX_WALK_DURATION: Duration = Duration::from_secs(2);

/// How many places are looked at to see whether a list still holds. A larger directory is walked again after a while.
const MAX_TRACKED_PATHS: usize = 5_000;

/// How long a list holds whose directory is too large to be looked at.
const UNTRACKED_LIST_TTL: Duration = Duration::from_secs(10);

/// A place that has changed so shortly before it was looked at may change again within the same moment of its clock.
const MTIME_SETTLE_TIME: Duration = Duration::from_millis(100);

/// How many directories are known at a time.
const MAX_CACHED_DIRECTORIES: usize = 32;

/// The paths of a directory's files, relative to it, with slashes.
pub(super) type FileList = Arc<[Box<str>]>;

/// What is known of directories.
#[derive(Debug, Default)]
pub(crate) struct FileListCache {
    lists: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<Option<CachedFileList>>>>>,
}

#[derive(Debug)]
struct CachedFileList {
    files: FileList,
    /// Directories and ignore files, and when each had changed last.
    tracked_paths: Vec<(PathBuf, SystemTime)>,
    validity: CacheValidity,
}

#[derive(Debug, PartialEq, Eq)]
enum CacheValidity {
    /// As long as nothing that is watched has changed.
    WhileUnchanged,
    /// For a while.
    ExpiresAfter(Instant),
    /// Not at all: something was changing.
    Never,
}

impl FileListCache {
    /// The files of a directory, but for what lies in one below it. Whoever asks at the same time waits for the same walk.
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
        // The disk may be slow.
        let fresh = tokio::task::spawn_blocking(move || match old {
            Some(list) if list.is_valid() => list,
            _ => walk_directory(&directory, except),
        });
        match fresh.await {
            Ok(fresh) => Arc::clone(&list.insert(fresh).files),
            Err(error) => {
                tracing::error!(%error, "a directory could not be walked");
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

/// Walks a directory, but for one below it. Ignore files count also where git does not know the directory.
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

    /// Makes everything look as if it had been there for long.
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
    fn what_is_ignored_is_not_there_and_what_is_hidden_is() {
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
    async fn a_list_is_kept_until_a_file_comes_goes_or_is_ignored() {
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
    fn a_place_that_is_changing_is_walked_again() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "one", "");
        assert_eq!(walk_directory(dir.path(), Vec::new()).validity, CacheValidity::Never);
        assert_eq!(walk_directory(&dir.path().join("nowhere"), Vec::new()).files.len(), 0);
    }
}
