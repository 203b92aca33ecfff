//! Who was here: clients keep their identity across connections and restarts, and a dispatch that is repeated after a
//! lost echo is answered by its first envelope.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hostler_store::{PublishedAction, StoredClient};

use crate::broadcaster::TurnWindows;

/// How many of a client's dispatches are remembered in memory; older ones are in the journal.
const MAX_REMEMBERED_DISPATCHES: usize = 256;

/// How many identities are held at once; beyond that, those without a connection go first, oldest first.
pub(crate) const MAX_CLIENTS: usize = 10_000;

#[derive(Debug)]
pub(crate) struct ClientRegistry {
    clients: Mutex<HashMap<String, ClientEntry>>,
    /// Since when, by the host's clock, clients can be here at all.
    host_started_at: Duration,
}

#[derive(Debug, Default)]
struct ClientEntry {
    connections: usize,
    /// Which of its dispatches the journal may hold from earlier lives of the host.
    journaled_dispatches: JournaledDispatches,
    /// Whether it was ever an active client of a session, which it then has to leave.
    is_participant: bool,
    /// When its last connection of this life ended.
    disconnected_at: Option<Duration>,
    last_seen_ms: i64,
    /// What its surface wants to know when it comes back.
    client_metadata: String,
    answered_dispatches: BTreeMap<i64, Arc<PublishedAction>>,
    /// What its last connection was sent.
    turn_windows: TurnWindows,
}

/// What the journal may hold of a client's dispatches in earlier lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum JournaledDispatches {
    /// Nothing: the client is new.
    #[default]
    None,
    /// Nobody has looked yet.
    Unknown,
    /// Nothing with a number above this one.
    UpTo(i64),
}

impl ClientRegistry {
    pub(crate) fn new(host_started_at: Duration) -> Self {
        Self { clients: Mutex::default(), host_started_at }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ClientEntry>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Identities of an earlier life.
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

    /// What the client's surface noted when it was here.
    pub(crate) fn client_metadata(&self, id: &str) -> Option<String> {
        self.lock().get(id).map(|client| client.client_metadata.clone())
    }

    /// A connection of this client begins.
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

    /// What the client's last connection was sent.
    pub(crate) fn turn_windows(&self, id: &str) -> TurnWindows {
        self.lock().get(id).map(|client| client.turn_windows.clone()).unwrap_or_default()
    }

    /// A connection of the client that is sent things.
    pub(crate) fn attach(&self, id: &str, views: &TurnWindows) {
        if let Some(client) = self.lock().get_mut(id) {
            client.turn_windows = views.clone();
        }
    }

    /// The client is part of a session.
    pub(crate) fn mark_participant(&self, id: &str) {
        if let Some(client) = self.lock().get_mut(id) {
            client.is_participant = true;
        }
    }

    /// A connection of this client ended; tells whether it was the last of one that has sessions to leave.
    pub(crate) fn disconnect(&self, id: &str, now_ms: i64, at: Duration) -> bool {
        let mut known = self.lock();
        let Some(client) = known.get_mut(id) else { return false };
        client.connections = client.connections.saturating_sub(1);
        client.last_seen_ms = now_ms;
        client.disconnected_at = Some(at);
        client.connections == 0 && client.is_participant
    }

    /// Since when the client has no connection; `None` if it has one. One that was not here in this life is away since
    /// its beginning.
    pub(crate) fn away_since(&self, id: &str) -> Option<Duration> {
        match self.lock().get(id) {
            Some(client) if client.connections > 0 => None,
            Some(client) => Some(client.disconnected_at.unwrap_or(self.host_started_at)),
            None => Some(self.host_started_at),
        }
    }

    /// Whether the client has no connection, but sessions that it may have left.
    pub(crate) fn has_sessions_to_leave(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|client| client.connections == 0 && client.is_participant)
    }

    /// Whether the client has no other connection than one.
    pub(crate) fn has_at_most_one_connection(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|client| client.connections <= 1)
    }

    /// Which dispatches of this client the journal may hold that memory does not.
    pub(crate) fn journaled_dispatches(&self, id: &str) -> JournaledDispatches {
        self.lock().get(id).map(|client| client.journaled_dispatches).unwrap_or_default()
    }

    /// Somebody has looked.
    pub(crate) fn set_journaled_dispatches(&self, id: &str, earlier: JournaledDispatches) {
        if let Some(client) = self.lock().get_mut(id) {
            client.journaled_dispatches = earlier;
        }
    }

    /// Remembers the envelope that answered a dispatch.
    pub(crate) fn remember_answer(&self, item: &Arc<PublishedAction>) {
        let Some(origin) = &item.origin else { return };
        let mut known = self.lock();
        let Some(client) = known.get_mut(&origin.client_id) else { return };
        client.answered_dispatches.insert(origin.client_seq, Arc::clone(item));
        if client.answered_dispatches.len() > MAX_REMEMBERED_DISPATCHES {
            client.answered_dispatches.pop_first();
        }
    }

    /// The envelope that answered this dispatch, if it was answered.
    pub(crate) fn find_answer(&self, id: &str, client_seq: i64) -> Option<Arc<PublishedAction>> {
        self.lock().get(id)?.answered_dispatches.get(&client_seq).cloned()
    }
}
