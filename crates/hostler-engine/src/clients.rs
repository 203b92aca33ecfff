//! Who was here: clients keep their identity across connections and restarts, and a dispatch that is repeated after a
//! lost echo is answered by its first envelope.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hostler_store::{Published, StoredClient};

use crate::hub::Views;

/// How many of a client's dispatches are remembered in memory; older ones are in the journal.
const REMEMBERED: usize = 256;

/// How many identities are held at once; beyond that, those without a connection go first, oldest first.
pub(crate) const MAX_CLIENTS: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Clients {
    known: Mutex<HashMap<String, Client>>,
    /// Since when, by the host's clock, clients can be here at all.
    began: Duration,
}

#[derive(Debug, Default)]
struct Client {
    connections: usize,
    /// Which of its dispatches the journal may hold from earlier lives of the host.
    earlier: Earlier,
    /// Whether it was ever an active client of a session, which it then has to leave.
    takes_part: bool,
    /// When its last connection of this life ended.
    left: Option<Duration>,
    seen_ms: i64,
    /// What its surface wants to know when it comes back.
    memo: String,
    dispatches: BTreeMap<i64, Arc<Published>>,
    /// What its last connection was sent.
    views: Views,
}

/// What the journal may hold of a client's dispatches in earlier lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// Nothing: the client is new.
    #[default]
    None,
    /// Nobody has looked yet.
    Unknown,
    /// Nothing with a number above this one.
    UpTo(i64),
}

impl Clients {
    pub(crate) fn new(began: Duration) -> Self {
        Self { known: Mutex::default(), began }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Client>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Identities of an earlier life.
    pub(crate) fn restore(&self, clients: Vec<StoredClient>) {
        let restored = |client: StoredClient| {
            let StoredClient { id, memo, seen_ms } = client;
            (id, Client { earlier: Earlier::Unknown, memo, seen_ms, ..Client::default() })
        };
        self.lock().extend(clients.into_iter().map(restored));
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// What the client's surface noted when it was here.
    pub(crate) fn memo(&self, id: &str) -> Option<String> {
        self.lock().get(id).map(|client| client.memo.clone())
    }

    /// A connection of this client begins.
    pub(crate) fn arrive(&self, id: &str, memo: &str, now_ms: i64) {
        let mut known = self.lock();
        if known.len() >= MAX_CLIENTS && !known.contains_key(id) {
            let oldest = known.iter().filter(|(_, client)| client.connections == 0).min_by_key(|(_, c)| c.seen_ms);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                known.remove(&oldest);
            }
        }
        let client = known.entry(id.to_owned()).or_default();
        client.connections += 1;
        client.seen_ms = now_ms;
        memo.clone_into(&mut client.memo);
    }

    /// What the client's last connection was sent.
    pub(crate) fn views(&self, id: &str) -> Views {
        self.lock().get(id).map(|client| client.views.clone()).unwrap_or_default()
    }

    /// A connection of the client that is sent things.
    pub(crate) fn shows(&self, id: &str, views: &Views) {
        if let Some(client) = self.lock().get_mut(id) {
            client.views = views.clone();
        }
    }

    /// The client is part of a session.
    pub(crate) fn take_part(&self, id: &str) {
        if let Some(client) = self.lock().get_mut(id) {
            client.takes_part = true;
        }
    }

    /// A connection of this client ended; tells whether it was the last of one that has sessions to leave.
    pub(crate) fn leave(&self, id: &str, now_ms: i64, at: Duration) -> bool {
        let mut known = self.lock();
        let Some(client) = known.get_mut(id) else { return false };
        client.connections = client.connections.saturating_sub(1);
        client.seen_ms = now_ms;
        client.left = Some(at);
        client.connections == 0 && client.takes_part
    }

    /// Since when the client has no connection; `None` if it has one. One that was not here in this life is away since
    /// its beginning.
    pub(crate) fn away_since(&self, id: &str) -> Option<Duration> {
        match self.lock().get(id) {
            Some(client) if client.connections > 0 => None,
            Some(client) => Some(client.left.unwrap_or(self.began)),
            None => Some(self.began),
        }
    }

    /// Whether the client has no connection, but sessions that it may have left.
    pub(crate) fn may_have_left(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|client| client.connections == 0 && client.takes_part)
    }

    /// Whether the client has no other connection than one.
    pub(crate) fn is_single(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|client| client.connections <= 1)
    }

    /// Which dispatches of this client the journal may hold that memory does not.
    pub(crate) fn earlier(&self, id: &str) -> Earlier {
        self.lock().get(id).map(|client| client.earlier).unwrap_or_default()
    }

    /// Somebody has looked.
    pub(crate) fn set_earlier(&self, id: &str, earlier: Earlier) {
        if let Some(client) = self.lock().get_mut(id) {
            client.earlier = earlier;
        }
    }

    /// Remembers the envelope that answered a dispatch.
    pub(crate) fn remember(&self, item: &Arc<Published>) {
        let Some(origin) = &item.origin else { return };
        let mut known = self.lock();
        let Some(client) = known.get_mut(&origin.client_id) else { return };
        client.dispatches.insert(origin.client_seq, Arc::clone(item));
        if client.dispatches.len() > REMEMBERED {
            client.dispatches.pop_first();
        }
    }

    /// The envelope that answered this dispatch, if it was answered.
    pub(crate) fn answered(&self, id: &str, client_seq: i64) -> Option<Arc<Published>> {
        self.lock().get(id)?.dispatches.get(&client_seq).cloned()
    }
}
