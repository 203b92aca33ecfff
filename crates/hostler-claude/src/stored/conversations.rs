//! Every conversation of this user: the transcripts under the agent's configuration directory.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use uuid::Uuid;

use super::file;
use super::outline::Outline;

/// How much of each end of a file is read for the list.
const END: u64 = 64 * 1024;

/// How much of the beginning is read where the first words do not fit into that, as with a picture.
const LONG_BEGINNING: u64 = 4 * 1024 * 1024;

/// What is said of a file without a single record.
const NOISE: &str = "holds no record of a conversation";

/// How many files are read at a time.
const READERS: usize = 4;

/// One conversation, as far as a list goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Its id: the file's name.
    pub id: Uuid,
    /// Its transcript.
    pub path: PathBuf,
    /// When something was written last.
    pub modified: SystemTime,
    /// How large it is, in bytes.
    pub size: u64,
    /// What it is about.
    pub outline: Outline,
}

/// A file or directory that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// What a look at the directory showed.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// The conversations in it, newest first.
    pub found: Vec<Arc<Conversation>>,
    /// What could not be read. Its neighbours are in the list.
    pub unreadable: Vec<Unreadable>,
    /// How many files were read, not just looked at.
    pub read: usize,
}

/// The conversations under one directory. Remembers what it has read: a file that has not changed is not read again.
#[derive(Debug)]
pub struct Conversations {
    projects: PathBuf,
    known: HashMap<PathBuf, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    modified: SystemTime,
    size: u64,
    is: Is,
}

/// What a file turned out to be.
#[derive(Debug, Clone)]
enum Is {
    Conversation(Arc<Conversation>),
    /// Nobody talked in it.
    Nothing,
    /// None of it is a record.
    Noise,
}

impl Conversations {
    /// Those of an agent with this configuration directory.
    pub fn under(configuration: &Path) -> Self {
        Self { projects: configuration.join("projects"), known: HashMap::new() }
    }

    /// The directory that the projects' directories are in.
    pub fn directory(&self) -> &Path {
        &self.projects
    }

    /// Looks which there are. Blocks while it reads files that are new or have changed.
    pub fn look(&mut self) -> Look {
        let mut look = Look::default();
        let mut files = Vec::new();
        for folder in entries(&self.projects, &mut look.unreadable) {
            for path in entries(&folder, &mut look.unreadable) {
                let named = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Uuid::try_parse(stem).ok());
                if let (Some(id), true) = (named, path.extension().is_some_and(|extension| extension == "jsonl")) {
                    files.push((id, path));
                }
            }
        }
        let mut known = HashMap::with_capacity(files.len());
        let mut news = Vec::new();
        for (id, path) in files {
            let facts = match std::fs::metadata(&path) {
                Ok(facts) if facts.is_file() => facts,
                Ok(_) => {
                    look.unreadable.push(Unreadable { path, why: file::not_a_file().to_string() });
                    continue;
                }
                // One that is gone by now was deleted; there is nothing to say about it. A link to nothing is still there.
                Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => continue,
                Err(error) => {
                    look.unreadable.push(Unreadable { path, why: error.to_string() });
                    continue;
                }
            };
            if facts.len() == 0 {
                continue;
            }
            let (modified, size) = (facts.modified().unwrap_or(SystemTime::UNIX_EPOCH), facts.len());
            match self.known.remove(&path).filter(|known| (known.modified, known.size) == (modified, size)) {
                Some(unchanged) => {
                    known.insert(path, unchanged);
                }
                None => news.push(New { id, path, modified, size }),
            }
        }
        look.read = news.len();
        for (new, outline) in read_all(news) {
            let New { id, path, modified, size } = new;
            match outline {
                Ok(outline) => {
                    let is = if !outline.is_record {
                        Is::Noise
                    } else if outline.aside || outline.name().is_none() {
                        Is::Nothing
                    } else {
                        Is::Conversation(Arc::new(Conversation { id, path: path.clone(), modified, size, outline }))
                    };
                    known.insert(path, Known { modified, size, is });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => look.unreadable.push(Unreadable { path, why: error.to_string() }),
            }
        }
        let noise = known.iter().filter(|(_, known)| matches!(known.is, Is::Noise));
        look.unreadable.extend(noise.map(|(path, _)| Unreadable { path: path.clone(), why: NOISE.to_owned() }));
        look.found = newest_of_each(known.values().filter_map(Known::conversation).cloned());
        self.known = known;
        look
    }

