//! One transcript, as it was when it was opened: places, not contents.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{ArchiveError, Chronicle, DriverEvent, Said, Stray, ToldTurn, TurnMark};
use uuid::Uuid;

use super::leaf;
use super::strays::{Strayed, strays};
use super::sub_agents::SubAgentFiles;
use super::{Asked, Chain, Conversation, Index, Kind, Link, Own, RecordId, Span, file, replay};

/// How many links the indices have together that are kept, so that a file that has grown is not read from its beginning. One
/// takes about a hundred bytes.
const KEPT: usize = 500_000;

/// How many of those are kept beside them that are only opened in passing.
const PASSING: usize = 4;

/// How much before the end of an index must be as it was for the rest to be believed.
const COMPARED: u64 = 512;

/// How many places of one kind of damage are named; the others are counted.
const NAMED: usize = 16;

/// The indices that were used last, the newest first.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    stay: Vec<Kept>,
    passing: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// The last bytes that were read.
    last: Vec<u8>,
    index: Arc<Index>,
}

/// How a book is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// By somebody who is going to open it again.
    ToStay,
    /// By somebody who opens all of them: none that stays leaves for it.
    InPassing,
}

impl Shelf {
    /// Takes what is known of a file, if it is the same file and has only grown. Says how it was opened before.
    fn take(&mut self, path: &Path, file: &File, facts: &Metadata) -> Option<(Opening, Index)> {
        let of = |kept: &[Kept]| kept.iter().position(|kept| kept.path == path);
        let (opened, kept) = match (of(&self.stay), of(&self.passing)) {
            (Some(at), _) => (Opening::ToStay, self.stay.remove(at)),
            (None, Some(at)) => (Opening::InPassing, self.passing.remove(at)),
            (None, None) => return None,
        };
        let same = kept.identity == (facts.dev(), facts.ino())
            && kept.index.next() <= facts.len()
            && file::last_bytes(file, kept.index.next(), COMPARED).is_ok_and(|last| last == kept.last);
        same.then(|| (opened, Arc::unwrap_or_clone(kept.index)))
    }

    fn keep(&mut self, path: &Path, file: &File, facts: &Metadata, index: &Arc<Index>, opening: Opening) {
        let Ok(last) = file::last_bytes(file, index.next(), COMPARED) else { return };
        let kept = Kept { path: path.to_owned(), identity: (facts.dev(), facts.ino()), last, index: Arc::clone(index) };
        let (all, most) = match opening {
            Opening::ToStay => (&mut self.stay, usize::MAX),
            Opening::InPassing => (&mut self.passing, PASSING),
        };
        // Somebody may have opened the same one meanwhile.
        all.retain(|other| other.path != path);
        all.insert(0, kept);
        all.truncate(most);
        while all.len() > 1 && links(all) > KEPT {
            all.pop();
        }
    }
}

/// What there is room for counts: that is what they take.
fn links(kept: &[Kept]) -> usize {
    kept.iter().map(|kept| kept.index.links.capacity()).sum()
}

/// One transcript.
pub(super) struct Book {
    file: File,
    directory: PathBuf,
    sub_agents: SubAgentFiles,
    index: Arc<Index>,
    chain: Chain,
    spans: Vec<Span>,
    marks: Vec<TurnMark>,
    strayed: Vec<Strayed>,
    strays: Vec<Stray>,
    damage: Vec<String>,
    /// Which record tells of a sub-agent first, as positions in the index.
    first: HashMap<RecordId, usize>,
}

