//! Every conversation of this user: the transcripts under the agent's configuration directory.
//!
//! A file that cannot be read now may be readable at the next look: it is named, and what is known of it stays as it was. Only
//! what is not there is gone.

use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use hostler_driver::Tag;
use uuid::Uuid;

use super::file;
use super::outline::Outline;
use super::sketch::{LONG_BEGINNING, Sketch};

/// What is said of a file without a single record.
const NOISE: &str = "holds no record of a conversation";

/// What is said of a file that may hold a conversation, which nobody would find in it.
const SILENT: &str = "nothing that was said stands in its first 4 MiB";

/// What is said of a file that made its reader fail.
const FAILED: &str = "it could not be understood";

/// How many files are read at a time.
const READERS: usize = 4;

/// How much between the two ends of files is read in one look. The rest is left for the next ones.
const BETWEEN: u64 = 128 * 1024 * 1024;

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
    /// The title that somebody gave it, if that is certain.
    pub given_title: Option<String>,
    /// Its tag.
    pub tag: Tag,
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
    /// What could not be read. Its neighbours are in the list, and so is what it was when it could be read.
    pub unreadable: Vec<Unreadable>,
    /// How many files were read, not just looked at.
    pub read: usize,
}

/// The conversations under one directory. Remembers what it has read: a file that has not changed is not read again.
#[derive(Debug)]
pub struct Conversations {
    projects: PathBuf,
    known: HashMap<PathBuf, Arc<Known>>,
}

#[derive(Debug)]
struct Known {
    id: Uuid,
    modified: SystemTime,
    size: u64,
    sketch: Sketch,
    is: Is,
}

/// What a file turned out to be.
#[derive(Debug)]
enum Is {
    Conversation(Arc<Conversation>),
    /// Nobody talked in it.
    Nothing,
    /// It is named among what could not be read.
    Unreadable(&'static str),
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
        let Listing { files, mut unreadable } = Listing::of(&self.projects);
        let mut known: HashMap<PathBuf, Arc<Known>> = HashMap::with_capacity(files.len());
        for one in &unreadable {
            let below = self.known.iter().filter(|(path, _)| path.starts_with(&one.path));
            known.extend(below.map(|(path, before)| (path.clone(), Arc::clone(before))));
        }
        let mut news = Vec::new();
        for (id, path) in files {
            let before = self.known.get(&path).cloned();
            match looked_at(&path) {
                Ok(facts) if facts.len() == 0 => drop(known.remove(&path)),
                Ok(facts) => {
                    let (modified, size) = (facts.modified().unwrap_or(SystemTime::UNIX_EPOCH), facts.len());
                    match before {
                        Some(before) if (before.modified, before.size) == (modified, size) => {
                            known.insert(path, before);
                        }
                        before => news.push(New { id, path, modified, size, before }),
                    }
                }
                // One that is gone by now was deleted; there is nothing to say about it. A link to nothing is still there.
                Err(error) if is_gone(&error, &path) => drop(known.remove(&path)),
                Err(error) => {
                    known.extend(before.map(|before| (path.clone(), before)));
                    unreadable.push(Unreadable { path, why: error.to_string() });
                }
            }
        }
        let read = news.len();
        for (new, sketch) in at_once(news, New::read) {
            match sketch {
                Ok(sketch) => drop(known.insert(new.path.clone(), Arc::new(new.known(sketch)))),
                Err(error) if is_gone(&error, &new.path) => drop(known.remove(&new.path)),
                Err(error) => {
                    known.extend(new.before.map(|before| (new.path.clone(), before)));
                    unreadable.push(Unreadable { path: new.path, why: error.to_string() });
                }
            }
        }
        read_between(&mut known);
        let named = known.iter().filter_map(|(path, known)| match known.is {
            Is::Unreadable(why) => Some(Unreadable { path: path.clone(), why: why.to_owned() }),
            Is::Conversation(_) | Is::Nothing => None,
        });
        unreadable.extend(named);
        self.known = known;
        Look { found: self.found(), unreadable, read }
    }

    /// What the last look showed, where the next one came to nothing.
    pub fn as_it_was(&self, why: &str) -> Look {
        let unreadable = vec![Unreadable { path: self.projects.clone(), why: why.to_owned() }];
        Look { found: self.found(), unreadable, read: 0 }
    }

