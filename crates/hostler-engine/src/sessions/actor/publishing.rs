//! Publishes the session's summary in the list, its chats' summaries, its budget and its git branch, and saves snapshots.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::{
    SessionConfigChangedAction, SessionIsReadChangedAction, SessionMetaChangedAction, SessionReadyAction,
};
use ahp_types::common::JsonObject;
use ahp_types::notifications::PartialSessionSummary;
use ahp_types::state::{SessionStatus, SessionSummary};
use hostler_store::{ActionEntry, BatchDurability, StoreError};
use serde_json::Value;

use super::SessionInput;
use super::context::{SessionContext, build_catalog_put};
use crate::catalog::summary_changes;
use crate::clients::broadcaster::HostNotificationKind;
use crate::resources::git;
use crate::sessions::budget::SessionBudgetLimits;
use crate::sessions::config;
use crate::sessions::session::HOSTLER_META_KEY;

/// How long changes of the session summary are collected.
const SUMMARY_PUBLISH_DELAY: Duration = Duration::from_millis(100);

/// The session summary as clients know it.
#[derive(Debug, Default)]
pub(super) struct SummaryPublisher {
    /// Whether a publication is scheduled.
    pub(super) is_scheduled: bool,
    pub(super) published: Option<SessionSummary>,
}

impl SummaryPublisher {
    /// What has changed since the last publication; this one counts as published.
    fn changes(&mut self, summary: SessionSummary) -> Option<PartialSessionSummary> {
        let changes = self.published.as_ref().map(|published| summary_changes(published, &summary));
        self.published = Some(summary);
        changes.filter(|changes| *changes != PartialSessionSummary::default())
    }
}

impl SessionContext {
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
                host.publication.notify(HostNotificationKind::SessionAdded(Box::new(added)));
            });
        self.host.publication.commit(batch).await?;
        let channel = Arc::clone(&self.session.uri);
        self.session.apply(&channel, &ready);
        self.session.is_listed = true;
        self.summary.published = Some(summary);
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
        if self.session.is_stored && !std::mem::replace(&mut self.summary.is_scheduled, true) {
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
        match value {
            Value::Null => drop(hostler.remove(key)),
            value => drop(hostler.insert(key.to_owned(), value)),
        }
        meta.insert(HOSTLER_META_KEY.to_owned(), hostler.into());
        self.publish_session_action(StateAction::SessionMetaChanged(SessionMetaChangedAction { meta: Some(meta) }))
            .await;
    }

    /// Updates the session's summary in memory and on disk, and publishes it to subscribers of the list.
    pub(super) async fn publish_summary(&mut self) {
        self.summary.is_scheduled = false;
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
            let changes = self.summary.changes(summary);
            if changes.as_ref().is_some_and(|new| new.title.is_some() || new.working_directories.is_some()) {
                self.host.catalog.mark_changed(&self.session.uri);
            }
            batch = batch.after_publish(move |_| {
                if let Some(changes) = changes {
                    let changes = Box::new(changes);
                    host.publication.notify(HostNotificationKind::SessionSummaryChanged { session, changes });
                }
            });
        }
        self.submit(batch).await;
    }

    // ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────

    /// Passes the limits of the session's configuration to the gateway.
    pub(super) fn apply_session_limits(&self) {
        self.host.agents.gateway().set_session_limits(&self.session.uri, self.configured_limits());
    }

    pub(super) fn configured_limits(&self) -> SessionBudgetLimits {
        self.session.session.config.as_ref().map(|config| config::session_limits(&config.values)).unwrap_or_default()
    }

    // ── Git branch ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Runs git off the actor, if the directory may be read: when the session is created or loaded, and after each turn.
    pub(super) fn read_git_branch(&mut self) {
        let shown = self.session.session.config.as_ref().map(|config| &config.schema.properties);
        let Some(directory) = self.session.working_directory() else { return };
        if !shown.is_some_and(|properties| properties.contains_key(config::BRANCH)) || !git::is_repository(&directory) {
            return;
        }
        let (commands, clock) = (self.host.terminals.command_runner().clone(), self.host.clock.clone());
        self.tasks.spawn(async move {
            SessionInput::GitBranchRead(git::current_branch(&*commands, &*clock, &directory).await)
        });
    }

    /// Publishes the branch; a detached head has none.
    pub(super) async fn publish_git_branch(&mut self, branch: Option<String>) {
        let branch = branch.map_or(Value::Null, Value::from);
        let now = self.session.session.config.as_ref().and_then(|config| config.values.get(config::BRANCH));
        if *now.unwrap_or(&Value::Null) == branch {
            return;
        }
        let config = JsonObject::from_iter([(config::BRANCH.to_owned(), branch)]);
        let change = SessionConfigChangedAction { config, replace: None };
        self.publish_session_action(StateAction::SessionConfigChanged(change)).await;
    }

    // ── Snapshots ─────────────────────────────────────────────────────────────────────────────────────────────────

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
                self.host.catalog.mark_changed(&self.session.uri);
            }
            Err(error) => tracing::error!(%error, "failed to encode a session snapshot"),
        }
    }
}
