//! Indexes changed sessions: one task, one session at a time, page by page.
//!
//! Index and source are compared by position and id of turns, so the order of notifications does not matter.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::SessionSummary;
use futures::FutureExt as _;
use hostler_driver::{ExternalConversation, TranscriptStore, TranscriptStoreError};
use hostler_search::{SearchError, SearchIndex, SessionDocument, TurnDocument, TurnLocation};
use hostler_store::{Batch, BatchDurability, TurnPageLimits};
use jiff::Timestamp;
use tokio::time::MissedTickBehavior;
use url::Url;

use super::running_turns::ReindexDecision;
use super::{IndexWork, documents, run_blocking};
use crate::external_sessions::ExternalSession;
use crate::host::Host;
use crate::sessions::paging;
use crate::{EngineError, uri};

/// Retry interval after a read error, without a search that waits.
const INDEX_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Page size for reading turns from the store.
const INDEX_PAGE: TurnPageLimits = TurnPageLimits { max_turns: 64, max_bytes: 1024 * 1024, from_end: false };

/// Number of turns that are loaded from a transcript at a time.
const TRANSCRIPT_BATCH_TURNS: usize = 32;

/// Prefix of the stamp of a session that was indexed from a transcript.
const EXTERNAL_STAMP_PREFIX: &str = "found ";

/// An external conversation, which no stored session contains.
struct ExternalTranscript {
    transcript_store: Arc<dyn TranscriptStore>,
    conversation: ExternalConversation,
    /// Whether a search waits for all of it.
    is_awaited: bool,
}

/// What a round has to index.
#[derive(Default)]
struct IndexRound {
    removed: Vec<Arc<str>>,
    stored: Vec<Arc<str>>,
    external: Vec<(String, ExternalTranscript)>,
}

