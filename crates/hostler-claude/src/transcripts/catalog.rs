//! Lists all conversations of this user: the transcripts below the agent's configuration directory.
//!
//! A file that cannot be read now may be readable at the next scan: it is reported, and its last known entry is
//! retained. Only a deleted file is removed from the list.

use std::collections::{HashMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use uuid::Uuid;

use super::listing::{ConversationListing, MAX_HEAD_READ_BYTES};
use super::regular_file;

/// The reason for a file without any record.
const NO_RECORDS_REASON: &str = "the file contains no conversation records";

/// The reason for a file that may contain a conversation without a prompt in its head.
const NO_PROMPT_REASON: &str = "the first 4 MiB of the file contain no message";

/// The reason for a file on which the reader panicked.
const READER_PANIC_REASON: &str = "the file could not be parsed";

/// How many files are read in parallel.
const READER_THREADS: usize = 4;

/// One conversation, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its id, from the file name.
    pub id: Uuid,
    /// Its transcript.
    pub path: PathBuf,
    /// When the file was last written.
    pub modified: SystemTime,
    /// Its prompt, directory and metadata.
    pub listing: ConversationListing,
}

/// A file or directory that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct UnreadablePath {
    /// The path.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// The result of a scan.
#[derive(Debug, Clone, Default)]
pub struct CatalogScan {
    /// The conversations in it, newest first.
    pub conversations: Vec<Arc<CatalogEntry>>,
    /// What could not be read. Other files are listed, and so is the last known state of these.
    pub unreadable: Vec<UnreadablePath>,
    /// How many files were read, not only checked for changes.
    pub files_read: usize,
}

/// The conversations below one directory. Caches what it has read: unchanged files are not read again.
#[derive(Debug)]
pub struct ConversationCatalog {
    projects: PathBuf,
    files: HashMap<PathBuf, Arc<CachedFile>>,
}

#[derive(Debug)]
struct CachedFile {
    modified: SystemTime,
    size: u64,
    contents: FileContents,
}

/// The contents of a file.
#[derive(Debug)]
enum FileContents {
    Conversation(Arc<CatalogEntry>),
    /// No message in it.
    Empty,
    /// Reported as unreadable.
    Unreadable(&'static str),
}

impl ConversationCatalog {
    /// The catalog of an agent with this configuration directory.
    pub fn for_config_directory(configuration: &Path) -> Self {
        Self { projects: configuration.join("projects"), files: HashMap::new() }
    }

    /// The directory that contains the project directories.
    pub fn directory(&self) -> &Path {
        &self.projects
    }

    /// Lists all conversations. Blocks while it reads new and changed files.
    pub fn scan(&mut self) -> CatalogScan {
        let TranscriptDirectoryListing { files, mut unreadable } = TranscriptDirectoryListing::read(&self.projects);
        let mut known: HashMap<PathBuf, Arc<CachedFile>> = HashMap::with_capacity(files.len());
        for one in &unreadable {
            let below = self.files.iter().filter(|(path, _)| path.starts_with(&one.path));
            known.extend(below.map(|(path, before)| (path.clone(), Arc::clone(before))));
        }
        let cached = |(id, path): (Uuid, PathBuf)| TranscriptFile { id, cached: self.files.get(&path).cloned(), path };
        let mut files_read = 0;
        for (file, read) in read_in_parallel(files.into_iter().map(cached).collect(), TranscriptFile::read) {
            match read {
                Ok(Some(read)) => {
                    files_read += usize::from(file.cached.is_none_or(|before| !Arc::ptr_eq(&before, &read)));
                    known.insert(file.path, read);
                }
                Ok(None) => drop(known.remove(&file.path)),
                // Deleted in the meantime: nothing to report. A dangling link still exists.
                Err(error) if is_deleted(&error, &file.path) => drop(known.remove(&file.path)),
                Err(error) => {
                    known.extend(file.cached.map(|before| (file.path.clone(), before)));
                    unreadable.push(UnreadablePath { path: file.path, reason: error.to_string() });
                }
            }
        }
        let named = known.iter().filter_map(|(path, known)| match known.contents {
            FileContents::Unreadable(why) => Some(UnreadablePath { path: path.clone(), reason: why.to_owned() }),
            FileContents::Conversation(_) | FileContents::Empty => None,
        });
        unreadable.extend(named);
        self.files = known;
        CatalogScan { conversations: self.listed(), unreadable, files_read }
    }

