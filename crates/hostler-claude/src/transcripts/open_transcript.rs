//! One opened transcript: positions of its turns in the state of the opening, contents on demand. Owns the cache of
//! indices.

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
use hostler_driver::{
    AbandonedTurn, DriverEvent, LoadedTurn, Transcript, TranscriptStoreError, TurnIndexEntry, TurnOrigin,
};
use uuid::Uuid;

use super::abandoned_turns::find_abandoned_records;
use super::branch_leaf;
use super::sub_agent_files::SubAgentFiles;
use super::{
    CatalogEntry, IndexedRecord, RecordChain, RecordId, RecordKind, SubAgentQuery, SubAgentTranscript, TranscriptIndex,
    TurnSpan, regular_file, replay_turn,
};

/// How many records the cached indices have in total, so that a grown file is not read from its start. A record takes
/// about a hundred bytes.
const MAX_CACHED_RECORDS: usize = 500_000;

/// How many bytes before the end of an index must be unchanged for the index to be reused.
const COMPARED_TAIL_BYTES: u64 = 512;

/// How many positions of one kind of damage are listed; further ones are only counted.
const MAX_REPORTED_LINES: usize = 16;

/// The most recently used indices, newest first.
#[derive(Debug, Default)]
pub(super) struct IndexCache(Vec<CachedIndex>);

#[derive(Debug)]
struct CachedIndex {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// The last bytes that were read.
    last_bytes: Vec<u8>,
    index: Arc<TranscriptIndex>,
}

impl IndexCache {
    /// Takes the index of a file, if it is the same file and has only grown.
    fn take(&mut self, path: &Path, file: &File, facts: &Metadata) -> Option<TranscriptIndex> {
        let at = self.0.iter().position(|cached| cached.path == path)?;
        let cached = self.0.remove(at);
        let same = cached.identity == (facts.dev(), facts.ino())
            && cached.index.resume_offset() <= facts.len()
            && regular_file::read_bytes_before(file, cached.index.resume_offset(), COMPARED_TAIL_BYTES)
                .is_ok_and(|last| last == cached.last_bytes);
        same.then(|| Arc::unwrap_or_clone(cached.index))
    }

    fn insert(&mut self, path: &Path, file: &File, facts: &Metadata, index: &Arc<TranscriptIndex>) {
        let last_bytes = regular_file::read_bytes_before(file, index.resume_offset(), COMPARED_TAIL_BYTES);
        let Ok(last_bytes) = last_bytes else { return };
        // The same transcript may have been opened concurrently.
        self.0.retain(|other| other.path != path);
        let (path, identity, index) = (path.to_owned(), (facts.dev(), facts.ino()), Arc::clone(index));
        self.0.insert(0, CachedIndex { path, identity, last_bytes, index });
        // Counts capacity, which is the memory in use.
        let records = |cached: &[CachedIndex]| cached.iter().map(|one| one.index.records.capacity()).sum::<usize>();
        while self.0.len() > 1 && records(&self.0) > MAX_CACHED_RECORDS {
            self.0.pop();
        }
    }
}

/// One opened transcript.
pub(super) struct OpenTranscript {
    file: File,
    directory: PathBuf,
    sub_agents: SubAgentFiles,
    index: Arc<TranscriptIndex>,
    chain: RecordChain,
    spans: Vec<TurnSpan>,
    turns: Vec<TurnIndexEntry>,
    abandoned_chain: RecordChain,
    abandoned_spans: Vec<TurnSpan>,
    abandoned: Vec<AbandonedTurn>,
    damage: Vec<String>,
    /// The first record that mentions a sub-agent, as a position in the index.
    first_mentions: HashMap<RecordId, usize>,
}