impl Host {
    /// Keeps the index up to date until the host stops.
    pub(crate) fn run_search_indexer(self: &Arc<Self>) {
        if self.catalog.search.dir.is_none() {
            return;
        }
        self.catalog.search.request_full_scan();
        let (host, stop, eviction_signal) =
            (Arc::downgrade(self), self.tasks.stop_token(), Arc::clone(&self.catalog.search.wake_up));
        let (clock, growing) = (Arc::clone(&self.clock), Arc::clone(&self.catalog.search.running_turns));
        self.tasks.spawn(async move {
            let mut ticks = tokio::time::interval(INDEX_RETRY_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                let due = growing.next_due_in(clock.monotonic());
                let due = due.map_or_else(|| std::future::pending().boxed(), |left| clock.sleep(left));
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = eviction_signal.notified() => {}
                    _ = ticks.tick() => {}
                    () = due => {}
                }
                let Some(host) = host.upgrade() else { return };
                for session in growing.take_due(clock.monotonic()) {
                    host.catalog.mark_changed(&session.into());
                }
                if host.catalog.search.lock_work().has_work() {
                    host.run_index_round().await;
                }
            }
        });
    }

    /// Runs one round: everything that was requested so far.
    async fn run_index_round(self: &Arc<Self>) {
        let work = {
            let mut work = self.catalog.search.lock_work();
            let asked = work.request_count;
            IndexWork {
                request_count: asked,
                ..std::mem::replace(&mut *work, IndexWork { request_count: asked, ..IndexWork::default() })
            }
        };
        let asked = work.request_count;
        let (gone, changed, everything) = (work.removed.clone(), work.changed.clone(), work.full_scan);
        let outcome = self.index_work(work).await;
        let trouble = match outcome {
            Ok(()) => None,
            Err(EngineError::Stopping) => return,
            Err(error) => Some(self.handle_index_failure(error, gone, changed, everything).await),
        };
        self.catalog.search.progress.send_modify(|progress| {
            progress.completed_requests = asked;
            progress.pending_sessions = if trouble.is_some() { progress.pending_sessions } else { 0 };
            progress.error = trouble;
        });
    }

    /// Handles an index error: the work is repeated in a later round, and a damaged index is rebuilt. Returns the
    /// message.
    async fn handle_index_failure(
        self: &Arc<Self>,
        error: EngineError,
        gone: HashSet<Arc<str>>,
        changed: HashSet<Arc<str>>,
        everything: bool,
    ) -> String {
        tracing::warn!(%error, "failed to update the search index; retrying");
        let mut again = everything;
        if matches!(error, EngineError::Search(SearchError::Damaged)) {
            let host = Arc::clone(self);
            again = true;
            if let Err(error) = run_blocking(move || host.catalog.search.open_index()?.reset()).await {
                tracing::warn!(%error, "failed to rebuild the search index");
            } else {
                self.catalog.search.wake_up.notify_one();
            }
        }
        let mut work = self.catalog.search.lock_work();
        work.removed.extend(gone);
        work.changed.extend(changed);
        work.full_scan |= again;
        match error {
            EngineError::Search(error) => error.to_string(),
            error => format!("some sessions could not be indexed: {error}"),
        }
    }

    async fn index_work(self: &Arc<Self>, work: IndexWork) -> Result<(), EngineError> {
        let host = Arc::clone(self);
        let index = run_blocking(move || host.catalog.search.open_index()).await?;
        let stamps = self.snapshot_stamps(&work).await?;
        let round = self.plan_round(&index, work, &stamps).await?;
        let mut pending = round.stored.len() + round.external.len();
        self.catalog.search.progress.send_modify(|progress| progress.pending_sessions = pending);
        for session in &round.removed {
            self.catalog.search.running_turns.forget(session);
            let (index, session) = (Arc::clone(&index), Arc::clone(session));
            run_blocking(move || index.remove_session(&session)).await?;
        }
        let mut trouble = None;
        for session in round.stored {
            match self.index_stored_session(&index, &session, stamps.get(&*session).copied()).await {
                // One unreadable session does not block the others. It stays pending.
                Err(error @ EngineError::Store(_)) => {
                    trouble = trouble.or(Some(error));
                    continue;
                }
                read => read?,
            }
            pending -= 1;
            self.catalog.search.progress.send_modify(|progress| progress.pending_sessions = pending);
        }
        for (session, elsewhere) in round.external {
            self.index_external_session(&index, &session, elsewhere).await?;
            pending -= 1;
            self.catalog.search.progress.send_modify(|progress| progress.pending_sessions = pending);
        }
        trouble.map_or(Ok(()), Err)
    }

    /// The stored stamps of the sessions in question.
    async fn snapshot_stamps(&self, work: &IndexWork) -> Result<HashMap<String, u64>, EngineError> {
        let changed: Vec<_> = {
            let sessions = self.catalog.sessions();
            work.changed.iter().filter(|session| sessions.external(session).is_none()).collect()
        };
        if !changed.is_empty() {
            // Earlier stream batches are committed with this one at the latest, and can be read then.
            self.publication.commit(Batch::new(None, BatchDurability::Durable)).await?;
        }
        if work.full_scan {
            return Ok(self.store.snapshot_seqs().await?.into_iter().collect());
        }
        let mut stamps = HashMap::new();
        for session in changed {
            if let Some(seq) = self.store.snapshot_seq(session).await? {
                stamps.insert(session.to_string(), seq);
            }
        }
        Ok(stamps)
    }

    async fn plan_round(
        self: &Arc<Self>,
        index: &Arc<SearchIndex>,
        work: IndexWork,
        stamps: &HashMap<String, u64>,
    ) -> Result<IndexRound, EngineError> {
        let mut round = IndexRound { removed: work.removed.into_iter().collect(), ..IndexRound::default() };
        let known = {
            let index = Arc::clone(index);
            run_blocking(move || index.session_stamps()).await?
        };
        let stored =
            |session: &Arc<str>| self.catalog.encoded_summary(session).is_some() && stamps.contains_key(&**session);
        let mut changed = work.changed;
        if work.full_scan {
            let read = |(session, seq): (&String, &u64)| {
                let news = known.get(session).is_none_or(|stamp| stamp.as_deref() != Some(&seq.to_string()));
                news.then(|| session.as_str().into())
            };
            changed.extend(stamps.iter().filter_map(read));
            let there = self.find_external_sessions(&known, &mut round).await?;
            let lost = known.keys().filter(|session| !there.contains(*session) && !stamps.contains_key(*session));
            round.removed.extend(lost.map(|session| Arc::from(session.as_str())));
        } else {
            let elsewhere = changed.iter().filter_map(|session| self.changed_external_session(session, &known));
            round.external.extend(elsewhere);
        }
        round.stored = changed.into_iter().filter(stored).collect();
        Ok(round)
    }

    /// Returns an external conversation if it has changed since it was indexed.
    fn changed_external_session(
        &self,
        session: &str,
        known: &HashMap<String, Option<String>>,
    ) -> Option<(String, ExternalTranscript)> {
        let ExternalSession { provider, conversation } = self.catalog.sessions().external(session)?.clone();
        let transcript_store = self.agents.transcript_store(&provider)?;
        let news = known.get(session) != Some(&Some(external_stamp(&conversation)));
        news.then(|| (session.to_owned(), ExternalTranscript { transcript_store, conversation, is_awaited: false }))
    }

    /// Finds the external conversations. Returns all of them, and adds the changed ones to the work.
    async fn find_external_sessions(
        &self,
        known: &HashMap<String, Option<String>>,
        round: &mut IndexRound,
    ) -> Result<HashSet<String>, EngineError> {
        let mut there = HashSet::new();
        // Conversations of stored sessions are indexed with those; deleted ones are not indexed again.
        let ours = self.store.conversations().await?.into_iter().map(|conversation| conversation.id);
        let ours: HashSet<String> = ours.collect();
        for (provider, transcript_store) in self.agents.transcript_stores() {
            let looked = self.tasks.run_until_stopped(transcript_store.scan()).await.ok_or(EngineError::Stopping)?;
            // An unreadable conversation does not count as deleted.
            let hidden = known.keys().filter(|session| {
                let id = session.strip_prefix(provider).and_then(|rest| rest.strip_prefix(":/"));
                id.filter(|id| !ours.contains(*id))
                    .and_then(|id| id.parse().ok())
                    .is_some_and(|id| looked.may_contain_unread(id))
            });
            there.extend(hidden.cloned());
            for conversation in looked.conversations {
                let session = format!("{provider}:/{}", conversation.id);
                if ours.contains(&conversation.id.to_string()) || self.catalog.sessions().is_stored(&session) {
                    continue;
                }
                if known.get(&session) != Some(&Some(external_stamp(&conversation))) {
                    let transcript_store = Arc::clone(&transcript_store);
                    let elsewhere = ExternalTranscript { transcript_store, conversation, is_awaited: true };
                    round.external.push((session.clone(), elsewhere));
                }
                there.insert(session);
            }
        }
        Ok(there)
    }

    /// Indexes a stored session: missing and changed turns, and each chat's last turn, which may have been resumed.
    async fn index_stored_session(
        self: &Arc<Self>,
        index: &Arc<SearchIndex>,
        session: &Arc<str>,
        seq: Option<u64>,
    ) -> Result<(), EngineError> {
        let Some(line) = self.catalog.summary(session).map(|summary| line_from_summary(session, summary)) else {
            return Ok(());
        };
        let modified_ms = line.modified_ms;
        let (reading, name) = (Arc::clone(index), session.to_string());
        let mut known = run_blocking(move || {
            reading.upsert_session(&line)?;
            reading.indexed_turns(&name)
        })
        .await?;
        let names = self.store.turn_index(session).await?;
        let mut last: HashMap<&str, usize> = HashMap::new();
        for name in &names {
            let last = last.entry(&name.chat).or_default();
            *last = name.position.max(*last);
        }
        let mut wanted: Vec<(TurnLocation, String)> = Vec::new();
        for name in &names {
            let place = TurnLocation { chat: name.chat.clone(), position: name.position };
            let same = known.remove(&place).is_some_and(|id| id == name.id);
            if !same || last.get(name.chat.as_str()) == Some(&name.position) {
                wanted.push((place, name.id.clone()));
            }
        }
        wanted.sort();
        for (chat, places) in contiguous_ranges(&wanted) {
            self.index_turn_range(index, session, chat, places, modified_ms).await?;
        }
        // A conversation is imported from its end. Until the older turns are imported, their entries from the
        // transcript stay.
        let default = uri::default_chat_uri(session);
        let stored = names.iter().filter(|name| name.chat == default).map(|name| name.position).min();
        let missing = stored.unwrap_or_else(|| self.external.unimported_count(&default));
        known.retain(|place, _| place.chat != default || place.position >= missing);
        let lost: Vec<TurnLocation> = known.into_keys().collect();
        let (index, session) = (Arc::clone(index), session.to_string());
        run_blocking(move || {
            if !lost.is_empty() {
                index.remove_turns(&session, &lost)?;
            }
            seq.map_or(Ok(()), |seq| index.mark_complete(&session, &seq.to_string()))
        })
        .await?;
        Ok(())
    }

    /// Indexes consecutive turns of a chat.
    async fn index_turn_range(
        self: &Arc<Self>,
        index: &Arc<SearchIndex>,
        session: &Arc<str>,
        chat: &str,
        places: std::ops::Range<usize>,
        otherwise_ms: i64,
    ) -> Result<(), EngineError> {
        let mut next = places.start;
        while next < places.end {
            if self.tasks.is_stopping() {
                return Err(EngineError::Stopping);
            }
            let rows = self.store.load_turns(chat, next..places.end, INDEX_PAGE).await?;
            if rows.is_empty() {
                // The chat was truncated meanwhile; that change is notified separately.
                return Ok(());
            }
            let (index, session, first) = (Arc::clone(index), session.to_string(), next);
            next += rows.len();
            run_blocking(move || {
                let turns: Vec<TurnDocument> = (first..)
                    .zip(&rows)
                    .map(|(position, row)| {
                        let turn = paging::parse_stored_turn(row);
                        TurnDocument {
                            location: TurnLocation { chat: row.chat.clone(), position },
                            turn_id: row.id.clone(),
                            at_ms: turn.started_at.as_deref().and_then(parse_millis).unwrap_or(otherwise_ms),
                            texts: documents::turn_texts(&turn),
                        }
                    })
                    .collect();
                index.put_turns(&session, &turns)
            })
            .await?;
        }
        Ok(())
    }

    /// Indexes an external conversation. An unreadable one is indexed by its title, and read again when it has changed.
    async fn index_external_session(
        self: &Arc<Self>,
        index: &Arc<SearchIndex>,
        session: &str,
        elsewhere: ExternalTranscript,
    ) -> Result<(), EngineError> {
        let conversation = &elsewhere.conversation;
        let line = SessionDocument {
            session: session.to_owned(),
            title: conversation.title.clone(),
            workspace: conversation.working_directory.as_ref().map(|directory| directory.display().to_string()),
            modified_ms: Timestamp::try_from(conversation.modified).unwrap_or_default().as_millisecond(),
        };
        let modified_ms = line.modified_ms;
        let (reading, name) = (Arc::clone(index), session.to_owned());
        let known = run_blocking(move || {
            reading.upsert_session(&line)?;
            reading.indexed_turns(&name)
        })
        .await?;
        match self.index_external_turns(index, session, &elsewhere, known, modified_ms).await? {
            Ok(true) => {}
            // The next scan shows that it is gone; or the last turn is indexed when it is due.
            Err(TranscriptStoreError::Missing) | Ok(false) => return Ok(()),
            Err(error) => {
                tracing::info!(session, %error, "failed to index a conversation; only its title is searchable")
            }
        }
        let (index, session, stamp) = (Arc::clone(index), session.to_owned(), external_stamp(conversation));
        run_blocking(move || index.mark_complete(&session, &stamp)).await?;
        Ok(())
    }

    /// Indexes the turns of an external conversation; `false` if some are deferred.
    async fn index_external_turns(
        self: &Arc<Self>,
        index: &Arc<SearchIndex>,
        session: &str,
        elsewhere: &ExternalTranscript,
        mut known: HashMap<TurnLocation, String>,
        otherwise_ms: i64,
    ) -> Result<Result<bool, TranscriptStoreError>, EngineError> {
        let ExternalTranscript { transcript_store, conversation, is_awaited: waited_for } = elsewhere;
        let stopping = || EngineError::Stopping;
        let opening = transcript_store.open_for_scan(conversation.id);
        let opened = self.tasks.run_until_stopped(opening).await.ok_or_else(stopping)?;
        let transcript = match opened {
            Ok(transcript) => transcript,
            Err(error) => return Ok(Err(error)),
        };
        let chat = uri::default_chat_uri(session);
        let now = self.clock.monotonic();
        let mut last = None;
        let mut wanted: Vec<(TurnLocation, String)> = Vec::new();
        for (position, mark) in transcript.turns().iter().enumerate() {
            let place = TurnLocation { chat: chat.clone(), position };
            let same = known.remove(&place).is_some_and(|id| id == mark.id.to_string());
            let is_last = position + 1 == transcript.turns().len();
            let judged = match same {
                true => self.catalog.search.running_turns.decide(session, mark, is_last, now, *waited_for),
                false => ReindexDecision::Reindex,
            };
            if judged == ReindexDecision::Reindex {
                wanted.push((place, mark.id.to_string()));
            }
            last = is_last.then_some((mark, judged));
        }
        for (_, places) in contiguous_ranges(&wanted) {
            let mut next = places.start;
            while next < places.end {
                let until = places.end.min(next + TRANSCRIPT_BATCH_TURNS);
                let loading = Arc::clone(&transcript).load_turns(next..until);
                let loaded = match self.tasks.run_until_stopped(loading).await.ok_or_else(stopping)? {
                    Ok(loaded) => loaded,
                    Err(error) => return Ok(Err(error)),
                };
                let (index, session, chat, first) = (Arc::clone(index), session.to_owned(), chat.clone(), next);
                next = until;
                run_blocking(move || {
                    let turns: Vec<TurnDocument> = (first..)
                        .zip(&loaded)
                        .map(|(position, loaded)| TurnDocument {
                            location: TurnLocation { chat: chat.clone(), position },
                            turn_id: loaded.id.to_string(),
                            at_ms: loaded.started_at.as_deref().and_then(parse_millis).unwrap_or(otherwise_ms),
                            texts: documents::loaded_turn_texts(loaded),
                        })
                        .collect();
                    index.put_turns(&session, &turns)
                })
                .await?;
                tokio::task::yield_now().await;
            }
        }
        let lost: Vec<TurnLocation> = known.into_keys().collect();
        if !lost.is_empty() {
            let (index, session) = (Arc::clone(index), session.to_owned());
            run_blocking(move || index.remove_turns(&session, &lost)).await?;
        }
        if let Some((mark, ReindexDecision::Reindex)) = &last {
            self.catalog.search.running_turns.mark_indexed(session, mark, now);
        }
        Ok(Ok(!matches!(last, Some((_, ReindexDecision::Defer)))))
    }
}

