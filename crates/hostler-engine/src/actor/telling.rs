//! Telling the world: the session's line in the list, its chat's line in the session, and what is kept on disk.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::{SessionIsReadChangedAction, SessionMetaChangedAction, SessionReadyAction};
use ahp_types::state::SessionStatus;
use hostler_store::{Durability, Entry, StoreError};
use serde_json::Value;

use super::{Actor, Input, put};
use crate::catalogue::difference;
use crate::hub::NoticeKind;
use crate::session::HOSTLER;
use crate::uri;

/// How long changes of the line in the list are gathered.
const SUMMARY_DELAY: Duration = Duration::from_millis(100);

impl Actor {
    /// `session/ready`, the catalogue's row and `root/sessionAdded`: once, after the handshake.
    pub(super) async fn announce(&mut self) -> Result<(), StoreError> {
        if self.session.listed {
            return Ok(());
        }
        let ready = StateAction::SessionReady(SessionReadyAction {});
        let summary = self.session.summary();
        let host = Arc::clone(&self.host);
        let added = summary.clone();
        let session_uri = Arc::clone(&self.session.uri);
        let batch = self
            .batch(Durability::Durable)
            .entry(Entry::new(Arc::clone(&self.session.uri), ready.clone())?)
            .catalogue(put(&self.session.uri, true, &summary)?)
            .then(move |_| {
                host.catalogue.put(&session_uri, &added);
                host.hub.notify(uri::ROOT, NoticeKind::SessionAdded(Box::new(added)));
            });
        self.host.store.sequencer().commit(batch).await?;
        let channel = Arc::clone(&self.session.uri);
        self.session.apply(&channel, &ready);
        self.session.listed = true;
        self.told = Some(summary);
        Ok(())
    }

    /// Brings the session's lines about its chats up to date, and soon afterwards the session's line in the list.
    pub(super) async fn project(&mut self) {
        for action in self.session.chat_projections() {
            self.tell_session(action).await;
        }
        if self.session.listed {
            // Whoever asks for the list gets the truth; only the telling is gathered.
            self.host.catalogue.put(&self.session.uri, &self.session.summary());
        }
        if self.session.stored && !self.summary_due {
            self.summary_due = true;
            self.tasks.spawn(async {
                tokio::time::sleep(SUMMARY_DELAY).await;
                Input::Project
            });
        }
    }

    /// A streamed action on the session's own channel.
    pub(super) async fn tell_session(&mut self, action: StateAction) {
        let channel = Arc::clone(&self.session.uri);
        self.session.apply(&channel, &action);
        match Entry::new(channel, action) {
            Ok(entry) => {
                let batch = self.batch(Durability::Stream).entry(entry);
                self.submit(batch).await;
            }
            Err(error) => tracing::error!(%error, "an action was skipped"),
        }
    }

    /// Sets a key below `hostler` in the session's `_meta`.
    pub(super) async fn tell_meta(&mut self, key: &str, value: Value) {
        let mut meta = self.session.session.meta.clone().unwrap_or_default();
        let mut hostler = meta.get(HOSTLER).and_then(Value::as_object).cloned().unwrap_or_default();
        hostler.insert(key.to_owned(), value);
        meta.insert(HOSTLER.to_owned(), hostler.into());
        self.tell_session(StateAction::SessionMetaChanged(SessionMetaChangedAction { meta: Some(meta) })).await;
    }

    /// The session's line in the list, in memory, on disk and for everybody who watches it.
    pub(super) async fn publish_summary(&mut self) {
        self.summary_due = false;
        let summary = self.session.summary();
        let row = match put(&self.session.uri, self.session.listed, &summary) {
            Ok(row) => row,
            Err(error) => {
                tracing::error!(%error, "a session's line could not be updated");
                return;
            }
        };
        let mut batch = self.batch(Durability::Stream).catalogue(row);
        if self.session.listed {
            let host = Arc::clone(&self.host);
            let session = Arc::clone(&self.session.uri);
            let told = self.told.replace(summary.clone());
            let changes = told.map(|told| difference(&told, &summary)).filter(|changes| *changes != Default::default());
            if changes.as_ref().is_some_and(|new| new.title.is_some() || new.working_directories.is_some()) {
                self.host.search.changed(&self.session.uri);
            }
            batch = batch.then(move |_| {
                if let Some(changes) = changes {
                    let changes = Box::new(changes);
                    host.hub.notify(uri::ROOT, NoticeKind::SessionSummaryChanged { session, changes });
                }
            });
        }
        self.submit(batch).await;
    }

    /// After a turn there is something to read.
    pub(super) async fn mark_unread(&mut self) {
        if self.session.session.status & SessionStatus::IsRead.bits() != 0 {
            self.tell_session(StateAction::SessionIsReadChanged(SessionIsReadChangedAction { is_read: false })).await;
        }
    }

    /// Writes the session's state down, so that the journal before it can go.
    pub(super) async fn save_snapshot(&mut self) {
        match self.session.snapshot_row() {
            Ok(row) => {
                self.session.turns_are_stored();
                let batch = self.batch(Durability::Stream).snapshot(row);
                self.submit(batch).await;
                self.host.search.changed(&self.session.uri);
            }
            Err(error) => tracing::error!(%error, "a session could not be written down"),
        }
    }
}