    /// The last known state, for a scan that failed.
    pub fn last_scan(&self, why: &str) -> CatalogScan {
        let unreadable = vec![UnreadablePath { path: self.projects.clone(), reason: why.to_owned() }];
        CatalogScan { conversations: self.listed(), unreadable, files_read: 0 }
    }

    /// One conversation. Scans everything only if it is not at its last known path.
    ///
    /// # Errors
    /// Why its existence cannot be determined.
    pub fn find(&mut self, id: Uuid) -> Result<Option<Arc<CatalogEntry>>, UnreadablePath> {
        let known = self.files.values().filter_map(|known| known.conversation()).filter(|known| known.id == id);
        let newest = known.max_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
        if let Some(known) = newest.filter(|known| known.path.is_file()) {
            return Ok(Some(Arc::clone(known)));
        }
        let look = self.scan();
        if let Some(found) = look.conversations.into_iter().find(|found| found.id == id) {
            return Ok(Some(found));
        }
        // It is this file, or may be in this directory.
        let hidden =
            look.unreadable.into_iter().find(|one| conversation_id_of(&one.path).is_none_or(|named| named == id));
        hidden.map_or(Ok(None), Err)
    }

    /// Every file with this conversation's id, including copies in other projects.
    ///
    /// # Errors
    /// If none is found and some directory could not be read.
    pub fn copies(&self, id: Uuid) -> Result<Vec<PathBuf>, UnreadablePath> {
        let TranscriptDirectoryListing { files, unreadable } = TranscriptDirectoryListing::read(&self.projects);
        let copies: Vec<_> = files.into_iter().filter(|(named, _)| *named == id).map(|(_, path)| path).collect();
        match unreadable.into_iter().next() {
            Some(unreadable) if copies.is_empty() => Err(unreadable),
            _ => Ok(copies),
        }
    }

    /// Newest first. A conversation that was copied to another project counts where it was used last.
    fn listed(&self) -> Vec<Arc<CatalogEntry>> {
        let mut found: Vec<_> = self.files.values().filter_map(|known| known.conversation()).cloned().collect();
        found.sort_by(|a, b| (b.modified, b.id, &b.path).cmp(&(a.modified, a.id, &a.path)));
        let mut seen = HashSet::new();
        found.retain(|conversation| seen.insert(conversation.id));
        found
    }
}

impl CachedFile {
    fn conversation(&self) -> Option<&Arc<CatalogEntry>> {
        match &self.contents {
            FileContents::Conversation(conversation) => Some(conversation),
            FileContents::Empty | FileContents::Unreadable(_) => None,
        }
    }
}

/// The files with a transcript's name, from directory listings alone.
struct TranscriptDirectoryListing {
    files: Vec<(Uuid, PathBuf)>,
    /// Directories that could not be read completely.
    unreadable: Vec<UnreadablePath>,
}

impl TranscriptDirectoryListing {
    fn read(projects: &Path) -> Self {
        let mut listing = Self { files: Vec::new(), unreadable: Vec::new() };
        for folder in listing.entries(projects) {
            for path in listing.entries(&folder) {
                listing.files.extend(conversation_id_of(&path).map(|id| (id, path)));
            }
        }
        listing
    }

    fn entries(&mut self, directory: &Path) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        let listed = std::fs::read_dir(directory).and_then(|mut entries| {
            entries.try_for_each(|entry| {
                paths.push(entry?.path());
                Ok(())
            })
        });
        match listed {
            // A missing path or a path that is no directory contains no conversations; that is no error.
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.unreadable.push(UnreadablePath { path: directory.to_owned(), reason: error.to_string() });
            }
            _ => {}
        }
        paths
    }
}

