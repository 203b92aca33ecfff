//! The registry of clients: their ids survive connections and restarts, and a dispatch that is repeated after a lost
//! echo is answered by its first envelope.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hostler_store::{PublishedAction, StoredClient};

use crate::clients::broadcaster::TurnWindows;

/// Maximum number of a client's answered dispatches in memory; older ones are in the journal.
const MAX_REMEMBERED_DISPATCHES: usize = 256;

/// Maximum number of clients; beyond it, disconnected ones are removed, oldest first.
pub(crate) const MAX_CLIENTS: usize = 10_000;

#[derive(Debug)]
pub(crate) struct ClientRegistry {
    clients: Mutex<HashMap<String, ClientEntry>>,
    /// The start of the host, by the host's clock.
    host_started_at: Duration,
}

#[derive(Debug, Default)]
struct ClientEntry {
    connections: usize,
    /// Which of its dispatches the journal may contain from before a restart.
    journaled_dispatches: JournaledDispatches,
    /// Whether it was ever an active client of a session, which it has to leave after an absence.
    is_participant: bool,
    /// When its last connection since the start ended.
    disconnected_at: Option<Duration>,
    last_seen_ms: i64,
    /// Metadata that its surface needs when it reconnects.
    client_metadata: String,
    answered_dispatches: BTreeMap<i64, Arc<PublishedAction>>,
    /// The turn windows of its last connection.
    turn_windows: TurnWindows,
}

/// Which dispatches of a client the journal may contain from before a restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum JournaledDispatches {
    /// None: the client is new.
    #[default]
    None,
    /// The journal has not been read yet.
    Unknown,
    /// None with a client sequence number above this one.
    UpTo(i64),
}

impl ClientRegistry {
    pub(crate) fn new(host_started_at: Duration) -> Self {
        Self { clients: Mutex::default(), host_started_at }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ClientEntry>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores clients from before a restart.
    pub(crate) fn restore(&self, clients: Vec<StoredClient>) {
        let restored = |client: StoredClient| {
            let StoredClient { id, client_metadata: memo, last_seen_ms: seen_ms } = client;
            (
                id,
                ClientEntry {
                    journaled_dispatches: JournaledDispatches::Unknown,
                    client_metadata: memo,
                    last_seen_ms: seen_ms,
                    ..ClientEntry::default()
                },
            )
        };
        self.lock().extend(clients.into_iter().map(restored));
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// The metadata that the client's surface stored.
    pub(crate) fn client_metadata(&self, id: &str) -> Option<String> {
        self.lock().get(id).map(|client| client.client_metadata.clone())
    }

    /// Registers a connection of the client.
    pub(crate) fn connect(&self, id: &str, memo: &str, now_ms: i64) {
        let mut known = self.lock();
        if known.len() >= MAX_CLIENTS && !known.contains_key(id) {
            let oldest = known.iter().filter(|(_, client)| client.connections == 0).min_by_key(|(_, c)| c.last_seen_ms);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                known.remove(&oldest);
            }
        }
        let client = known.entry(id.to_owned()).or_default();
        client.connections += 1;
        client.last_seen_ms = now_ms;
        memo.clone_into(&mut client.client_metadata);
    }

    /// The turn windows of the client's last connection.
    pub(crate) fn turn_windows(&self, id: &str) -> TurnWindows {
        self.lock().get(id).map(|client| client.turn_windows.clone()).unwrap_or_default()
    }

    /// Associates the turn windows of a connection with the client.
    pub(crate) fn attach(&self, id: &str, views: &TurnWindows) {
        if let Some(client) = self.lock().get_mut(id) {
            client.turn_windows = views.clone();
        }
    }

    /// Records that the client is active in a session.
    pub(crate) fn mark_participant(&self, id: &str) {
        if let Some(client) = self.lock().get_mut(id) {
            client.is_participant = true;
        }
    }

    /// Unregisters a connection of the client; returns whether it was the last one of a client with sessions to leave.
    pub(crate) fn disconnect(&self, id: &str, now_ms: i64, at: Duration) -> bool {
        let mut known = self.lock();
        let Some(client) = known.get_mut(id) else { return false };
        client.connections = client.connections.saturating_sub(1);
        client.last_seen_ms = now_ms;
        client.disconnected_at = Some(at);
        client.connections == 0 && client.is_participant
    }

    /// Since when the client has no connection; `None` if it has one. A client that has not connected since the host's
    /// start is absent since that start.
    pub(crate) fn away_since(&self, id: &str) -> Option<Duration> {
        match self.lock().get(id) {
            Some(client) if client.connections > 0 => None,
            Some(client) => Some(client.disconnected_at.unwrap_or(self.host_started_at)),
            None => Some(self.host_started_at),
        }
    }

    /// Whether the client is disconnected and may have sessions to leave.
    pub(crate) fn has_sessions_to_leave(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|client| client.connections == 0 && client.is_participant)
    }

    /// Whether the client has at most one connection.
    pub(crate) fn has_at_most_one_connection(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|client| client.connections <= 1)
    }

    /// Which dispatches of this client may be in the journal but not in memory.
    pub(crate) fn journaled_dispatches(&self, id: &str) -> JournaledDispatches {
        self.lock().get(id).map(|client| client.journaled_dispatches).unwrap_or_default()
    }

    /// Records the result of reading the journal.
    pub(crate) fn set_journaled_dispatches(&self, id: &str, earlier: JournaledDispatches) {
        if let Some(client) = self.lock().get_mut(id) {
            client.journaled_dispatches = earlier;
        }
    }

    /// Stores the envelope that answered a dispatch.
    pub(crate) fn remember_answer(&self, item: &Arc<PublishedAction>) {
        let Some(origin) = &item.origin else { return };
        let mut known = self.lock();
        let Some(client) = known.get_mut(&origin.client_id) else { return };
        client.answered_dispatches.insert(origin.client_seq, Arc::clone(item));
        if client.answered_dispatches.len() > MAX_REMEMBERED_DISPATCHES {
            client.answered_dispatches.pop_first();
        }
    }

    /// The envelope that answered this dispatch, if there is one.
    pub(crate) fn find_answer(&self, id: &str, client_seq: i64) -> Option<Arc<PublishedAction>> {
        self.lock().get(id)?.answered_dispatches.get(&client_seq).cloned()
    }
}
