//! Reading what is new: one task, one session at a time, page by page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::SessionSummary;
use futures::FutureExt as _;
use hostler_driver::{Archive, ArchiveError, FoundConversation};
use hostler_search::{Index, Line, Place, SearchError, TurnTexts};
use hostler_store::{Batch, Durability, Page};
use jiff::Timestamp;
use tokio::time::MissedTickBehavior;
use url::Url;

use super::growing::Judged;
use super::{Work, blocking, documents};
use crate::found::FoundSession;
use crate::host::Host;
use crate::{EngineError, paging, uri};

/// How soon what could not be read is tried again while nobody asks.
const AGAIN: Duration = Duration::from_secs(60);

/// How much is read from the store at a time.
const PAGE: Page = Page { turns: 64, bytes: 1024 * 1024, newest: false };

/// How many turns of an agent's record are told at a time.
const TOLD: usize = 32;

/// How the stamp of what an agent's record was read from begins.
const FOUND: &str = "found ";

/// A conversation that no session of the store is.
struct Elsewhere {
    archive: Arc<dyn Archive>,
    conversation: FoundConversation,
    /// Whether somebody waits for all of it.
    waited_for: bool,
}

/// What a round has to read.
#[derive(Default)]
struct Round {
    gone: Vec<Arc<str>>,
    stored: Vec<Arc<str>>,
    elsewhere: Vec<(String, Elsewhere)>,
}