impl OpenTranscript {
    /// Opens a transcript in its current state. If it `is_scanned`, its index is not added to the cache.
    pub(super) fn open(found: &CatalogEntry, cache: &Mutex<IndexCache>, is_scanned: bool) -> io::Result<Self> {
        let (file, facts) = regular_file::open_regular_file(&found.path)?;
        let cache = || cache.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = cache().take(&found.path, &file, &facts);
        let is_cached = cached.is_some() || !is_scanned;
        let mut index = cached.unwrap_or_default();
        let mut rest = BufReader::with_capacity(256 * 1024, &file);
        rest.seek(SeekFrom::Start(index.resume_offset()))?;
        index.extend(&mut rest)?;
        let index = Arc::new(index);
        if is_cached {
            cache().insert(&found.path, &file, &facts, &index);
        }
        let chain = RecordChain::from_index(&index);
        let spans = chain.turn_spans(&index);
        let abandoned_chain = find_abandoned_records(&index, &chain);
        let mut transcript = Self {
            directory: PathBuf::from(found.listing.working_directory.as_deref().unwrap_or("/")),
            sub_agents: SubAgentFiles::for_transcript(&found.path),
            damage: damage(&index, &chain),
            turns: Vec::new(),
            abandoned: Vec::new(),
            abandoned_spans: abandoned_chain.turn_spans(&index),
            abandoned_chain,
            first_mentions: first_sub_agent_mentions(&index, &chain, &spans),
            file,
            index,
            chain,
            spans,
        };
        transcript.turns =
            transcript.spans.iter().map(|span| transcript.index_entry(&transcript.chain, span)).collect();
        let starts = |chain: &RecordChain, span: &TurnSpan| chain.positions.get(span.range.start).copied();
        let to_turn = |span: &TurnSpan| AbandonedTurn {
            turn: transcript.index_entry(&transcript.abandoned_chain, span),
            turns_before: transcript.spans.partition_point(|before| {
                starts(&transcript.chain, before) < starts(&transcript.abandoned_chain, span)
            }),
        };
        transcript.abandoned = transcript.abandoned_spans.iter().map(to_turn).collect();
        Ok(transcript)
    }

    fn index_entry(&self, chain: &RecordChain, span: &TurnSpan) -> TurnIndexEntry {
        let agents = chain.positions_of(span).iter().filter_map(|at| self.first_sub_agent_at(*at));
        let agents: u64 = agents.map(|agent| self.sub_agents.size_bytes(agent)).sum();
        TurnIndexEntry {
            id: span.turn_id,
            message_id: span.message_id,
            is_command: span.is_command,
            is_complete: span.is_complete,
            record_count: chain.count_activity(&self.index, span),
            size_bytes: chain.size_bytes(&self.index, span) + agents,
        }
    }

    /// The note to append so that the next agent continues the conversation, if it would not.
    pub(super) fn leaf_correction_record(&self, conversation: Uuid) -> Option<String> {
        let leaf = branch_leaf::find_leaf_correction(&self.index, &self.chain)?;
        let said = self.spans.last().map(|span| self.load_turn(&self.chain, span).origin);
        let prompt = match said {
            Some(TurnOrigin::User { text, .. }) => super::metadata::to_single_line(&text),
            _ => String::new(),
        };
        Some(branch_leaf::last_prompt_record(leaf, &prompt, conversation))
    }

    fn load_turn_range(&self, places: Range<usize>) -> Vec<LoadedTurn> {
        let active = self.spans.iter().map(|span| (&self.chain, span));
        let abandoned = self.abandoned_spans.iter().map(|span| (&self.abandoned_chain, span));
        let spans = active.chain(abandoned).skip(places.start).take(places.len());
        spans.map(|(chain, span)| self.load_turn(chain, span)).collect()
    }