    /// One conversation. Only if it is not where it was is everything looked at.
    ///
    /// # Errors
    /// Why it cannot be said whether it is there.
    pub fn find(&mut self, id: Uuid) -> Result<Option<Arc<Conversation>>, String> {
        let known = self.known.values().filter_map(|known| known.conversation()).filter(|known| known.id == id);
        let newest = known.max_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
        if let Some(known) = newest.filter(|known| known.path.is_file()) {
            return Ok(Some(Arc::clone(known)));
        }
        let look = self.look();
        if let Some(found) = look.found.into_iter().find(|found| found.id == id) {
            return Ok(Some(found));
        }
        // It is this file, or may be in this directory.
        let hidden = look.unreadable.into_iter().find(|one| named(&one.path).is_none_or(|named| named == id));
        hidden.map_or(Ok(None), |hidden| Err(hidden.why))
    }

    /// Every file that has this conversation's name, wherever it was copied to.
    ///
    /// # Errors
    /// If there is none to be seen, and some directory could not be read.
    pub fn copies(&self, id: Uuid) -> Result<Vec<PathBuf>, String> {
        let Listing { files, unreadable } = Listing::of(&self.projects);
        let copies: Vec<_> = files.into_iter().filter(|(named, _)| *named == id).map(|(_, path)| path).collect();
        match unreadable.into_iter().next() {
            Some(unreadable) if copies.is_empty() => Err(unreadable.why),
            _ => Ok(copies),
        }
    }

    /// Newest first. A conversation that was copied to another project counts where it was used last.
    fn found(&self) -> Vec<Arc<Conversation>> {
        let mut found: Vec<_> = self.known.values().filter_map(|known| known.conversation()).cloned().collect();
        found.sort_by(|a, b| (b.modified, b.id, &b.path).cmp(&(a.modified, a.id, &a.path)));
        let mut seen = HashSet::new();
        found.retain(|conversation| seen.insert(conversation.id));
        found
    }
}

impl Known {
    fn conversation(&self) -> Option<&Arc<Conversation>> {
        match &self.is {
            Is::Conversation(conversation) => Some(conversation),
            Is::Nothing | Is::Unreadable(_) => None,
        }
    }

    fn new(id: Uuid, path: &Path, modified: SystemTime, size: u64, sketch: Sketch) -> Self {
        let outline = sketch.outline();
        let is = if outline.aside {
            Is::Nothing
        } else if !outline.is_record && size <= LONG_BEGINNING {
            Is::Unreadable(NOISE)
        } else if outline.name().is_some() {
            let (path, given_title, tag) = (path.to_owned(), sketch.given_title(), sketch.tag());
            Is::Conversation(Arc::new(Conversation { id, path, modified, size, outline, given_title, tag }))
        } else if size > LONG_BEGINNING {
            Is::Unreadable(SILENT)
        } else {
            Is::Nothing
        };
        Self { id, modified, size, sketch, is }
    }
}

/// What has the name of a transcript, by the directories alone.
struct Listing {
    files: Vec<(Uuid, PathBuf)>,
    /// Directories that could not be read, or not to their end.
    unreadable: Vec<Unreadable>,
}

impl Listing {
    fn of(projects: &Path) -> Self {
        let mut listing = Self { files: Vec::new(), unreadable: Vec::new() };
        for folder in listing.entries(projects) {
            for path in listing.entries(&folder) {
                listing.files.extend(named(&path).map(|id| (id, path)));
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
            // What is not there or no directory holds no conversations, and that is all there is to say.
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.unreadable.push(Unreadable { path: directory.to_owned(), why: error.to_string() });
            }
            _ => {}
        }
        paths
    }
}

/// The conversation that a file is named after.
fn named(path: &Path) -> Option<Uuid> {
    let id = path.file_stem()?.to_str().and_then(|stem| Uuid::try_parse(stem).ok())?;
    path.extension().is_some_and(|extension| extension == "jsonl").then_some(id)
}

fn looked_at(path: &Path) -> io::Result<Metadata> {
    let facts = std::fs::metadata(path)?;
    if facts.is_file() { Ok(facts) } else { Err(file::not_a_file()) }
}

fn is_gone(error: &io::Error, path: &Path) -> bool {
    let there = || path.symlink_metadata().map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true);
    error.kind() == io::ErrorKind::NotFound && !there()
}