/// The conversation id in a file name.
fn conversation_id_of(path: &Path) -> Option<Uuid> {
    let id = path.file_stem()?.to_str().and_then(|stem| Uuid::try_parse(stem).ok())?;
    path.extension().is_some_and(|extension| extension == "jsonl").then_some(id)
}

fn is_deleted(error: &io::Error, path: &Path) -> bool {
    let there = || path.symlink_metadata().map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true);
    error.kind() == io::ErrorKind::NotFound && !there()
}

/// A file with a transcript's name.
struct TranscriptFile {
    id: Uuid,
    path: PathBuf,
    cached: Option<Arc<CachedFile>>,
}

impl TranscriptFile {
    /// Reads the file, if it is new or has changed. `None` if it is empty.
    fn read(&self) -> io::Result<Option<Arc<CachedFile>>> {
        let facts = std::fs::metadata(&self.path)?;
        let (id, modified, size) = (self.id, facts.modified().unwrap_or(SystemTime::UNIX_EPOCH), facts.len());
        if !facts.is_file() {
            return Err(regular_file::not_a_file_error());
        }
        if size == 0 {
            return Ok(None);
        }
        if let Some(cached) = self.cached.as_ref().filter(|cached| (cached.modified, cached.size) == (modified, size)) {
            return Ok(Some(Arc::clone(cached)));
        }
        let (file, _) = regular_file::open_regular_file(&self.path)?;
        let listing = ConversationListing::read(&file, size)?;
        let contents = if listing.is_sidechain {
            FileContents::Empty
        } else if !listing.has_records && size <= MAX_HEAD_READ_BYTES {
            FileContents::Unreadable(NO_RECORDS_REASON)
        } else if listing.title().is_some() {
            FileContents::Conversation(Arc::new(CatalogEntry { id, path: self.path.clone(), modified, listing }))
        } else if size > MAX_HEAD_READ_BYTES {
            FileContents::Unreadable(NO_PROMPT_REASON)
        } else {
            FileContents::Empty
        };
        Ok(Some(Arc::new(CachedFile { modified, size, contents })))
    }
}