    fn load_turn(&self, chain: &RecordChain, span: &TurnSpan) -> LoadedTurn {
        let links = chain.positions_of(span);
        // Each sub-agent appears once in the whole conversation, whatever the pages: its transcript covers all of its
        // work.
        let new = links.iter().filter_map(|at| self.first_sub_agent_at(*at)).collect();
        let new: RefCell<HashSet<RecordId>> = RefCell::new(new);
        let unnamed: RefCell<HashSet<RecordId>> = RefCell::default();
        let sub_agent = |asked: SubAgentQuery<'_>| {
            let agent = match asked {
                SubAgentQuery::ById(id) => new.borrow_mut().take(&RecordId::from_name(id))?,
                SubAgentQuery::ByCall { .. } => {
                    let is_named = |agent| self.first_mentions.contains_key(&agent);
                    let made =
                        self.sub_agents.find_by_call(asked, is_named, |agent| unnamed.borrow().contains(&agent))?;
                    unnamed.borrow_mut().insert(made);
                    made
                }
            };
            let id = self.sub_agents.id(agent)?.to_owned();
            Some(SubAgentTranscript { id, transcript: self.sub_agents.read_transcript(agent)? })
        };
        let mut lost = 0;
        // Hidden records are not even read: some are as large as the whole system prompt.
        let shown =
            links.iter().filter_map(|at| self.index.records.get(*at)).filter(|link| link.kind != RecordKind::Hidden);
        let lines = shown.filter_map(|link| {
            let line = read_record_line(&self.file, link);
            lost += usize::from(line.is_none());
            Some((link.kind, line?))
        });
        let mut replayed = replay_turn(&self.directory, lines, span.continues_in_next, &sub_agent);
        lost += replayed.skipped_records;
        if lost > 0 {
            let end = replayed.events.len().saturating_sub(1);
            replayed.events.insert(end, DriverEvent::Notice(missing_records_notice(lost)));
        }
        LoadedTurn {
            id: span.turn_id,
            origin: replayed.origin,
            started_at: replayed.started_at,
            ended_at: replayed.ended_at,
            events: replayed.events,
        }
    }

    /// The sub-agent that this record is the first to mention.
    fn first_sub_agent_at(&self, at: usize) -> Option<RecordId> {
        let place = self.index.sub_agents.binary_search_by_key(&at, |(place, _)| *place).ok()?;
        let (_, agent) = self.index.sub_agents.get(place)?;
        (self.first_mentions.get(agent) == Some(&at)).then_some(*agent)
    }
}

impl Transcript for OpenTranscript {
    fn turns(&self) -> &[TurnIndexEntry] {
        &self.turns
    }

    fn load_turns(
        self: Arc<Self>,
        places: Range<usize>,
    ) -> BoxFuture<'static, Result<Vec<LoadedTurn>, TranscriptStoreError>> {
        read_blocking(move || self.load_turn_range(places))
    }

    fn abandoned_turns(&self) -> &[AbandonedTurn] {
        &self.abandoned
    }

    fn describe_damage(self: Arc<Self>) -> BoxFuture<'static, Vec<String>> {
        async move {
            let examine = Arc::clone(&self);
            let sub_agents = tokio::task::spawn_blocking(move || examine.sub_agents.damage()).await;
            let sub_agents =
                sub_agents.unwrap_or_else(|error| vec![format!("failed to read the sub-agents' transcripts: {error}")]);
            self.damage.iter().cloned().chain(sub_agents).collect()
        }
        .boxed()
    }
}

/// Reads on a thread that may block.
fn read_blocking<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> BoxFuture<'static, Result<T, TranscriptStoreError>> {
    let read = tokio::task::spawn_blocking(read);
    async move {
        read.await.map_err(|error| match error.is_panic() {
            // A panic would happen again.
            true => TranscriptStoreError::Unreadable(error.to_string()),
            false => TranscriptStoreError::Failed(error.to_string()),
        })
    }
    .boxed()
}

