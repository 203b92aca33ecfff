//! A conversation that only its agent knew becomes a session of the store: its last turns at once, the others after them.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionChatAddedAction;
use hostler_driver::Chronicle;
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
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

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
    pub(super) async fn tell_older(&mut self, chronicle: Option<Arc<dyn Chronicle>>) {
        self.host.untold.set(&self.session.chat_uri, self.session.untold);
        if self.session.untold == 0 {
            return;
        }
        let driver = self.host.drivers.get(&self.session.session.provider);
        let archive = driver.and_then(|driver| driver.archive());
        let next = self.first_told().await;
        let empty = Session {
            untold: self.session.untold,
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
        let clock = Arc::clone(&self.host.clock);
        self.tasks.spawn(async move {
            let (mut chronicle, mut pause) = (chronicle, STORE_RETRY);
            loop {
                let told = gather(archive.clone(), chronicle.take(), empty.clone(), next.clone()).await;
                if let Some(piece) = told {
                    return Input::Told(Box::new(piece));
                }
                // A disk that is away comes back, and what it has is not lost.
                clock.sleep(pause).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        });
    }

    /// The id of the first turn that was taken in.
    async fn first_told(&self) -> Option<String> {
        let untold = self.session.untold;
        if let Some(held) = untold.checked_sub(self.session.kept.past.turns) {
            return self.session.chat.turns.get(held).map(|turn| turn.id.clone());
        }
        self.host.store.turn_at(&self.session.chat_uri, untold).await.ok().flatten()
    }

    /// Older turns are told: they get their rows, and their sub-agents their chats.
    pub(super) async fn told_older(&mut self, piece: Piece) {
        match self.store_piece(&piece).await {
            Ok(session) => {
                self.session = session;
                self.session.rows_are_safe();
                self.tell_older(piece.chronicle).await;
            }
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "older turns could not be stored yet");
                let pause = self.host.clock.sleep(STORE_RETRY);
                self.tasks.spawn(async move {
                    pause.await;
                    Input::Told(Box::new(piece))
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
        session.untold = piece.first;
        let mut snapshot = session.snapshot_row()?;
        snapshot.turns.extend(rows);
        session.turns_are_stored();
        let batch = self.batch(Durability::Durable).entries(entries).blobs(piece.blobs.clone()).snapshot(snapshot);
        self.host.store.sequencer().commit(batch).await?;
        Ok(session)
    }
}