/// Processes many files, some in parallel. A panic in the reader affects only its own file.
fn read_in_parallel<T: Send, R: Send>(
    all: Vec<T>,
    read: impl Fn(&T) -> io::Result<R> + Sync,
) -> Vec<(T, io::Result<R>)> {
    let mut parts: Vec<Vec<T>> = (0..READER_THREADS.min(all.len())).map(|_| Vec::new()).collect();
    for (at, one) in all.into_iter().enumerate() {
        if let Some(part) = parts.get_mut(at % READER_THREADS) {
            part.push(one);
        }
    }
    let read_one = |one: T| {
        let read = catch_unwind(AssertUnwindSafe(|| read(&one)))
            .unwrap_or_else(|_| Err(io::Error::other(READER_PANIC_REASON)));
        (one, read)
    };
    let read_part = |part: Vec<T>| part.into_iter().map(read_one).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let readers: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| read_part(part))).collect();
        readers.into_iter().flat_map(|reader| reader.join().unwrap_or_default()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(configuration: &Path, folder: &str, id: u128, text: &str) -> PathBuf {
        let folder = configuration.join("projects").join(folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{}.jsonl", Uuid::from_u128(id)));
        fs::write(&path, text).unwrap();
        path
    }

    fn begin(text: &str) -> String {
        format!("{{\"type\":\"user\",\"uuid\":\"a\",\"cwd\":\"/p\",\"message\":{{\"content\":\"{text}\"}}}}\n")
    }

    fn names(look: &CatalogScan) -> Vec<&str> {
        let mut names: Vec<_> = look.conversations.iter().filter_map(|found| found.listing.title()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn unreadable_file_does_not_hide_others() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path();
        assert!(ConversationCatalog::for_config_directory(at).scan().conversations.is_empty());
        write(at, "-p", 1, &begin("one"));
        write(at, "-q", 2, &begin("two"));
        write(at, "-q", 3, "");
        write(at, "-q", 4, "\0\u{1}\u{2}noise without an end");
        write(at, "-q", 5, &begin("side").replace("\"uuid\"", "\"isSidechain\":true,\"uuid\""));
        fs::write(at.join("projects/-q/notes.jsonl"), begin("no id")).unwrap();
        fs::write(at.join("projects/loose.txt"), "x").unwrap();
        fs::create_dir(at.join(format!("projects/-q/{}.jsonl", Uuid::from_u128(6)))).unwrap();
        std::os::unix::fs::symlink("nowhere", at.join(format!("projects/-q/{}.jsonl", Uuid::from_u128(7)))).unwrap();
        let look = ConversationCatalog::for_config_directory(at).scan();
        assert_eq!(names(&look), ["one", "two"]);
        let mut unreadable: Vec<_> = look.unreadable.iter().map(|one| (&one.path, one.reason.as_str())).collect();
        unreadable.sort();
        let why = |id: u128, why: &'static str| (at.join(format!("projects/-q/{}.jsonl", Uuid::from_u128(id))), why);
        let expected =
            [why(4, NO_RECORDS_REASON), why(6, "not a regular file"), why(7, "No such file or directory (os error 2)")];
        assert_eq!(unreadable, expected.iter().map(|(path, why)| (path, *why)).collect::<Vec<_>>());
    }

    #[test]
    fn conversation_is_found_at_its_old_or_new_path() {
        let home = tempfile::tempdir().unwrap();
        let mut conversations = ConversationCatalog::for_config_directory(home.path());
        let id = Uuid::from_u128(1);
        assert_eq!(conversations.find(id), Ok(None));
        let path = write(home.path(), "-p", 1, &begin("one"));
        assert_eq!(conversations.find(id).unwrap().unwrap().path, path);
        // Proves that it is not read again: it is at its known path.
        fs::write(&path, "").unwrap();
        assert_eq!(conversations.find(id).unwrap().unwrap().path, path);
        fs::remove_file(&path).unwrap();
        let elsewhere = write(home.path(), "-q", 1, &begin("one"));
        assert_eq!(conversations.find(id).unwrap().unwrap().path, elsewhere);
        fs::remove_file(elsewhere).unwrap();
        assert_eq!(conversations.find(id), Ok(None));
    }

    #[test]
    fn unchanged_files_are_not_read_again_and_deleted_ones_disappear() {
        let home = tempfile::tempdir().unwrap();
        let one = write(home.path(), "-p", 1, &begin("one"));
        write(home.path(), "-p", 2, &begin("two"));
        let mut conversations = ConversationCatalog::for_config_directory(home.path());
        assert_eq!(conversations.scan().files_read, 2);
        assert_eq!(conversations.scan().files_read, 0);
        let renamed = format!("{}{{\"type\":\"custom-title\",\"customTitle\":\"uno\"}}\n", begin("one"));
        fs::write(&one, renamed).unwrap();
        let look = conversations.scan();
        assert_eq!((look.files_read, names(&look)), (1, vec!["two", "uno"]));
        fs::remove_file(one).unwrap();
        let look = conversations.scan();
        assert_eq!((look.files_read, names(&look)), (0, vec!["two"]));
    }

    #[test]
    fn copied_conversation_is_listed_once_where_it_was_used_last() {
        let home = tempfile::tempdir().unwrap();
        let old = write(home.path(), "-p", 1, &begin("old"));
        write(home.path(), "-q", 1, &begin("new"));
        let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        fs::File::options().write(true).open(old).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(names(&ConversationCatalog::for_config_directory(home.path()).scan()), ["new"]);
    }

    #[test]
    fn long_files_are_read_at_both_ends() {
        let home = tempfile::tempdir().unwrap();
        let filler = format!("{{\"type\":\"api-request-blob\",\"x\":\"{}\"}}\n", "y".repeat(100_000));
        write(
            home.path(),
            "-p",
            1,
            &format!("{}{filler}{}", begin("one"), "{\"type\":\"ai-title\",\"aiTitle\":\"named\"}\n"),
        );
        write(home.path(), "-p", 2, &format!("{}{filler}", begin(&"long ".repeat(40_000))));
        let look = ConversationCatalog::for_config_directory(home.path()).scan();
        let names = names(&look);
        assert_eq!(names.len(), 2);
        assert!(names[0].starts_with("long long") && names[1] == "named", "{names:?}");
        assert!(look.conversations.iter().all(|found| found.listing.working_directory.as_deref() == Some("/p")));
    }

    fn append(path: &Path, text: &str) {
        std::io::Write::write_all(&mut fs::File::options().append(true).open(path).unwrap(), text.as_bytes()).unwrap();
    }

    fn note(kind: &str, field: &str, value: &str) -> String {
        format!("{{\"type\":\"{kind}\",\"{field}\":\"{value}\"}}\n")
    }

    #[test]
    fn temporarily_unreadable_file_retains_its_last_state() {
        let home = tempfile::tempdir().unwrap();
        let file = write(home.path(), "-p", 1, &begin("one"));
        write(home.path(), "-p", 2, &begin("two"));
        write(home.path(), "-q", 3, &begin("three"));
        let mut conversations = ConversationCatalog::for_config_directory(home.path());
        let all = vec!["one", "three", "two"];
        assert_eq!(names(&conversations.scan()), all);
        let folder = file.parent().unwrap().to_owned();
        for (path, neighbours) in
            [(file, vec!["three", "two"]), (folder, vec!["three"]), (home.path().join("projects"), vec![])]
        {
            let aside = home.path().join("aside");
            fs::rename(&path, &aside).unwrap();
            // No process can follow this link, whatever the permissions.
            std::os::unix::fs::symlink(&path, &path).unwrap();
            for _ in 0..2 {
                let look = conversations.scan();
                assert_eq!(names(&look), all, "{path:?}");
                assert_eq!(look.unreadable.iter().map(|one| &one.path).collect::<Vec<_>>(), [&path]);
            }
            assert_eq!(names(&ConversationCatalog::for_config_directory(home.path()).scan()), neighbours);
            fs::remove_file(&path).unwrap();
            let look = conversations.scan();
            assert_eq!((names(&look), &look.unreadable[..]), (neighbours, &[][..]), "a deleted file is not listed");
            fs::rename(&aside, &path).unwrap();
            assert_eq!(names(&conversations.scan()), all);
        }
        assert_eq!(names(&conversations.last_scan("no")), all);
    }

    #[test]
    fn conversation_without_a_prompt_in_its_head_is_reported() {
        let home = tempfile::tempdir().unwrap();
        let long = begin(&"long ".repeat(1_000_000));
        let path = write(home.path(), "-p", 1, &("{\"type\":\"queue-operation\"}\n".to_owned() + &long));
        write(home.path(), "-p", 2, &long);
        let mut conversations = ConversationCatalog::for_config_directory(home.path());
        let look = conversations.scan();
        assert_eq!(
            look.unreadable.iter().map(|one| one.reason.as_str()).collect::<Vec<_>>(),
            [NO_PROMPT_REASON, NO_PROMPT_REASON]
        );
        append(&path, &note("custom-title", "customTitle", "named"));
        let look = conversations.scan();
        assert_eq!((names(&look), look.unreadable.len()), (vec!["named"], 1));
    }

    #[test]
    fn reader_panic_affects_only_its_own_file() {
        let read = read_in_parallel((0..20).collect(), |number: &i32| match number {
            7 => panic!("this one"),
            number => Ok(number * 2),
        });
        let mut read: Vec<_> =
            read.into_iter().map(|(one, read)| (one, read.map_err(|error| error.to_string()))).collect();
        read.sort();
        let expected = |one: i32| if one == 7 { Err(READER_PANIC_REASON.to_owned()) } else { Ok(one * 2) };
        assert_eq!(read, (0..20).map(|one| (one, expected(one))).collect::<Vec<_>>());
    }
}