impl Host {
    /// Keeps the index in step with the sessions, until the host goes down.
    pub(crate) fn keep_index(self: &Arc<Self>) {
        if self.search.dir.is_none() {
            return;
        }
        self.search.look();
        let (host, stop, bell) = (Arc::downgrade(self), self.stop.clone(), Arc::clone(&self.search.bell));
        let (clock, growing) = (Arc::clone(&self.clock), Arc::clone(&self.search.growing));
        self.tasks.spawn(async move {
            let mut ticks = tokio::time::interval(AGAIN);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                let due = growing.due_in(clock.monotonic());
                let due = due.map_or_else(|| std::future::pending().boxed(), |left| clock.sleep(left));
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = bell.notified() => {}
                    _ = ticks.tick() => {}
                    () = due => {}
                }
                let Some(host) = host.upgrade() else { return };
                for session in growing.take_due(clock.monotonic()) {
                    host.search.changed(&session.into());
                }
                if host.search.work().is_something() {
                    host.read_what_is_new().await;
                }
            }
        });
    }

    /// One round: everything that was asked for up to now.
    async fn read_what_is_new(self: &Arc<Self>) {
        let work = {
            let mut work = self.search.work();
            let asked = work.asked;
            Work { asked, ..std::mem::replace(&mut *work, Work { asked, ..Work::default() }) }
        };
        let asked = work.asked;
        let (gone, changed, everything) = (work.gone.clone(), work.changed.clone(), work.everything);
        let outcome = self.round(work).await;
        let trouble = match outcome {
            Ok(()) => None,
            Err(EngineError::Stopping) => return,
            Err(error) => Some(self.troubled(error, gone, changed, everything).await),
        };
        self.search.progress.send_modify(|progress| {
            progress.done = asked;
            progress.pending = if trouble.is_some() { progress.pending } else { 0 };
            progress.trouble = trouble;
        });
    }

    /// Something went wrong: what was to be read is read at the next occasion. What is damaged is made anew. Says what it was.
    async fn troubled(
        self: &Arc<Self>,
        error: EngineError,
        gone: HashSet<Arc<str>>,
        changed: HashSet<Arc<str>>,
        everything: bool,
    ) -> String {
        tracing::warn!(%error, "what is new cannot be found by a search yet");
        let mut again = everything;
        if matches!(error, EngineError::Search(SearchError::Damaged)) {
            let host = Arc::clone(self);
            again = true;
            if let Err(error) = blocking(move || host.search.open()?.reset()).await {
                tracing::warn!(%error, "the search index could not be made anew");
            } else {
                self.search.bell.notify_one();
            }
        }
        let mut work = self.search.work();
        work.gone.extend(gone);
        work.changed.extend(changed);
        work.everything |= again;
        match error {
            EngineError::Search(error) => error.to_string(),
            error => format!("not all sessions could be read: {error}"),
        }
    }

    async fn round(self: &Arc<Self>, work: Work) -> Result<(), EngineError> {
        let host = Arc::clone(self);
        let index = blocking(move || host.search.open()).await?;
        let stamps = self.stamps(&work).await?;
        let round = self.plan_round(&index, work, &stamps).await?;
        let mut pending = round.stored.len() + round.elsewhere.len();
        self.search.progress.send_modify(|progress| progress.pending = pending);
        for session in &round.gone {
            self.search.growing.forget(session);
            let (index, session) = (Arc::clone(&index), Arc::clone(session));
            blocking(move || index.forget(&session)).await?;
        }
        let mut trouble = None;
        for session in round.stored {
            match self.read_stored(&index, &session, stamps.get(&*session).copied()).await {
                // One session that cannot be read keeps nobody from finding the others. It is still to be read.
                Err(error @ EngineError::Store(_)) => {
                    trouble = trouble.or(Some(error));
                    continue;
                }
                read => read?,
            }
            pending -= 1;
            self.search.progress.send_modify(|progress| progress.pending = pending);
        }
        for (session, elsewhere) in round.elsewhere {
            self.read_elsewhere(&index, &session, elsewhere).await?;
            pending -= 1;
            self.search.progress.send_modify(|progress| progress.pending = pending);
        }
        trouble.map_or(Ok(()), Err)
    }

    /// What the store has of the sessions in question.
    async fn stamps(&self, work: &Work) -> Result<HashMap<String, u64>, EngineError> {
        let changed: Vec<_> = {
            let sessions = self.sessions();
            work.changed.iter().filter(|session| !sessions.found.contains_key(*session)).collect()
        };
        if !changed.is_empty() {
            // What was streamed before is committed with it at the latest, and can be read.
            self.store.sequencer().commit(Batch::new(None, Durability::Durable)).await?;
        }
        if work.everything {
            return Ok(self.store.snapshots().await?.into_iter().collect());
        }
        let mut stamps = HashMap::new();
        for session in changed {
            if let Some(seq) = self.store.snapshot_of(session).await? {
                stamps.insert(session.to_string(), seq);
            }
        }
        Ok(stamps)
    }

    async fn plan_round(
        self: &Arc<Self>,
        index: &Arc<Index>,
        work: Work,
        stamps: &HashMap<String, u64>,
    ) -> Result<Round, EngineError> {
        let mut round = Round { gone: work.gone.into_iter().collect(), ..Round::default() };
        let known = {
            let index = Arc::clone(index);
            blocking(move || index.sessions()).await?
        };
        let stored = |session: &Arc<str>| self.catalogue.line(session).is_some() && stamps.contains_key(&**session);
        let mut changed = work.changed;
        if work.everything {
            let read = |(session, seq): (&String, &u64)| {
                let news = known.get(session).is_none_or(|stamp| stamp.as_deref() != Some(&seq.to_string()));
                news.then(|| session.as_str().into())
            };
            changed.extend(stamps.iter().filter_map(read));
            let there = self.look_elsewhere(&known, &mut round).await?;
            let lost = known.keys().filter(|session| !there.contains(*session) && !stamps.contains_key(*session));
            round.gone.extend(lost.map(|session| Arc::from(session.as_str())));
        } else {
            let elsewhere = changed.iter().filter_map(|session| self.elsewhere(session, &known));
            round.elsewhere.extend(elsewhere);
        }
        round.stored = changed.into_iter().filter(stored).collect();
        Ok(round)
    }

    /// A conversation that was found and is no session yet, if there is something new in it.
    fn elsewhere(&self, session: &str, known: &HashMap<String, Option<String>>) -> Option<(String, Elsewhere)> {
        let FoundSession { provider, conversation } = self.sessions().found.get(session)?.clone();
        let archive = self.archive(&provider)?;
        let news = known.get(session) != Some(&Some(stamp(&conversation)));
        news.then(|| (session.to_owned(), Elsewhere { archive, conversation, waited_for: false }))
    }

    /// The conversations that agents keep and no session is. Says all of them, and notes those with something new.
    async fn look_elsewhere(
        &self,
        known: &HashMap<String, Option<String>>,
        round: &mut Round,
    ) -> Result<HashSet<String>, EngineError> {
        let mut there = HashSet::new();
        // Those of sessions are read with them; those that a person deleted are not to be found again.
        let ours = self.store.conversations().await?.into_iter().map(|conversation| conversation.id);
        let ours: HashSet<String> = ours.collect();
        for (provider, driver) in &self.drivers {
            let Some(archive) = driver.archive() else { continue };
            let looked = self.stop.run_until_cancelled(archive.look()).await.ok_or(EngineError::Stopping)?;
            // What could not be read is not gone.
            let hidden = known.keys().filter(|session| {
                let id = session.strip_prefix(&**provider).and_then(|rest| rest.strip_prefix(":/"));
                id.filter(|id| !ours.contains(*id)).and_then(|id| id.parse().ok()).is_some_and(|id| looked.may_hide(id))
            });
            there.extend(hidden.cloned());
            for conversation in looked.conversations {
                let session = format!("{provider}:/{}", conversation.id);
                if ours.contains(&conversation.id.to_string()) || self.sessions().is_stored(&session) {
                    continue;
                }
                if known.get(&session) != Some(&Some(stamp(&conversation))) {
                    let archive = Arc::clone(&archive);
                    let elsewhere = Elsewhere { archive, conversation, waited_for: true };
                    round.elsewhere.push((session.clone(), elsewhere));
                }
                there.insert(session);
            }
        }
        Ok(there)
    }

    /// A session of the store: what the index does not have, what it has otherwise, and each chat's last turn, which may
    /// have been taken up again.
    async fn read_stored(
        self: &Arc<Self>,
        index: &Arc<Index>,
        session: &Arc<str>,
        seq: Option<u64>,
    ) -> Result<(), EngineError> {
        let Some(line) = self.catalogue.summary(session).map(|summary| of_summary(session, summary)) else {
            return Ok(());
        };
        let modified_ms = line.modified_ms;
        let (reading, name) = (Arc::clone(index), session.to_string());
        let mut known = blocking(move || {
            reading.describe(&line)?;
            reading.turns(&name)
        })
        .await?;
        let names = self.store.turn_names(session).await?;
        let mut last: HashMap<&str, usize> = HashMap::new();
        for name in &names {
            let last = last.entry(&name.chat).or_default();
            *last = name.position.max(*last);
        }
        let mut wanted: Vec<(Place, String)> = Vec::new();
        for name in &names {
            let place = Place { chat: name.chat.clone(), position: name.position };
            let same = known.remove(&place).is_some_and(|id| id == name.id);
            if !same || last.get(name.chat.as_str()) == Some(&name.position) {
                wanted.push((place, name.id.clone()));
            }
        }
        wanted.sort();
        for (chat, places) in runs(&wanted) {
            self.read_run(index, session, chat, places, modified_ms).await?;
        }
        // A conversation that is being taken in is stored from its end on. Until the older turns are there as well, they are
        // found where they were.
        let default = uri::default_chat_uri(session);
        let stored = names.iter().filter(|name| name.chat == default).map(|name| name.position).min();
        let untold = stored.unwrap_or_else(|| self.untold.of(&default));
        known.retain(|place, _| place.chat != default || place.position >= untold);
        let lost: Vec<Place> = known.into_keys().collect();
        let (index, session) = (Arc::clone(index), session.to_string());
        blocking(move || {
            if !lost.is_empty() {
                index.remove(&session, &lost)?;
            }
            seq.map_or(Ok(()), |seq| index.settle(&session, &seq.to_string()))
        })
        .await?;
        Ok(())
    }

    /// Turns of a chat that follow each other.
    async fn read_run(
        self: &Arc<Self>,
        index: &Arc<Index>,
        session: &Arc<str>,
        chat: &str,
        places: std::ops::Range<usize>,
        otherwise_ms: i64,
    ) -> Result<(), EngineError> {
        let mut next = places.start;
        while next < places.end {
            if self.stop.is_cancelled() {
                return Err(EngineError::Stopping);
            }
            let rows = self.store.turns(chat, next..places.end, PAGE).await?;
            if rows.is_empty() {
                // It was cut meanwhile; whoever did that says so.
                return Ok(());
            }
            let (index, session, first) = (Arc::clone(index), session.to_string(), next);
            next += rows.len();
            blocking(move || {
                let turns: Vec<TurnTexts> = (first..)
                    .zip(&rows)
                    .map(|(position, row)| {
                        let turn = paging::read(row);
                        TurnTexts {
                            place: Place { chat: row.chat.clone(), position },
                            turn: row.id.clone(),
                            at_ms: turn.started_at.as_deref().and_then(millis).unwrap_or(otherwise_ms),
                            texts: documents::of_turn(&turn),
                        }
                    })
                    .collect();
                index.put(&session, &turns)
            })
            .await?;
        }
        Ok(())
    }

    /// A conversation that only its agent keeps. One that cannot be read is found by its title, and read again when it
    /// has changed.
    async fn read_elsewhere(
        self: &Arc<Self>,
        index: &Arc<Index>,
        session: &str,
        elsewhere: Elsewhere,
    ) -> Result<(), EngineError> {
        let conversation = &elsewhere.conversation;
        let line = Line {
            session: session.to_owned(),
            title: conversation.title.clone(),
            workspace: conversation.directory.as_ref().map(|directory| directory.display().to_string()),
            modified_ms: Timestamp::try_from(conversation.modified).unwrap_or_default().as_millisecond(),
        };
        let modified_ms = line.modified_ms;
        let (reading, name) = (Arc::clone(index), session.to_owned());
        let known = blocking(move || {
            reading.describe(&line)?;
            reading.turns(&name)
        })
        .await?;
        match self.tell_elsewhere(index, session, &elsewhere, known, modified_ms).await? {
            Ok(true) => {}
            // The next look shows that it is gone; or the last turn is read when it is due.
            Err(ArchiveError::Missing) | Ok(false) => return Ok(()),
            Err(error) => tracing::info!(session, %error, "a conversation is found by its title only"),
        }
        let (index, session, stamp) = (Arc::clone(index), session.to_owned(), stamp(conversation));
        blocking(move || index.settle(&session, &stamp)).await?;
        Ok(())
    }

    /// Whether that is all of it.
    async fn tell_elsewhere(
        self: &Arc<Self>,
        index: &Arc<Index>,
        session: &str,
        elsewhere: &Elsewhere,
        mut known: HashMap<Place, String>,
        otherwise_ms: i64,
    ) -> Result<Result<bool, ArchiveError>, EngineError> {
        let Elsewhere { archive, conversation, waited_for } = elsewhere;
        let stopping = || EngineError::Stopping;
        let opening = archive.open_in_passing(conversation.id);
        let opened = self.stop.run_until_cancelled(opening).await.ok_or_else(stopping)?;
        let chronicle = match opened {
            Ok(chronicle) => chronicle,
            Err(error) => return Ok(Err(error)),
        };
        let chat = uri::default_chat_uri(session);
        let now = self.clock.monotonic();
        let mut last = None;
        let mut wanted: Vec<(Place, String)> = Vec::new();
        for (position, mark) in chronicle.turns().iter().enumerate() {
            let place = Place { chat: chat.clone(), position };
            let same = known.remove(&place).is_some_and(|id| id == mark.id.to_string());
            let is_last = position + 1 == chronicle.turns().len();
            let judged = match same {
                true => self.search.growing.judge(session, mark, is_last, now, *waited_for),
                false => Judged::Read,
            };
            if judged == Judged::Read {
                wanted.push((place, mark.id.to_string()));
            }
            last = is_last.then_some((mark, judged));
        }
        for (_, places) in runs(&wanted) {
            let mut next = places.start;
            while next < places.end {
                let until = places.end.min(next + TOLD);
                let telling = Arc::clone(&chronicle).tell(next..until);
                let told = match self.stop.run_until_cancelled(telling).await.ok_or_else(stopping)? {
                    Ok(told) => told,
                    Err(error) => return Ok(Err(error)),
                };
                let (index, session, chat, first) = (Arc::clone(index), session.to_owned(), chat.clone(), next);
                next = until;
                blocking(move || {
                    let turns: Vec<TurnTexts> = (first..)
                        .zip(&told)
                        .map(|(position, told)| TurnTexts {
                            place: Place { chat: chat.clone(), position },
                            turn: told.id.to_string(),
                            at_ms: told.began.as_deref().and_then(millis).unwrap_or(otherwise_ms),
                            texts: documents::of_told(told),
                        })
                        .collect();
                    index.put(&session, &turns)
                })
                .await?;
                tokio::task::yield_now().await;
            }
        }
        let lost: Vec<Place> = known.into_keys().collect();
        if !lost.is_empty() {
            let (index, session) = (Arc::clone(index), session.to_owned());
            blocking(move || index.remove(&session, &lost)).await?;
        }
        if let Some((mark, Judged::Read)) = &last {
            self.search.growing.was_read(session, mark, now);
        }
        Ok(Ok(!matches!(last, Some((_, Judged::Later)))))
    }
}

/// What a conversation was read from.
fn stamp(conversation: &FoundConversation) -> String {
    let modified = conversation.modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{FOUND}{} {}", modified.as_nanos(), conversation.title)
}

/// Places that follow each other, as ranges by chat. They are in order.
fn runs(places: &[(Place, String)]) -> Vec<(&str, std::ops::Range<usize>)> {
    let mut runs: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
    for (place, _) in places {
        match runs.last_mut().filter(|(chat, run)| *chat == place.chat && run.end == place.position) {
            Some((_, run)) => run.end += 1,
            None => runs.push((&place.chat, place.position..place.position + 1)),
        }
    }
    runs
}

fn of_summary(session: &str, summary: SessionSummary) -> Line {
    let directory = summary.working_directories.iter().flatten().next();
    let path = directory.and_then(|directory| Url::parse(directory).ok()?.to_file_path().ok());
    Line {
        session: session.to_owned(),
        title: summary.title,
        workspace: path.map(|path| path.display().to_string()),
        modified_ms: millis(&summary.modified_at).unwrap_or_default(),
    }
}

fn millis(text: &str) -> Option<i64> {
    Some(text.parse::<Timestamp>().ok()?.as_millisecond())
}
