//! Publishes the session's summary in the list and its chats' summaries in the session, and saves snapshots.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::{SessionIsReadChangedAction, SessionMetaChangedAction, SessionReadyAction};
use ahp_types::state::SessionStatus;
use hostler_store::{ActionEntry, BatchDurability, StoreError};
use serde_json::Value;

use super::{SessionActor, SessionInput, build_catalog_put};
use crate::broadcaster::HostNotificationKind;
use crate::session::HOSTLER_META_KEY;
use crate::session_catalog::summary_changes;
use crate::uri;

/// How long changes of the session summary are collected.
const SUMMARY_PUBLISH_DELAY: Duration = Duration::from_millis(100);

impl SessionActor {
    /// Publishes `session/ready`, the catalog row and `root/sessionAdded`: once, after the handshake.
    pub(super) async fn announce_session(&mut self) -> Result<(), StoreError> {
        if self.session.is_listed {
            return Ok(());
        }
        let ready = StateAction::SessionReady(SessionReadyAction {});
        let summary = self.session.summary();
        let host = Arc::clone(&self.host);
        let added = summary.clone();
        let session_uri = Arc::clone(&self.session.uri);
        let batch = self
            .new_batch(BatchDurability::Durable)
            .entry(ActionEntry::new(Arc::clone(&self.session.uri), ready.clone())?)
            .catalog(build_catalog_put(&self.session.uri, true, &summary)?)
            .after_publish(move |_| {
                host.catalog.upsert(&session_uri, &added);
                host.broadcaster.notify(uri::ROOT_CHANNEL_URI, HostNotificationKind::SessionAdded(Box::new(added)));
            });
        self.host.store.sequencer().commit(batch).await?;
        let channel = Arc::clone(&self.session.uri);
        self.session.apply(&channel, &ready);
        self.session.is_listed = true;
        self.published_summary = Some(summary);
        Ok(())
    }

    /// Updates the chats' summaries in the session, and schedules the session's summary in the list.
    pub(super) async fn update_summaries(&mut self) {
        for action in self.session.chat_projections() {
            self.publish_session_action(action).await;
        }
        if self.session.is_listed {
            // A request for the list returns the current summary; only the notifications are delayed.
            self.host.catalog.upsert(&self.session.uri, &self.session.summary());
        }
        if self.session.is_stored && !self.summary_scheduled {
            self.summary_scheduled = true;
            self.tasks.spawn(async {
                tokio::time::sleep(SUMMARY_PUBLISH_DELAY).await;
                SessionInput::PublishSummary
            });
        }
    }

    /// Publishes a stream action on the session's own channel.
    pub(super) async fn publish_session_action(&mut self, action: StateAction) {
        let channel = Arc::clone(&self.session.uri);
        self.session.apply(&channel, &action);
        match ActionEntry::new(channel, action) {
            Ok(entry) => {
                let batch = self.new_batch(BatchDurability::Stream).entry(entry);
                self.submit(batch).await;
            }
            Err(error) => tracing::error!(%error, "failed to encode an action; skipped"),
        }
    }

    /// Sets a key below `hostler` in the session's `_meta`.
    pub(super) async fn publish_session_meta(&mut self, key: &str, value: Value) {
        let mut meta = self.session.session.meta.clone().unwrap_or_default();
        let mut hostler = meta.get(HOSTLER_META_KEY).and_then(Value::as_object).cloned().unwrap_or_default();
        hostler.insert(key.to_owned(), value);
        meta.insert(HOSTLER_META_KEY.to_owned(), hostler.into());
        self.publish_session_action(StateAction::SessionMetaChanged(SessionMetaChangedAction { meta: Some(meta) }))
            .await;
    }

    /// Updates the session's summary in memory and on disk, and publishes it to subscribers of the list.
    pub(super) async fn publish_summary(&mut self) {
        self.summary_scheduled = false;
        let summary = self.session.summary();
        let row = match build_catalog_put(&self.session.uri, self.session.is_listed, &summary) {
            Ok(row) => row,
            Err(error) => {
                tracing::error!(%error, "failed to update a session summary");
                return;
            }
        };
        let mut batch = self.new_batch(BatchDurability::Stream).catalog(row);
        if self.session.is_listed {
            let host = Arc::clone(&self.host);
            let session = Arc::clone(&self.session.uri);
            let previous = self.published_summary.replace(summary.clone());
            let changes = previous
                .map(|previous| summary_changes(&previous, &summary))
                .filter(|changes| *changes != Default::default());
            if changes.as_ref().is_some_and(|new| new.title.is_some() || new.working_directories.is_some()) {
                self.host.search_indexer.mark_changed(&self.session.uri);
            }
            batch = batch.after_publish(move |_| {
                if let Some(changes) = changes {
                    let changes = Box::new(changes);
                    host.broadcaster.notify(
                        uri::ROOT_CHANNEL_URI,
                        HostNotificationKind::SessionSummaryChanged { session, changes },
                    );
                }
            });
        }
        self.submit(batch).await;
    }

    /// Marks the session as unread after a turn.
    pub(super) async fn mark_unread(&mut self) {
        if self.session.session.status & SessionStatus::IsRead.bits() != 0 {
            self.publish_session_action(StateAction::SessionIsReadChanged(SessionIsReadChangedAction {
                is_read: false,
            }))
            .await;
        }
    }

    /// Stores a snapshot of the session, so that the journal before it can be removed.
    pub(super) async fn save_snapshot(&mut self) {
        match self.session.snapshot_row() {
            Ok(row) => {
                self.session.mark_turns_submitted();
                let batch = self.new_batch(BatchDurability::Stream).snapshot(row);
                self.submit(batch).await;
                self.host.search_indexer.mark_changed(&self.session.uri);
            }
            Err(error) => tracing::error!(%error, "failed to encode a session snapshot"),
        }
    }
}
