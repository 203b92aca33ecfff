//! One transcript, as it was when it was opened: places, not contents.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{ArchiveError, Chronicle, DriverEvent, Stray, ToldTurn, TurnMark};

use super::strays::{Strayed, strays};
use super::sub_agents::SubAgentFiles;
use super::{Chain, Conversation, Index, Kind, Link, RecordId, Span, file, replay};

/// No transcript of a sub-agent that is longer is read.
const LONGEST_SUB_AGENT: u64 = 256 * 1024 * 1024;

/// How many indices are kept, so that a file that has grown is not read from its beginning.
const KEPT: usize = 4;

/// How much before the end of an index must be as it was for the rest to be believed.
const COMPARED: u64 = 512;

/// How many places of one kind of damage are named; the others are counted.
const NAMED: usize = 16;

/// The last few indices.
#[derive(Debug, Default)]
pub(super) struct Shelf(Vec<Kept>);

#[derive(Debug)]
struct Kept {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// The last bytes that were read.
    last: Vec<u8>,
    index: Arc<Index>,
}

impl Shelf {
    /// Takes what is known of a file, if it is the same file and has only grown.
    fn take(&mut self, path: &Path, file: &File, facts: &Metadata) -> Option<Index> {
        let at = self.0.iter().position(|kept| kept.path == path)?;
        let kept = self.0.remove(at);
        let same = kept.identity == (facts.dev(), facts.ino())
            && kept.index.next() <= facts.len()
            && last_bytes(file, kept.index.next()).is_ok_and(|last| last == kept.last);
        same.then(|| Arc::unwrap_or_clone(kept.index))
    }

    fn keep(&mut self, path: &Path, file: &File, facts: &Metadata, index: &Arc<Index>) {
        let Ok(last) = last_bytes(file, index.next()) else { return };
        let identity = (facts.dev(), facts.ino());
        self.0.insert(0, Kept { path: path.to_owned(), identity, last, index: Arc::clone(index) });
        self.0.truncate(KEPT);
    }
}

fn last_bytes(file: &File, end: u64) -> io::Result<Vec<u8>> {
    let from = end.saturating_sub(COMPARED);
    let mut bytes = vec![0; usize::try_from(end - from).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
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
    pub(super) fn open(found: &Conversation, shelf: &Mutex<Shelf>) -> io::Result<Self> {
        let (file, facts) = file::open(&found.path)?;
        let shelf = || shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = shelf().take(&found.path, &file, &facts).unwrap_or_default();
        let mut rest = BufReader::with_capacity(256 * 1024, &file);
        rest.seek(SeekFrom::Start(index.next()))?;
        index.go_on(&mut rest)?;
        let index = Arc::new(index);
        shelf().keep(&found.path, &file, &facts, &index);
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

    fn read(&self, places: Range<usize>) -> Vec<ToldTurn> {
        self.spans.get(places).unwrap_or_default().iter().map(|span| self.turn(&self.chain, span)).collect()
    }

    fn turn(&self, chain: &Chain, span: &Span) -> ToldTurn {
        let links = chain.places(span);
        // Each of them once in the whole conversation, however it is paged: its transcript is all that it did.
        let new = links.iter().filter_map(|at| self.agents_at(*at)).collect();
        let new: RefCell<HashSet<RecordId>> = RefCell::new(new);
        let sub_agent = |id: &str| {
            let agent = new.borrow_mut().take(&RecordId::of(id))?;
            self.sub_agents.path(agent).and_then(sub_agent)
        };
        let mut lost = 0;
        let mut lines = Vec::new();
        for link in links.iter().filter_map(|at| self.index.links.get(*at)) {
            match line(&self.file, link) {
                Some(line) => lines.push((link.kind, line)),
                // What nobody sees is missed by nobody.
                None => lost += usize::from(link.kind != Kind::Hidden),
            }
        }
        let lines = lines.iter().map(|(kind, line)| (*kind, line.as_slice()));
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

    fn damage(&self) -> &[String] {
        &self.damage
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
    let from = spans.first().and_then(|span| chain.links.get(span.links.start)).copied().unwrap_or(usize::MAX);
    let mut first = HashMap::new();
    if index.agents.is_empty() {
        return first;
    }
    let told: HashSet<&usize> = chain.links.iter().collect();
    for (at, agent) in &index.agents {
        if *at >= from && told.contains(at) {
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

/// The transcript of a sub-agent.
fn sub_agent(path: &Path) -> Option<Vec<u8>> {
    let (file, _) = file::open(path).ok()?;
    let mut text = Vec::new();
    file.take(LONGEST_SUB_AGENT + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= LONGEST_SUB_AGENT).then_some(text)
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
