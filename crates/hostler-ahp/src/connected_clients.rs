//! Registry of connected clients and the way to send requests to each of them.
//!
//! A client's files are its own: all clients may hold the same token, so the token does not give access to another
//! client's files. A request for a client's files is accepted from that client only and goes to its newest connection;
//! it never reaches the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahp_types::errors::ahp_error_codes;

use crate::host_requests::HostRequests;
use crate::rpc::RpcError;

/// The connections of all clients. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ConnectedClients(Arc<Mutex<ClientConnections>>);

#[derive(Default)]
struct ClientConnections {
    next_number: u64,
    /// Client id and request handle, in the order of connection.
    open: BTreeMap<u64, (String, HostRequests)>,
}

/// Registration of a connection, until it is dropped.
pub(crate) struct ClientRegistration {
    clients: ConnectedClients,
    number: u64,
}

impl Drop for ClientRegistration {
    fn drop(&mut self) {
        self.clients.lock().open.remove(&self.number);
    }
}

impl ConnectedClients {
    fn lock(&self) -> MutexGuard<'_, ClientConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection of a client.
    pub(crate) fn register(&self, client: &str, host_requests: &HostRequests) -> ClientRegistration {
        let mut connections = self.lock();
        let number = connections.next_number;
        connections.next_number += 1;
        connections.open.insert(number, (client.to_owned(), host_requests.clone()));
        ClientRegistration { clients: self.clone(), number }
    }

    /// The newest connection of the client that owns a file, for the client that requests it.
    ///
    /// # Errors
    /// The answer, if the owner is another client or not connected.
    pub(crate) fn host_requests_to(&self, owner: &str, asking: &str) -> Result<HostRequests, RpcError> {
        let connections = self.lock();
        // Clients write URI authorities in lowercase.
        let is_owner = owner.eq_ignore_ascii_case(asking);
        let matches_owner = |id: &str| if is_owner { id == asking } else { id.eq_ignore_ascii_case(owner) };
        match connections.open.values().rev().find(|(id, _)| matches_owner(id)) {
            Some((_, host_requests)) if is_owner => Ok(host_requests.clone()),
            Some(_) => Err(RpcError::new(
                ahp_error_codes::PERMISSION_DENIED,
                "these files belong to another client; only that client can use them",
            )),
            None => Err(RpcError::new(
                ahp_error_codes::NOT_FOUND,
                "the client that owns these files is not connected; connect it and try again",
            )),
        }
    }
}