/// A file that is new or has changed.
struct New {
    id: Uuid,
    path: PathBuf,
    modified: SystemTime,
    size: u64,
    before: Option<Arc<Known>>,
}

impl New {
    fn read(&self) -> io::Result<Sketch> {
        let (file, facts) = file::open(&self.path)?;
        // Only what was listed has begun in a way that is known for certain.
        let before = self.before.as_ref().filter(|before| before.conversation().is_some());
        match before.map(|before| before.sketch.grown(&file, &facts)).transpose()?.flatten() {
            Some(grown) => Ok(grown),
            None => Sketch::of(&file, &facts),
        }
    }

    fn known(&self, sketch: Sketch) -> Known {
        Known::new(self.id, &self.path, self.modified, self.size, sketch)
    }
}

/// Reads on between the ends of files, the newest first. What goes wrong there is tried again after the next look.
fn read_between(known: &mut HashMap<PathBuf, Arc<Known>>) {
    let mut unread: Vec<_> = known.iter().filter(|(_, known)| known.sketch.unread() > 0).collect();
    unread.sort_by(|a, b| (b.1.modified, a.0).cmp(&(a.1.modified, b.0)));
    let mut left = BETWEEN;
    let mut shares = Vec::new();
    for (path, known) in unread {
        // One file has a part of it only: were it one that cannot be read there, no other would ever get its turn.
        let share = known.sketch.unread().min(left).min(BETWEEN / READERS as u64);
        left -= share;
        if share > 0 {
            shares.push((path.clone(), Arc::clone(known), share));
        }
    }
    let read_on = |(path, known, share): &(PathBuf, Arc<Known>, u64)| {
        let (file, facts): (File, Metadata) = file::open(path)?;
        known.sketch.read_on(&file, &facts, *share)
    };
    for ((path, before, _), read) in at_once(shares, read_on) {
        if let Ok(Some(sketch)) = read {
            let Known { id, modified, size, .. } = *before;
            let read = Known::new(id, &path, modified, size, sketch);
            known.insert(path, Arc::new(read));
        }
    }
}

