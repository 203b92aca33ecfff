//! A conversation that only its agent knew becomes a session of the store: its last turns at once, the others after them.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionChatAddedAction;
use hostler_driver::{ArchiveError, Chronicle};
use hostler_store::{Batch, Durability, Entry, StoreError, TurnRow};

use super::turns::STORE_RETRY;
use super::{Actor, Input, put};
use crate::catalogue::difference;
use crate::found::{self, FoundSession, Piece, Taken, gather};
use crate::host::Host;
use crate::hub::NoticeKind;
use crate::past::{Kept, Past};
use crate::session::{Session, without_turns};
use crate::{EngineError, uri, worker};

/// The longest time between two looks at a record that cannot be read.
const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// How often a record is tried in vain before it is left alone until it changes or somebody wants to see it. One that is not
/// there so often, in this life of the host or in several, is gone.
const TRIES: usize = 10;

/// How older turns come in.
#[derive(Debug, Default)]
pub(super) struct Taking {
    /// A piece is under way.
    telling: bool,
    /// The next try has its time.
    pausing: bool,
    /// How often it was tried in vain since it went well, not counting what people have asked for in between.
    tries: usize,
}

/// Makes a stored session of a found one.
pub(super) async fn take_in(
    host: &Arc<Host>,
    uri: &Arc<str>,
    found: &FoundSession,
) -> Result<(Session, Arc<dyn Chronicle>), EngineError> {
    let Taken { mut session, blobs, chronicle } = found::take_in(host, uri, found).await?;
    session.listed = true;
    let summary = session.summary();
    let (catalogue_host, session_uri, line) = (Arc::clone(host), Arc::clone(uri), summary.clone());
    let batch = Batch::new(Some(Arc::clone(uri)), Durability::Durable)
        .blobs(blobs)
        .catalogue(put(uri, true, &summary)?)
        .conversation(session.conversation.to_string(), Some(uri))
        .snapshot(session.snapshot_row()?)
        .then(move |_| announce(&catalogue_host, session_uri, line));
    host.store.sequencer().commit(batch).await?;
    host.shelf.places.put(uri, session.session.working_directories.as_deref().unwrap_or_default());
    host.sessions().conversations.insert(session.conversation, Some(Arc::clone(uri)));
    session.stored = true;
    session.turns_are_stored();
    session.rows_are_safe();
    Ok((session, chronicle))
}

/// It may have been in the list before, or not: that is a matter of what people want to see there.
fn announce(host: &Host, session: Arc<str>, line: ahp_types::state::SessionSummary) {
    let known = host.catalogue.summary(&session);
    host.catalogue.put(&session, &line);
    let Some(known) = known else {
        return host.hub.notify(uri::ROOT, NoticeKind::SessionAdded(Box::new(line)));
    };
    let changes = Box::new(difference(&known, &line));
    if *changes != Default::default() {
        host.hub.notify(uri::ROOT, NoticeKind::SessionSummaryChanged { session, changes });
    }
}

impl Actor {
    /// Takes older turns in, as long as there are any. Whoever wants one of them waits for it.
    pub(super) fn tell_older(&mut self, chronicle: Option<Arc<dyn Chronicle>>) {
        self.host.untold.set(&self.session.chat_uri, self.session.untold);
        if self.session.untold == 0 || std::mem::replace(&mut self.taking.telling, true) {
            return;
        }
        let archive = self.host.archive(&self.session.session.provider);
        let empty = Session {
            untold: self.session.untold,
            told_from: self.session.told_from,
            conversation: self.session.conversation,
            chat_uri: Arc::clone(&self.session.chat_uri),
            ..Session::provisional(
                Arc::clone(&self.session.uri),
                self.session.session.provider.clone(),
                Vec::new(),
                None,
                self.session.created_at.clone(),
            )
        };
        let gone = self.session.missed >= TRIES;
        self.tasks.spawn(async move { Input::Told(gather(archive, chronicle, empty, gone).await.map(Box::new)) });
    }

    /// Somebody wants to see the chat: what is missing is tried at once.
    pub(super) fn want_older(&mut self) {
        if self.session.untold > 0 && !self.taking.telling {
            self.tell_older(None);
        }
    }

    /// The record has changed: it may be read again.
    pub(super) fn older_may_come(&mut self) {
        self.taking.tries = 0;
        self.want_older();
    }

    /// A pause is over.
    pub(super) fn tell_again(&mut self) {
        self.taking.pausing = false;
        self.want_older();
    }