    /// One conversation. Only if it is not where it was is everything looked at.
    pub fn find(&mut self, id: Uuid) -> Option<Arc<Conversation>> {
        let known = self.known.values().filter_map(Known::conversation).filter(|known| known.id == id);
        let newest = known.max_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
        match newest.filter(|known| known.path.is_file()) {
            Some(known) => Some(Arc::clone(known)),
            None => self.look().found.into_iter().find(|found| found.id == id),
        }
    }
}

impl Known {
    fn conversation(&self) -> Option<&Arc<Conversation>> {
        match &self.is {
            Is::Conversation(conversation) => Some(conversation),
            Is::Nothing | Is::Noise => None,
        }
    }
}

/// Newest first. A conversation that was copied to another project counts where it was used last.
fn newest_of_each(all: impl Iterator<Item = Arc<Conversation>>) -> Vec<Arc<Conversation>> {
    let mut found: Vec<_> = all.collect();
    found.sort_by(|a, b| (b.modified, b.id, &b.path).cmp(&(a.modified, a.id, &a.path)));
    let mut seen = std::collections::HashSet::new();
    found.retain(|conversation| seen.insert(conversation.id));
    found
}

fn entries(directory: &Path, unreadable: &mut Vec<Unreadable>) -> Vec<PathBuf> {
    match std::fs::read_dir(directory) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        // What is not there or no directory holds no conversations, and that is all there is to say.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Vec::new(),
        Err(error) => {
            unreadable.push(Unreadable { path: directory.to_owned(), why: error.to_string() });
            Vec::new()
        }
    }
}

struct New {
    id: Uuid,
    path: PathBuf,
    modified: SystemTime,
    size: u64,
}

fn read_all(news: Vec<New>) -> Vec<(New, io::Result<Outline>)> {
    let mut parts: Vec<Vec<New>> = (0..READERS).map(|_| Vec::new()).collect();
    for (at, new) in news.into_iter().enumerate() {
        if let Some(part) = parts.get_mut(at % READERS) {
            part.push(new);
        }
    }
    let read_one = |new: New| {
        let outline = outline(&new.path, new.size);
        (new, outline)
    };
    let read = |part: Vec<New>| part.into_iter().map(read_one).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            parts.into_iter().filter(|part| !part.is_empty()).map(|part| scope.spawn(move || read(part))).collect();
        readers.into_iter().flat_map(|reader| reader.join().unwrap_or_default()).collect()
    })
}

/// Reads both ends of a file.
fn outline(path: &Path, size: u64) -> io::Result<Outline> {
    let (file, _) = file::open(path)?;
    let head = piece(&file, 0, END)?;
    if size <= END {
        return Ok(Outline::of(&head, &head));
    }
    let tail = piece(&file, size.saturating_sub(END), END)?;
    let outline = Outline::of(&head, &tail);
    if outline.first_prompt.is_some() && outline.directory.is_some() {
        return Ok(outline);
    }
    Ok(Outline::of(&piece(&file, 0, LONG_BEGINNING)?, &tail))
}

