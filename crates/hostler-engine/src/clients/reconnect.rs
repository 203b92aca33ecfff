//! Reconnecting clients: presence, missed envelopes and repeated dispatches.
//!
//! A client reports its last sequence number and its channels. Missed envelopes since the host's start come from the
//! broadcaster's replay buffer (64 MB); earlier ones come from the journal plus that buffer. If neither reaches back
//! far enough, or if the client saw numbers that never became durable, it gets snapshots. The sequencer chooses the
//! moment, so nothing is missed or duplicated.
//!
//! A repeated dispatch is answered by its first envelope, also after a restart. `reconnect` does not contain the
//! protocol version, so the surface stores client metadata, which engine and store do not interpret; without it the
//! client has to initialize.
//!
//! A client that is disconnected for 30 seconds (counted from the start after a restart), that returns without a
//! session it was active in, or that unsubscribes from it, is no longer an active client of that session.

use std::collections::HashSet;
use std::sync::Arc;

use hostler_store::{Batch, BatchDurability, JournalRow, PublishedAction, StoredClient};
use tokio::sync::oneshot;

use crate::clients::broadcaster::{Delivery, Subscriber};
use crate::clients::registry::JournaledDispatches;
use crate::clock::ClockExt as _;
use crate::host::Host;
use crate::sessions::actor::{SessionHandle, SessionInput};
use crate::sessions::session::Dispatch;
use crate::{EngineError, uri};

/// Maximum size of a replay, by the envelopes' size in memory: beyond it a snapshot is smaller, and fits into the
/// message limits of clients.
const MAX_REPLAY_BYTES: usize = 16 * 1024 * 1024;

/// How a reconnecting client catches up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReconnectOutcome {
    /// The missed envelopes are in its queue. If the replay turns out to be impossible, the queue contains a notice
    /// instead.
    Replay {
        /// The channels that it is subscribed to again.
        channels: Vec<String>,
        /// The channels that no longer exist.
        missing: Vec<String>,
    },
    /// It has to subscribe to these channels again.
    Snapshots {
        /// The channels that exist.
        channels: Vec<String>,
        /// The channels that no longer exist.
        missing: Vec<String>,
    },
}

/// A client's connection, until it is dropped. If it was the last one and the client does not reconnect in time, the
/// client leaves its sessions.
#[must_use = "a presence that is dropped is over"]
pub struct PresenceGuard {
    host: Arc<Host>,
    client: String,
}

impl Drop for PresenceGuard {
    fn drop(&mut self) {
        self.host.disconnect_client(&self.client);
    }
}

impl Host {
    /// Registers a new connection of a client.
    pub(crate) async fn connect_client(self: &Arc<Self>, client: &str, memo: &str) -> PresenceGuard {
        let seen_ms = self.clock.now_ms();
        self.publication.clients().connect(client, memo, seen_ms);
        let presence = PresenceGuard { host: Arc::clone(self), client: client.to_owned() };
        let row = StoredClient { id: client.to_owned(), client_metadata: memo.to_owned(), last_seen_ms: seen_ms };
        let batch = Batch::new(None, BatchDurability::Stream).client(row);
        if let Err(error) = self.publication.submit(batch).await {
            tracing::debug!(%error, "failed to publish a client's presence: the store has stopped");
        }
        presence
    }

    /// Handles the end of a client's connection. After the last one, the client leaves its sessions unless it
    /// reconnects in time.
    fn disconnect_client(self: &Arc<Self>, client: &str) {
        let left = self.publication.clients().disconnect(client, self.clock.now_ms(), self.clock.monotonic());
        if !left || self.tasks.is_stopping() {
            return;
        }
        let (host, client) = (Arc::clone(self), client.to_owned());
        self.tasks.spawn(async move {
            tokio::select! {
                () = host.clock.sleep(host.settings.client_absence_timeout) => {}
                () = host.tasks.stopped() => return,
            }
            if host.publication.clients().away_since(&client).is_some() {
                let handles: Vec<_> =
                    host.catalog.sessions().live_sessions().map(|(_, handle)| handle.clone()).collect();
                send_to_all(handles, || SessionInput::ClientReconnectTimeout(client.clone())).await;
            }
        });
    }

