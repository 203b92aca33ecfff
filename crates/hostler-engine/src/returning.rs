//! Clients that come back: presence, what they missed, and dispatches that they repeat.

use std::collections::HashSet;
use std::sync::Arc;

use hostler_store::{Batch, Durability, JournalRow, Published, StoredClient};
use tokio::sync::oneshot;

use crate::actor::Input;
use crate::clients::Earlier;
use crate::clock::ClockExt as _;
use crate::host::Host;
use crate::hub::{Delivery, Subscriber};
use crate::session::Dispatch;
use crate::{EngineError, uri};

/// How much a replay may hold, by the envelopes' size in memory: beyond that a snapshot is smaller, and fits into the
/// message limits that clients have.
const MAX_REPLAY: usize = 16 * 1024 * 1024;

/// How a client that came back is made whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconnected {
    /// What it missed is in its queue. If that turns out to reach back too far, it is told so there.
    Replay {
        /// The channels that it hears again.
        channels: Vec<String>,
        /// The channels that are gone.
        missing: Vec<String>,
    },
    /// It has to subscribe to these channels anew.
    Snapshots {
        /// The channels that are there.
        channels: Vec<String>,
        /// The channels that are gone.
        missing: Vec<String>,
    },
}

/// A connection of a client, for as long as it lasts. If it was the last one and none follows, the client leaves its
/// sessions.
#[must_use = "a presence that is dropped is over"]
pub struct Presence {
    host: Arc<Host>,
    client: String,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.host.client_left(&self.client);
    }
}

impl Host {
    /// A connection of a client begins.
    pub(crate) async fn client_arrived(self: &Arc<Self>, client: &str, memo: &str) -> Presence {
        let seen_ms = self.clock.now_ms();
        self.hub.clients.arrive(client, memo, seen_ms);
        let presence = Presence { host: Arc::clone(self), client: client.to_owned() };
        let row = StoredClient { id: client.to_owned(), memo: memo.to_owned(), seen_ms };
        let batch = Batch::new(None, Durability::Stream).client(row);
        if let Err(error) = self.store.sequencer().submit(batch).await {
            tracing::debug!(%error, "a client came too late");
        }
        presence
    }

    /// A connection of a client ended. If it was the last one and none follows, the client leaves its sessions.
    fn client_left(self: &Arc<Self>, client: &str) {
        let left = self.hub.clients.leave(client, self.clock.now_ms(), self.clock.monotonic());
        if !left || self.stop.is_cancelled() {
            return;
        }
        let (host, client) = (Arc::clone(self), client.to_owned());
        self.tasks.spawn(async move {
            tokio::select! {
                () = host.clock.sleep(host.absence) => {}
                () = host.stop.cancelled() => return,
            }
            if host.hub.clients.away_since(&client).is_some() {
                let handles: Vec<_> = host.sessions().live.values().cloned().collect();
                for handle in handles {
                    let _ = handle.send(Input::ClientDue(client.clone())).await;
                }
            }
        });
    }

    /// A client came back without some of the sessions that it was part of: it has left those.
    async fn leave_others(&self, client: &str, channels: &[String]) {
        // As long as another connection of the client is there, it may be that one's.
        if !self.hub.clients.may_have_left(client) {
            return;
        }
        let kept: HashSet<String> = channels.iter().filter_map(|channel| uri::session_of(channel)).collect();
        let live: Vec<_> = {
            let sessions = self.sessions();
            let others = sessions.live.iter().filter(|(session, _)| !kept.contains(&***session));
            others.map(|(_, handle)| handle.clone()).collect()
        };
        for handle in live {
            let _ = handle.send(Input::ClientGone(client.to_owned())).await;
        }
    }

    /// A client no longer hears a session: it has left it, unless another connection of its is there.
    pub(crate) async fn leave_session(&self, client: &str, session: &str) {
        let handle = self.sessions().live.get(session).cloned();
        if let Some(handle) = handle.filter(|_| self.hub.clients.is_single(client)) {
            let _ = handle.send(Input::ClientGone(client.to_owned())).await;
        }
    }