/// Only records of turns count as mentions.
fn first_sub_agent_mentions(
    index: &TranscriptIndex,
    chain: &RecordChain,
    spans: &[TurnSpan],
) -> HashMap<RecordId, usize> {
    let mut first = HashMap::new();
    if index.sub_agents.is_empty() {
        return first;
    }
    let from = spans.first().map_or(usize::MAX, |span| span.range.start);
    let replayed: HashSet<&usize> = chain.positions.iter().skip(from).collect();
    for (at, agent) in &index.sub_agents {
        if replayed.contains(at) {
            first.entry(*agent).or_insert(*at);
        }
    }
    first
}

/// The line of a record, if it is still there.
fn read_record_line(file: &File, link: &IndexedRecord) -> Option<Vec<u8>> {
    let length = link.byte_range.end.saturating_sub(link.byte_range.start);
    let mut line = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut line, link.byte_range.start).ok()?;
    let now = IndexedRecord::parse(&line, link.line_number.into(), link.byte_range.clone()).ok()??;
    (now.record.id == link.id && now.record.kind == link.kind).then_some(line)
}

fn missing_records_notice(records: usize) -> String {
    match records {
        1 => "A record of this turn could not be read.".to_owned(),
        records => format!("{records} records of this turn could not be read."),
    }
}

/// The damage of a transcript, in sentences.
fn damage(index: &TranscriptIndex, chain: &RecordChain) -> Vec<String> {
    let mut damage = index.damage.describe(MAX_REPORTED_LINES);
    let mut say = |places: &[usize], what: &str| {
        let lines = places.iter().take(MAX_REPORTED_LINES).filter_map(|at| index.records.get(*at));
        damage.extend(lines.map(|link| format!("line {} {what}", link.line_number)));
        if places.len() > MAX_REPORTED_LINES {
            damage.push(format!("{} more lines: each {what}", places.len() - MAX_REPORTED_LINES));
        }
    };
    say(&chain.missing_parents, "has a parent record that does not exist");
    say(&chain.duplicate_ids, "has the same id as another record");
    if chain.has_cycle {
        damage.push("the records form a cycle, so the first turns are missing".to_owned());
    }
    damage
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(home: &Path, name: &str) -> CatalogEntry {
        let path = home.join(name);
        std::fs::write(&path, "{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"content\":\"hi\"}}\n").unwrap();
        let (id, modified) = (uuid::Uuid::nil(), std::time::SystemTime::UNIX_EPOCH);
        CatalogEntry { id, path, modified, listing: Default::default() }
    }

    #[test]
    fn cache_is_bounded_by_records_and_not_changed_by_scans() {
        let home = tempfile::tempdir().unwrap();
        let cache = Mutex::new(IndexCache::default());
        let names = || {
            let cache = cache.lock().unwrap();
            let name = |cached: &CachedIndex| cached.path.file_name().unwrap().to_string_lossy().into_owned();
            cache.0.iter().map(name).collect::<Vec<_>>().join(" ")
        };
        let open = |name: &str, is_scanned| {
            drop(OpenTranscript::open(&found(home.path(), name), &cache, is_scanned).unwrap());
            names()
        };
        assert_eq!(open("one", false), "one");
        assert_eq!(open("two", false), "two one");
        assert_eq!(open("three", true), "two one");
        assert_eq!(open("one", true), "one two", "a scan does not evict a cached index");
        let insert = |name: &str, links: usize| {
            let path = found(home.path(), name).path;
            let (file, facts) = regular_file::open_regular_file(&path).unwrap();
            let mut index = TranscriptIndex::default();
            index.records.reserve_exact(links);
            cache.lock().unwrap().insert(&path, &file, &facts, &Arc::new(index));
            names()
        };
        insert("a", MAX_CACHED_RECORDS / 2);
        assert_eq!(insert("b", MAX_CACHED_RECORDS / 3), "b a one two");
        assert_eq!(insert("c", MAX_CACHED_RECORDS / 3), "c b", "the oldest ones are evicted");
        assert_eq!(insert("d", MAX_CACHED_RECORDS * 2), "d");
    }
}