/// Does the same with many files, some at a time. One that makes the reader panic costs nothing but itself.
fn at_once<T: Send, R: Send>(all: Vec<T>, read: impl Fn(&T) -> io::Result<R> + Sync) -> Vec<(T, io::Result<R>)> {
    let mut parts: Vec<Vec<T>> = (0..READERS.min(all.len())).map(|_| Vec::new()).collect();
    for (at, one) in all.into_iter().enumerate() {
        if let Some(part) = parts.get_mut(at % READERS) {
            part.push(one);
        }
    }
    let read_one = |one: T| {
        let read = catch_unwind(AssertUnwindSafe(|| read(&one))).unwrap_or_else(|_| Err(io::Error::other(FAILED)));
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
        assert_eq!(conversations.find(id), Ok(None));
        let path = write(home.path(), "-p", 1, &begin("one"));
        assert_eq!(conversations.find(id).unwrap().unwrap().path, path);
        // What is not read again: it is where it was.
        fs::write(&path, "").unwrap();
        assert_eq!(conversations.find(id).unwrap().unwrap().path, path);
        fs::remove_file(&path).unwrap();
        let elsewhere = write(home.path(), "-q", 1, &begin("one"));
        assert_eq!(conversations.find(id).unwrap().unwrap().path, elsewhere);
        fs::remove_file(elsewhere).unwrap();
        assert_eq!(conversations.find(id), Ok(None));
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

    /// A line that says nothing to a list.
    fn filler(bytes: usize) -> String {
        format!("{{\"type\":\"api-request-blob\",\"x\":\"{}\"}}\n", "y".repeat(bytes))
    }

    fn append(path: &Path, text: &str) {
        std::io::Write::write_all(&mut File::options().append(true).open(path).unwrap(), text.as_bytes()).unwrap();
    }

    fn note(kind: &str, field: &str, value: &str) -> String {
        format!("{{\"type\":\"{kind}\",\"{field}\":\"{value}\"}}\n")
    }

    #[test]
    fn what_was_noted_stays_noted_however_much_follows() {
        let home = tempfile::tempdir().unwrap();
        let title = |title: &str| note("custom-title", "customTitle", title);
        let path = write(home.path(), "-p", 1, &(begin("one") + &title("A") + &filler(100_000)));
        let mut conversations = Conversations::under(home.path());
        let look = |conversations: &mut Conversations| {
            let found = conversations.look().found.remove(0);
            (found.outline.name().unwrap().to_owned(), found.given_title.clone().unwrap(), found.tag.clone())
        };
        let was = |name: &str, tag: Tag| (name.to_owned(), name.to_owned(), tag);
        assert_eq!(look(&mut conversations), was("A", Tag::Off));
        append(&path, &(title("B") + &note("tag", "tag", "kept")));
        let kept = Tag::On("kept".to_owned());
        assert_eq!(look(&mut conversations), was("B", kept.clone()));
        for _ in 0..3 {
            append(&path, &filler(100_000));
            assert_eq!(look(&mut conversations), was("B", kept.clone()));
            assert_eq!(
                look(&mut Conversations::under(home.path())),
                was("B", kept.clone()),
                "at the first look as well"
            );
        }
        // Half a line is nothing yet.
        let [half, rest] = ["{\"type\":\"tag\",\"ta", "g\":\"\"}\n"];
        append(&path, half);
        assert_eq!(look(&mut conversations), was("B", kept));
        append(&path, &(rest.to_owned() + &filler(100_000)));
        assert_eq!(look(&mut conversations), was("B", Tag::Off));
        // Another file in its place.
        fs::write(&path, begin("two") + &title("C") + &filler(900_000)).unwrap();
        assert_eq!(look(&mut conversations), was("C", Tag::Off));
    }

    #[test]
    fn what_cannot_be_read_for_a_while_stays_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let file = write(home.path(), "-p", 1, &begin("one"));
        write(home.path(), "-p", 2, &begin("two"));
        write(home.path(), "-q", 3, &begin("three"));
        let mut conversations = Conversations::under(home.path());
        let all = vec!["one", "three", "two"];
        assert_eq!(names(&conversations.look()), all);
        let folder = file.parent().unwrap().to_owned();
        for (path, neighbours) in
            [(file, vec!["three", "two"]), (folder, vec!["three"]), (home.path().join("projects"), vec![])]
        {
            let aside = home.path().join("aside");
            fs::rename(&path, &aside).unwrap();
            // Nobody can follow it, whatever the permissions.
            std::os::unix::fs::symlink(&path, &path).unwrap();
            for _ in 0..2 {
                let look = conversations.look();
                assert_eq!(names(&look), all, "{path:?}");
                assert_eq!(look.unreadable.iter().map(|one| &one.path).collect::<Vec<_>>(), [&path]);
            }
            assert_eq!(names(&Conversations::under(home.path()).look()), neighbours);
            fs::remove_file(&path).unwrap();
            let look = conversations.look();
            assert_eq!((names(&look), &look.unreadable[..]), (neighbours, &[][..]), "what is not there is gone");
            fs::rename(&aside, &path).unwrap();
            assert_eq!(names(&conversations.look()), all);
        }
        assert_eq!(names(&conversations.as_it_was("no")), all);
    }

    #[test]
    fn a_conversation_that_nobody_would_find_is_named() {
        let home = tempfile::tempdir().unwrap();
        let long = begin(&"long ".repeat(1_000_000));
        let path = write(home.path(), "-p", 1, &("{\"type\":\"queue-operation\"}\n".to_owned() + &long));
        write(home.path(), "-p", 2, &long);
        let mut conversations = Conversations::under(home.path());
        let look = conversations.look();
        assert_eq!(look.unreadable.iter().map(|one| one.why.as_str()).collect::<Vec<_>>(), [SILENT, SILENT]);
        append(&path, &note("custom-title", "customTitle", "named"));
        let look = conversations.look();
        assert_eq!((names(&look), look.unreadable.len()), (vec!["named"], 1));
    }

    #[test]
    fn a_file_that_makes_its_reader_fail_costs_nothing_but_itself() {
        let read = at_once((0..20).collect(), |number: &i32| match number {
            7 => panic!("this one"),
            number => Ok(number * 2),
        });
        let mut read: Vec<_> =
            read.into_iter().map(|(one, read)| (one, read.map_err(|error| error.to_string()))).collect();
        read.sort();
        let expected = |one: i32| if one == 7 { Err(FAILED.to_owned()) } else { Ok(one * 2) };
        assert_eq!(read, (0..20).map(|one| (one, expected(one))).collect::<Vec<_>>());
    }
}