impl Book {
    pub(super) fn open(found: &Conversation, shelf: &Mutex<Shelf>, opening: Opening) -> io::Result<Self> {
        let (file, facts) = file::open(&found.path)?;
        let shelf = || shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, index) = shelf().take(&found.path, &file, &facts).unzip();
        let mut index = index.unwrap_or_default();
        let mut rest = BufReader::with_capacity(256 * 1024, &file);
        rest.seek(SeekFrom::Start(index.next()))?;
        index.go_on(&mut rest)?;
        let index = Arc::new(index);
        let opening = if before == Some(Opening::ToStay) { Opening::ToStay } else { opening };
        shelf().keep(&found.path, &file, &facts, &index, opening);
        let chain = Chain::of(&index);
        let spans = chain.spans(&index);
        let strayed = strays(&index, &chain, &spans);
        let mut book = Self {
            directory: PathBuf::from(found.outline.directory.as_deref().unwrap_or("/")),
            sub_agents: SubAgentFiles::of(&found.path),
            damage: damage(&index, &chain),
            marks: Vec::new(),
            strays: Vec::new(),
            strayed,
            first: first_told(&index, &chain, &spans),
            file,
            index,
            chain,
            spans,
        };
        book.marks = book.spans.iter().map(|span| book.mark(&book.chain, span)).collect();
        let stray = |it: &Strayed| Stray { mark: book.mark(&it.chain, &it.span), fork: it.fork };
        book.strays = book.strayed.iter().map(stray).collect();
        Ok(book)
    }

    fn mark(&self, chain: &Chain, span: &Span) -> TurnMark {
        let agents = chain.places(span).iter().filter_map(|at| self.agents_at(*at));
        let agents: u64 = agents.map(|agent| self.sub_agents.bytes(agent)).sum();
        TurnMark {
            id: span.turn,
            message: span.message,
            command: span.command,
            over: span.over,
            length: chain.done(&self.index, span),
            bytes: chain.bytes(&self.index, span) + agents,
        }
    }

    /// What is to be noted in the file so that the next agent goes on with the conversation, if it would not.
    pub(super) fn note_to_go_on(&self, conversation: Uuid) -> Option<String> {
        let leaf = leaf::astray(&self.index, &self.chain)?;
        let said = self.spans.last().map(|span| self.turn(&self.chain, span).said);
        let prompt = match said {
            Some(Said::Person { text, .. }) => super::notes::shown(&text),
            _ => String::new(),
        };
        Some(leaf::note(leaf, &prompt, conversation))
    }

    fn read(&self, places: Range<usize>) -> Vec<ToldTurn> {
        self.spans.get(places).unwrap_or_default().iter().map(|span| self.turn(&self.chain, span)).collect()
    }

    fn turn(&self, chain: &Chain, span: &Span) -> ToldTurn {
        let links = chain.places(span);
        // Each of them once in the whole conversation, however it is paged: its transcript is all that it did.
        let new = links.iter().filter_map(|at| self.agents_at(*at)).collect();
        let new: RefCell<HashSet<RecordId>> = RefCell::new(new);
        let unnamed: RefCell<HashSet<RecordId>> = RefCell::default();
        let sub_agent = |asked: Asked<'_>| {
            let agent = match asked {
                Asked::Named(id) => new.borrow_mut().take(&RecordId::of(id))?,
                Asked::MadeBy { .. } => {
                    let is_named = |agent| self.first.contains_key(&agent);
                    let made = self.sub_agents.made_by(asked, is_named, |agent| unnamed.borrow().contains(&agent))?;
                    unnamed.borrow_mut().insert(made);
                    made
                }
            };
            let id = self.sub_agents.id(agent)?.to_owned();
            Some(Own { id, transcript: self.sub_agents.read(agent)? })
        };
        let mut lost = 0;
        // What nobody sees is not even read: some of it is as large as the whole system prompt.
        let shown = links.iter().filter_map(|at| self.index.links.get(*at)).filter(|link| link.kind != Kind::Hidden);
        let lines = shown.filter_map(|link| {
            let line = line(&self.file, link);
            lost += usize::from(line.is_none());
            Some((link.kind, line?))
        });
        let mut told = replay(&self.directory, lines, span.goes_on, &sub_agent);
        lost += told.skipped;
        if lost > 0 {
            let end = told.events.len().saturating_sub(1);
            told.events.insert(end, DriverEvent::Notice(missing(lost)));
        }
        ToldTurn { id: span.turn, said: told.said, began: told.began, ended: told.ended, events: told.events }
    }

    /// The sub-agents that a record is the first to tell of.
    fn agents_at(&self, at: usize) -> Option<RecordId> {
        let place = self.index.agents.binary_search_by_key(&at, |(place, _)| *place).ok()?;
        let (_, agent) = self.index.agents.get(place)?;
        (self.first.get(agent) == Some(&at)).then_some(*agent)
    }
}

impl Chronicle for Book {
    fn turns(&self) -> &[TurnMark] {
        &self.marks
    }

    fn tell(self: Arc<Self>, places: Range<usize>) -> BoxFuture<'static, Result<Vec<ToldTurn>, ArchiveError>> {
        off_the_loop(move || self.read(places))
    }

    fn strays(&self) -> &[Stray] {
        &self.strays
    }

    fn tell_stray(self: Arc<Self>, place: usize) -> BoxFuture<'static, Result<Option<ToldTurn>, ArchiveError>> {
        off_the_loop(move || self.strayed.get(place).map(|stray| self.turn(&stray.chain, &stray.span)))
    }

    fn damage(self: Arc<Self>) -> BoxFuture<'static, Vec<String>> {
        async move {
            let examine = Arc::clone(&self);
            let sub_agents = tokio::task::spawn_blocking(move || examine.sub_agents.damage()).await;
            let sub_agents = sub_agents.unwrap_or_else(|error| vec![format!("the sub-agents' transcripts: {error}")]);
            self.damage.iter().cloned().chain(sub_agents).collect()
        }
        .boxed()
    }
}

/// Reads where it may block.
fn off_the_loop<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> BoxFuture<'static, Result<T, ArchiveError>> {
    let read = tokio::task::spawn_blocking(read);
    async move {
        read.await.map_err(|error| match error.is_panic() {
            // It would do so again.
            true => ArchiveError::Untellable(error.to_string()),
            false => ArchiveError::Failed(error.to_string()),
        })
    }
    .boxed()
}