    /// Takes a client up again where it left: what it missed, or snapshots, arrives in the subscriber's queue.
    ///
    /// # Errors
    /// [`EngineError::ClientUnknown`] if nobody of that name was here lately.
    pub(crate) async fn reconnect(
        self: &Arc<Self>,
        client: &str,
        last_seen: u64,
        channels: &[String],
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<Reconnected, EngineError> {
        if !self.hub.clients.knows(client) {
            return Err(EngineError::ClientUnknown);
        }
        self.leave_others(client, channels).await;
        subscriber.takes_over(&self.hub.clients.views(client));
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for channel in channels {
            let list = if self.exists(channel).await { &mut there } else { &mut missing };
            if !list.contains(channel) {
                list.push(channel.clone());
            }
        }
        if let Some(earlier) = self.missed_before(last_seen, &there).await? {
            let live = last_seen.max(self.store.life().before);
            self.deliver_replay(&there, live, earlier, subscriber.clone(), token).await?;
            return Ok(Reconnected::Replay { channels: there, missing });
        }
        Ok(Reconnected::Snapshots { channels: there, missing })
    }

    async fn exists(self: &Arc<Self>, channel: &str) -> bool {
        if channel == uri::ROOT || self.shelf.watches.knows(channel) || self.terminals.knows(channel) {
            return true;
        }
        let Some(session) = uri::session_of(channel) else { return false };
        let Some(handle) = self.waken(&session).await else { return false };
        let (reply, answer) = oneshot::channel();
        handle.send(Input::Exists(channel.to_owned(), reply)).await.is_ok() && answer.await.unwrap_or(false)
    }

    /// What happened on some channels between a client's last number and this life; `None` if that is not known exactly
    /// and the client needs snapshots.
    async fn missed_before(
        &self,
        last_seen: u64,
        channels: &[String],
    ) -> Result<Option<Vec<Arc<Published>>>, EngineError> {
        let life = self.store.life();
        if last_seen > self.store.sequencer().current() {
            return Ok(None);
        }
        if last_seen >= life.before {
            return Ok((last_seen >= self.hub.past_from(channels)).then(Vec::new));
        }
        // The client saw numbers that never became durable, or this life alone is more than is held.
        if last_seen > life.last_durable || self.hub.past_from(channels) > life.before {
            return Ok(None);
        }
        let missed = self.store.missed(last_seen, life.before, channels.to_vec()).await?;
        let Some(rows) = missed else { return Ok(None) };
        let mut missed = Vec::with_capacity(rows.len());
        for row in rows {
            let JournalRow::Action { seq, channel, json, origin } = row else { continue };
            let Ok(action) = serde_json::from_str(&json) else { return Ok(None) };
            missed.push(Arc::new(Published::stored(seq, channel.into(), action, json.into(), origin)));
        }
        Ok(Some(missed))
    }

    /// Subscribes to all channels and puts what was missed into the queue, at one number.
    async fn deliver_replay(
        self: &Arc<Self>,
        channels: &[String],
        after: u64,
        mut missed: Vec<Arc<Published>>,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let channels: HashSet<Arc<str>> = channels.iter().map(|channel| channel.as_str().into()).collect();
        let host = Arc::clone(self);
        let marker = Batch::new(None, Durability::Memory).then(move |_| {
            let missed = host.hub.replay(after, &channels).map(|recent| {
                missed.extend(recent);
                missed
            });
            let missed = missed.filter(|missed| missed.iter().map(|item| item.size()).sum::<usize>() <= MAX_REPLAY);
            let whole = missed.is_some();
            if subscriber.deliver(Delivery::Replay { token, missed }) && whole {
                for channel in &channels {
                    host.hub.subscribe(channel, &subscriber);
                }
            }
        });
        self.store.sequencer().submit(marker).await?;
        Ok(())
    }

    /// Answers a dispatch that was answered before with its first envelope, to the asking connection only.
    pub(crate) async fn answer_repetition(&self, dispatch: &Dispatch) -> bool {
        let Some(original) = self.first_answer(dispatch).await else { return false };
        if let Some(from) = &dispatch.from {
            from.deliver(Delivery::Envelope(original));
        }
        true
    }

    async fn first_answer(&self, dispatch: &Dispatch) -> Option<Arc<Published>> {
        let (client, seq) = (&dispatch.client_id, dispatch.client_seq);
        let found = match self.hub.clients.answered(client, seq) {
            Some(found) => found,
            None if self.may_be_in_journal(client, seq).await => {
                let row = self.store.dispatched(client, seq).await.ok()??;
                let JournalRow::Action { seq, channel, json, origin } = row else { return None };
                let action = serde_json::from_str(&json).ok()?;
                Arc::new(Published::stored(seq, channel.into(), action, json.into(), origin))
            }
            None => return None,
        };
        // Some clients use one number for many dispatches: then only the same wish is a repetition.
        let same = *found.channel == *dispatch.channel && (seq > 0 || *found.action == dispatch.action);
        let same_kind = std::mem::discriminant(&*found.action) == std::mem::discriminant(&dispatch.action);
        (same && same_kind).then_some(found)
    }

    /// Whether the client may have used this number in an earlier life. One look tells for all numbers that follow, so
    /// that a client which came back does not wait for the disk each time.
    async fn may_be_in_journal(&self, client: &str, seq: i64) -> bool {
        match self.hub.clients.earlier(client) {
            Earlier::None => false,
            Earlier::UpTo(last) => seq <= last,
            Earlier::Unknown => match self.store.last_dispatch(client).await {
                Ok(last) => {
                    self.hub.clients.set_earlier(client, last.map_or(Earlier::None, Earlier::UpTo));
                    last.is_some_and(|last| seq <= last)
                }
                Err(error) => {
                    tracing::warn!(%error, "a client's earlier dispatches could not be looked up");
                    true
                }
            },
        }
    }
}