fn piece(file: &File, from: u64, longest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(longest).unwrap_or(usize::MAX)];
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, from + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
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

    fn begin(words: &str) -> String {
        format!("{{\"type\":\"user\",\"uuid\":\"a\",\"cwd\":\"/p\",\"message\":{{\"content\":\"{words}\"}}}}\n")
    }

    fn names(look: &Look) -> Vec<&str> {
        let mut names: Vec<_> = look.found.iter().filter_map(|found| found.outline.name()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn one_bad_file_hides_nobody() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path();
        assert!(Conversations::under(at).look().found.is_empty());
        write(at, "-p", 1, &begin("one"));
        write(at, "-q", 2, &begin("two"));
        write(at, "-q", 3, "");
        write(at, "-q", 4, "\0\u{1}\u{2}noise without an end");
        write(at, "-q", 5, &begin("side").replace("\"uuid\"", "\"isSidechain\":true,\"uuid\""));
        fs::write(at.join("projects/-q/notes.jsonl"), begin("no id")).unwrap();
        fs::write(at.join("projects/loose.txt"), "x").unwrap();
        fs::create_dir(at.join(format!("projects/-q/{}.jsonl", Uuid::from_u128(6)))).unwrap();
        std::os::unix::fs::symlink("nowhere", at.join(format!("projects/-q/{}.jsonl", Uuid::from_u128(7)))).unwrap();
        let look = Conversations::under(at).look();
        assert_eq!(names(&look), ["one", "two"]);
        let mut unreadable: Vec<_> = look.unreadable.iter().map(|one| (&one.path, one.why.as_str())).collect();
        unreadable.sort();
        let why = |id: u128, why: &'static str| (at.join(format!("projects/-q/{}.jsonl", Uuid::from_u128(id))), why);
        let expected = [why(4, NOISE), why(6, "is not a file"), why(7, "No such file or directory (os error 2)")];
        assert_eq!(unreadable, expected.iter().map(|(path, why)| (path, *why)).collect::<Vec<_>>());
    }

    #[test]
    fn one_conversation_is_found_where_it_was_or_where_it_went() {
        let home = tempfile::tempdir().unwrap();
        let mut conversations = Conversations::under(home.path());
        let id = Uuid::from_u128(1);
        assert_eq!(conversations.find(id), None);
        let path = write(home.path(), "-p", 1, &begin("one"));
        assert_eq!(conversations.find(id).unwrap().path, path);
        // What is not read again: it is where it was.
        fs::write(&path, "").unwrap();
        assert_eq!(conversations.find(id).unwrap().path, path);
        fs::remove_file(&path).unwrap();
        let elsewhere = write(home.path(), "-q", 1, &begin("one"));
        assert_eq!(conversations.find(id).unwrap().path, elsewhere);
        fs::remove_file(elsewhere).unwrap();
        assert_eq!(conversations.find(id), None);
    }

    #[test]
    fn what_has_not_changed_is_not_read_again_and_what_is_gone_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let one = write(home.path(), "-p", 1, &begin("one"));
        write(home.path(), "-p", 2, &begin("two"));
        let mut conversations = Conversations::under(home.path());
        assert_eq!(conversations.look().read, 2);
        assert_eq!(conversations.look().read, 0);
        let renamed = format!("{}{{\"type\":\"custom-title\",\"customTitle\":\"uno\"}}\n", begin("one"));
        fs::write(&one, renamed).unwrap();
        let look = conversations.look();
        assert_eq!((look.read, names(&look)), (1, vec!["two", "uno"]));
        fs::remove_file(one).unwrap();
        let look = conversations.look();
        assert_eq!((look.read, names(&look)), (0, vec!["two"]));
    }

    #[test]
    fn a_copy_counts_once_where_it_was_used_last() {
        let home = tempfile::tempdir().unwrap();
        let old = write(home.path(), "-p", 1, &begin("old"));
        write(home.path(), "-q", 1, &begin("new"));
        let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        File::options().write(true).open(old).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(names(&Conversations::under(home.path()).look()), ["new"]);
    }

    #[test]
    fn long_files_are_read_at_both_ends_and_long_beginnings_further() {
        let home = tempfile::tempdir().unwrap();
        let filler = format!("{{\"type\":\"api-request-blob\",\"x\":\"{}\"}}\n", "y".repeat(100_000));
        write(
            home.path(),
            "-p",
            1,
            &format!("{}{filler}{}", begin("one"), "{\"type\":\"ai-title\",\"aiTitle\":\"named\"}\n"),
        );
        write(home.path(), "-p", 2, &format!("{}{filler}", begin(&"long ".repeat(40_000))));
        let look = Conversations::under(home.path()).look();
        let names = names(&look);
        assert_eq!(names.len(), 2);
        assert!(names[0].starts_with("long long") && names[1] == "named", "{names:?}");
        assert!(look.found.iter().all(|found| found.outline.directory.as_deref() == Some("/p")));
    }
}