/// The version of a conversation that was indexed.
fn external_stamp(conversation: &ExternalConversation) -> String {
    let modified = conversation.modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{EXTERNAL_STAMP_PREFIX}{} {}", modified.as_nanos(), conversation.title)
}

/// Groups sorted locations into contiguous ranges by chat.
fn contiguous_ranges(places: &[(TurnLocation, String)]) -> Vec<(&str, std::ops::Range<usize>)> {
    let mut runs: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
    for (place, _) in places {
        match runs.last_mut().filter(|(chat, run)| *chat == place.chat && run.end == place.position) {
            Some((_, run)) => run.end += 1,
            None => runs.push((&place.chat, place.position..place.position + 1)),
        }
    }
    runs
}

fn line_from_summary(session: &str, summary: SessionSummary) -> SessionDocument {
    let directory = summary.working_directories.iter().flatten().next();
    let path = directory.and_then(|directory| Url::parse(directory).ok()?.to_file_path().ok());
    SessionDocument {
        session: session.to_owned(),
        title: summary.title,
        workspace: path.map(|path| path.display().to_string()),
        modified_ms: parse_millis(&summary.modified_at).unwrap_or_default(),
    }
}

fn parse_millis(text: &str) -> Option<i64> {
    Some(text.parse::<Timestamp>().ok()?.as_millisecond())
}