    /// Removes a client from the sessions that it did not list when it reconnected.
    async fn leave_unlisted_sessions(&self, client: &str, channels: &[String]) {
        // With another connection of the client open, the sessions may belong to that one.
        if !self.publication.clients().has_sessions_to_leave(client) {
            return;
        }
        let subscribed_sessions: HashSet<String> =
            channels.iter().filter_map(|channel| uri::session_of(channel)).collect();
        let live: Vec<_> = {
            let sessions = self.catalog.sessions();
            let others = sessions.live_sessions().filter(|(session, _)| !subscribed_sessions.contains(&***session));
            others.map(|(_, handle)| handle.clone()).collect()
        };
        send_to_all(live, || SessionInput::ClientLeft(client.to_owned())).await;
    }

    /// Removes a client that unsubscribed from a session, unless the client has another connection.
    pub(crate) async fn leave_session(&self, client: &str, session: &str) {
        let handle = self.catalog.sessions().live(session).cloned();
        if let Some(handle) = handle.filter(|_| self.publication.clients().has_at_most_one_connection(client)) {
            let _ = handle.send(SessionInput::ClientLeft(client.to_owned())).await;
        }
    }

    /// Reconnects a client: missed envelopes or snapshots arrive in the subscriber's queue.
    ///
    /// # Errors
    /// [`EngineError::ClientUnknown`] if no such client was connected recently.
    pub(crate) async fn reconnect(
        self: &Arc<Self>,
        client: &str,
        last_seen: u64,
        channels: &[String],
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<ReconnectOutcome, EngineError> {
        if !self.publication.clients().contains(client) {
            return Err(EngineError::ClientUnknown);
        }
        self.leave_unlisted_sessions(client, channels).await;
        subscriber.inherit_turn_windows(&self.publication.clients().turn_windows(client));
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        // One slow session delays the answer, but not the others.
        let exist = futures::future::join_all(channels.iter().map(|channel| self.channel_exists(channel))).await;
        for (channel, exists) in channels.iter().zip(exist) {
            let list = if exists { &mut there } else { &mut missing };
            if !list.contains(channel) {
                list.push(channel.clone());
            }
        }
        if let Some(earlier) = self.load_missed_envelopes(last_seen, &there).await? {
            let live = last_seen.max(self.store.sequence_at_start().base_seq);
            self.deliver_replay(&there, live, earlier, subscriber.clone(), token).await?;
            return Ok(ReconnectOutcome::Replay { channels: there, missing });
        }
        Ok(ReconnectOutcome::Snapshots { channels: there, missing })
    }

    async fn channel_exists(self: &Arc<Self>, channel: &str) -> bool {
        if channel == uri::ROOT_CHANNEL_URI || self.resources.has_watch(channel) || self.terminals.contains(channel) {
            return true;
        }
        let Some(session) = uri::session_of(channel) else { return false };
        let Some(handle) = self.load_session(&session).await else { return false };
        let (reply, answer) = oneshot::channel();
        handle.send(SessionInput::HasChannel(channel.to_owned(), reply)).await.is_ok() && answer.await.unwrap_or(false)
    }

    /// Loads the envelopes on some channels between a client's last number and the host's start; `None` if they are not
    /// known exactly and the client needs snapshots.
    async fn load_missed_envelopes(
        &self,
        last_seen: u64,
        channels: &[String],
    ) -> Result<Option<Vec<Arc<PublishedAction>>>, EngineError> {
        let life = self.store.sequence_at_start();
        if last_seen > self.publication.current_seq() {
            return Ok(None);
        }
        if last_seen >= life.base_seq {
            return Ok((last_seen >= self.publication.broadcaster.replay_floor(channels)).then(Vec::new));
        }
        // The client saw numbers that never became durable, or the replay buffer does not reach back to the host's
        // start.
        if last_seen > life.last_durable_seq || self.publication.broadcaster.replay_floor(channels) > life.base_seq {
            return Ok(None);
        }
        let missed = self.store.missed_actions(last_seen, life.base_seq, channels.to_vec()).await?;
        let Some(rows) = missed else { return Ok(None) };
        let mut missed = Vec::with_capacity(rows.len());
        for row in rows {
            let JournalRow::Action { seq, channel, json, origin } = row else { continue };
            let Ok(action) = serde_json::from_str(&json) else { return Ok(None) };
            missed.push(Arc::new(PublishedAction::from_journal(seq, channel.into(), action, json.into(), origin)));
        }
        Ok(Some(missed))
    }

    /// Subscribes to all channels and queues the missed envelopes, at one sequence number.
    async fn deliver_replay(
        self: &Arc<Self>,
        channels: &[String],
        after: u64,
        mut missed: Vec<Arc<PublishedAction>>,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let channels: HashSet<Arc<str>> = channels.iter().map(|channel| channel.as_str().into()).collect();
        let broadcaster = Arc::clone(&self.publication.broadcaster);
        let marker = Batch::new(None, BatchDurability::Memory).after_publish(move |_| {
            let missed = broadcaster.replay(after, &channels).map(|recent| {
                missed.extend(recent);
                missed
            });
            let missed = missed
                .filter(|missed| missed.iter().map(|item| item.memory_bytes()).sum::<usize>() <= MAX_REPLAY_BYTES);
            let whole = missed.is_some();
            if subscriber.deliver(Delivery::Replay { token, missed }) && whole {
                for channel in &channels {
                    broadcaster.subscribe(channel, &subscriber);
                }
            }
        });
        self.publication.submit(marker).await?;
        Ok(())
    }

    /// Answers a repeated dispatch with its first envelope, to the requesting connection only. Reads the journal if the
    /// first one may be from before a restart.
    pub(crate) async fn answer_duplicate_dispatch(&self, dispatch: &Dispatch) -> bool {
        self.answer_repeated_dispatch(dispatch) || self.answer_journaled_dispatch(dispatch).await
    }

    /// Does the same for a dispatch of this run, from memory.
    pub(crate) fn answer_repeated_dispatch(&self, dispatch: &Dispatch) -> bool {
        let found = self.publication.clients().find_answer(&dispatch.client_id, dispatch.client_seq);
        found.is_some_and(|original| answer_if_repeated(dispatch, original))
    }

    /// Does the same for a dispatch from before a restart, from the journal. Those are complete when the host starts, so
    /// this does not have to run in the channel's single writer.
    pub(crate) async fn answer_journaled_dispatch(&self, dispatch: &Dispatch) -> bool {
        let (client, seq) = (&dispatch.client_id, dispatch.client_seq);
        if self.publication.clients().find_answer(client, seq).is_some()
            || !self.is_possibly_journaled(client, seq).await
        {
            return false;
        }
        let Ok(Some(JournalRow::Action { seq, channel, json, origin })) =
            self.store.dispatched_action(client, seq).await
        else {
            return false;
        };
        let Ok(action) = serde_json::from_str(&json) else { return false };
        let original = PublishedAction::from_journal(seq, channel.into(), action, json.into(), origin);
        answer_if_repeated(dispatch, Arc::new(original))
    }

    /// Whether the client may have used this number before a restart. One read covers all later numbers, so that a
    /// reconnected client does not wait for the disk each time.
    async fn is_possibly_journaled(&self, client: &str, seq: i64) -> bool {
        match self.publication.clients().journaled_dispatches(client) {
            JournaledDispatches::None => false,
            JournaledDispatches::UpTo(last) => seq <= last,
            JournaledDispatches::Unknown => match self.store.last_dispatch_seq(client).await {
                Ok(last) => {
                    self.publication.clients().set_journaled_dispatches(
                        client,
                        last.map_or(JournaledDispatches::None, JournaledDispatches::UpTo),
                    );
                    last.is_some_and(|last| seq <= last)
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to look up a client's earlier dispatches");
                    true
                }
            },
        }
    }
}

/// Sends an input to several sessions. A session with a full mailbox does not delay the others.
async fn send_to_all(handles: Vec<SessionHandle>, input: impl Fn() -> SessionInput) {
    // A session that has ended has nothing to do.
    futures::future::join_all(handles.iter().map(|handle| handle.send(input()))).await;
}

/// Delivers the envelope that answered the first dispatch, if the other one repeats it.
fn answer_if_repeated(dispatch: &Dispatch, original: Arc<PublishedAction>) -> bool {
    // Some clients use one number for many dispatches: then only an equal action is a repetition.
    let same = *original.channel == *dispatch.channel
        && (dispatch.client_seq > 0 || *original.action == dispatch.action)
        && std::mem::discriminant(&*original.action) == std::mem::discriminant(&dispatch.action);
    if let Some(from) = dispatch.subscriber.as_ref().filter(|_| same) {
        from.deliver(Delivery::Envelope(original));
    }
    same
}