    /// Older turns are told, or cannot be at the moment.
    pub(super) async fn told_older(&mut self, told: Result<Box<Piece>, ArchiveError>) {
        self.taking.telling = false;
        match told {
            Ok(piece) => self.take_piece(piece).await,
            Err(error) => self.not_told(error).await,
        }
    }

    /// A disk that is away comes back, and what it has is not lost.
    async fn not_told(&mut self, error: ArchiveError) {
        tracing::warn!(session = &*self.session.uri, %error, "older turns of a record cannot be told yet");
        let missing = error == ArchiveError::Missing;
        self.host.untold.fail(&self.session.chat_uri, EngineError::NotTold(error));
        if self.taking.pausing {
            return;
        }
        self.taking.tries += 1;
        if missing {
            self.session.missed += 1;
            // In the middle of a turn its end does so.
            if self.session.chat.active_turn.is_none() {
                self.save_snapshot().await;
            }
            if self.session.missed >= TRIES {
                return self.tell_older(None);
            }
        }
        if missing || self.taking.tries < TRIES {
            self.taking.pausing = true;
            let pause = self.host.clock.sleep(pause(self.taking.tries));
            self.tasks.spawn(async move {
                pause.await;
                Input::TellAgain
            });
        }
    }

    /// Older turns get their rows, and their sub-agents their chats.
    async fn take_piece(&mut self, piece: Box<Piece>) {
        match self.store_piece(&piece).await {
            Ok(session) => {
                self.session = session;
                self.session.rows_are_safe();
                self.taking.tries = 0;
                self.host.search.changed(&self.session.uri);
                self.tell_older(piece.chronicle);
            }
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "older turns could not be stored yet");
                self.host.untold.fail(&self.session.chat_uri, error.into());
                // It is under way as long as it is here.
                self.taking.telling = true;
                self.taking.tries += 1;
                let pause = self.host.clock.sleep(pause(self.taking.tries));
                self.tasks.spawn(async move {
                    pause.await;
                    Input::Told(Ok(piece))
                });
            }
        }
    }

    /// Commits a piece, and gives the session as it is with it.
    async fn store_piece(&self, piece: &Piece) -> Result<Session, StoreError> {
        let encode = |error: serde_json::Error| StoreError::Database(format!("a turn cannot be encoded: {error}"));
        let row = |chat: &Arc<str>, position: usize, turn: &ahp_types::state::Turn| {
            let body = serde_json::to_string(turn).map_err(encode)?;
            Ok::<_, StoreError>(TurnRow { chat: Arc::clone(chat), position, id: turn.id.clone(), body })
        };
        let mut session = self.session.clone();
        let (mut rows, mut entries) = (Vec::new(), Vec::new());
        for (at, turn) in piece.turns.iter().enumerate() {
            rows.push(row(&session.chat_uri, piece.first + at, turn)?);
        }
        let uri = Arc::clone(&session.uri);
        for (line, chat) in &piece.workers {
            if session.chat_on(&chat.resource).is_some() || session.workers.len() >= worker::MAX_WORKERS {
                continue;
            }
            let added = StateAction::SessionChatAdded(SessionChatAddedAction { summary: line.clone() });
            session.apply(&uri, &added);
            entries.push(Entry::new(Arc::clone(&uri), added)?);
            let Some(worker) = session.workers.last_mut() else { continue };
            for (at, turn) in chat.turns.iter().enumerate() {
                rows.push(row(&worker.uri, at, turn)?);
            }
            // Memory does not hold them: somebody who wants to see them is rare.
            worker.chat = Arc::new(without_turns(chat));
            let completed = !chat.turns.is_empty();
            worker.kept = Kept::taken_in(Past { turns: chat.turns.len(), completed, ..Past::default() });
        }
        (session.untold, session.told_from) = (piece.first, piece.told_from);
        if piece.chronicle.is_some() {
            session.missed = 0;
        }
        let mut snapshot = session.snapshot_row()?;
        snapshot.turns.extend(rows);
        session.turns_are_stored();
        let batch = self.batch(Durability::Durable).entries(entries).blobs(piece.blobs.clone()).snapshot(snapshot);
        self.host.store.sequencer().commit(batch).await?;
        Ok(session)
    }
}

/// How long to wait after so many failures: longer and longer.
fn pause(tries: usize) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    LONGEST_PAUSE.min(STORE_RETRY.saturating_mul(2u32.saturating_pow(doublings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_one() {
        let pauses = [0, 1, 2, 3, 10, 11, 12, 1000].map(|tries| pause(tries).as_millis());
        assert_eq!(pauses, [500, 500, 1_000, 2_000, 256_000, 512_000, 600_000, 600_000]);
    }
}