/// Only what belongs to a turn can tell of anything.
fn first_told(index: &Index, chain: &Chain, spans: &[Span]) -> HashMap<RecordId, usize> {
    let mut first = HashMap::new();
    if index.agents.is_empty() {
        return first;
    }
    let from = spans.first().map_or(usize::MAX, |span| span.links.start);
    let told: HashSet<&usize> = chain.links.iter().skip(from).collect();
    for (at, agent) in &index.agents {
        if told.contains(at) {
            first.entry(*agent).or_insert(*at);
        }
    }
    first
}

/// The line of a record, if it is still there.
fn line(file: &File, link: &Link) -> Option<Vec<u8>> {
    let length = link.place.end.saturating_sub(link.place.start);
    let mut line = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut line, link.place.start).ok()?;
    let now = Link::read(&line, link.line.into(), link.place.clone()).ok()??;
    (now.link.id == link.id && now.link.kind == link.kind).then_some(line)
}

fn missing(records: usize) -> String {
    match records {
        1 => "A record of this turn could not be read.".to_owned(),
        records => format!("{records} records of this turn could not be read."),
    }
}

/// What is wrong with a transcript, in sentences.
fn damage(index: &Index, chain: &Chain) -> Vec<String> {
    let mut damage: Vec<String> =
        index.damage.first.iter().map(|(number, what)| format!("line {number} {what}")).collect();
    let unnamed = index.damage.lines.saturating_sub(damage.len() as u64);
    if unnamed > 0 {
        damage.push(format!("{unnamed} further lines are damaged"));
    }
    let mut say = |places: &[usize], what: &str| {
        let lines = places.iter().take(NAMED).filter_map(|at| index.links.get(*at));
        damage.extend(lines.map(|link| format!("line {} {what}", link.line)));
        if places.len() > NAMED {
            damage.push(format!("{} further lines: each {what}", places.len() - NAMED));
        }
    };
    say(&chain.gaps, "hangs from a record that is not there");
    say(&chain.doubles, "has a name that another record has");
    if index.damage.unfinished > 0 {
        damage.push(format!("{} bytes at the end are no whole record", index.damage.unfinished));
    }
    if chain.circle {
        damage.push("the records run in a circle, so that the beginning is missing".to_owned());
    }
    damage
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(home: &Path, name: &str) -> Conversation {
        let path = home.join(name);
        std::fs::write(&path, "{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"content\":\"hi\"}}\n").unwrap();
        let (id, modified, size) = (uuid::Uuid::nil(), std::time::SystemTime::UNIX_EPOCH, 0);
        let (outline, given_title, tag) = Default::default();
        Conversation { id, path, modified, size, outline, given_title, tag }
    }

    #[test]
    fn who_opens_everything_takes_nobodys_place() {
        let home = tempfile::tempdir().unwrap();
        let shelf = Mutex::new(Shelf::default());
        let books = ["one", "two", "three"].map(|name| found(home.path(), name));
        let open = |at: usize, opening| drop(Book::open(&books[at], &shelf, opening).unwrap());
        let names = || {
            let shelf = shelf.lock().unwrap();
            let name = |kept: &Kept| kept.path.file_name().unwrap().to_string_lossy().into_owned();
            [&shelf.stay, &shelf.passing].map(|kept| kept.iter().map(name).collect::<Vec<_>>().join(" "))
        };
        open(0, Opening::ToStay);
        open(1, Opening::ToStay);
        open(2, Opening::InPassing);
        assert_eq!(names(), ["two one", "three"]);
        open(0, Opening::InPassing);
        assert_eq!(names(), ["one two", "three"], "somebody else is going to open it again");
        open(2, Opening::ToStay);
        assert_eq!(names(), ["three one two", ""]);
    }

    #[test]
    fn the_shelf_holds_so_many_links_and_one_book_at_least() {
        let home = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::default();
        let index = |links: usize| {
            let mut index = Index::default();
            index.links.reserve_exact(links);
            Arc::new(index)
        };
        let mut keep = |name: &str, links: usize, opening| {
            let path = found(home.path(), name).path;
            let (file, facts) = file::open(&path).unwrap();
            shelf.keep(&path, &file, &facts, &index(links), opening);
            (shelf.stay.len(), shelf.passing.len())
        };
        assert_eq!(keep("a", KEPT / 2, Opening::ToStay), (1, 0));
        assert_eq!(keep("b", KEPT / 3, Opening::ToStay), (2, 0));
        assert_eq!(keep("b", KEPT / 3, Opening::ToStay), (2, 0), "the same once more");
        assert_eq!(keep("c", KEPT / 3, Opening::ToStay), (2, 0), "the oldest one leaves");
        for name in ["d", "e", "f", "g", "h", "i"] {
            keep(name, 1, Opening::InPassing);
        }
        assert_eq!(keep("j", KEPT * 2, Opening::ToStay), (1, PASSING));
    }
}
