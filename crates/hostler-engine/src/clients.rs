//! Who was here: clients keep their identity across connections and restarts, and a dispatch that is repeated after a
//! lost echo is answered by its first envelope.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostler_store::Published;

/// How long an identity is kept.
pub(crate) const KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// How many of a client's dispatches are remembered in memory; older ones are in the journal.
const REMEMBERED: usize = 256;

/// How many identities are held at once; beyond that, those without a connection go first, oldest first.
const MAX_CLIENTS: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Clients {
    known: Mutex<HashMap<String, Client>>,
}

#[derive(Debug, Default)]
struct Client {
    connections: usize,
    /// Whether an earlier life of the host knew it, so that the journal may hold its dispatches.
    returning: bool,
    /// Whether it was ever an active client of a session, which it then has to leave.
    takes_part: bool,
    seen_ms: i64,
    dispatches: BTreeMap<i64, Arc<Published>>,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Client>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Identities of an earlier life.
    pub(crate) fn restore(&self, ids: Vec<String>) {
        let mut known = self.lock();
        for id in ids {
            known.entry(id).or_default().returning = true;
        }
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// A connection of this client begins.
    pub(crate) fn arrive(&self, id: &str, now_ms: i64) {
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
    }

    /// The client is part of a session.
    pub(crate) fn take_part(&self, id: &str) {
        if let Some(client) = self.lock().get_mut(id) {
            client.takes_part = true;
        }
    }

    /// A connection of this client ended; tells whether it was the last of one that has sessions to leave.
    pub(crate) fn leave(&self, id: &str, now_ms: i64) -> bool {
        let mut known = self.lock();
        let Some(client) = known.get_mut(id) else { return false };
        client.connections = client.connections.saturating_sub(1);
        client.seen_ms = now_ms;
        client.connections == 0 && client.takes_part
    }

    /// Whether the client has a connection now.
    pub(crate) fn is_connected(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|client| client.connections > 0)
    }

    /// Whether the journal may hold dispatches of this client that memory does not.
    pub(crate) fn is_returning(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|client| client.returning)
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
