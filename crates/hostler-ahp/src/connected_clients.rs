//! Which clients are connected, and the way to ask each of them.
//!
//! What a client has is not the host's: everybody here has the same token, but not therefore the files of everybody else. A
//! client is asked for itself only.

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
    /// In the order of their arrival: the client's id, and the way to ask it.
    open: BTreeMap<u64, (String, HostRequests)>,
}

/// A connection among them until this is dropped.
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

    /// A client has connected.
    pub(crate) fn register(&self, client: &str, reverse: &HostRequests) -> ClientRegistration {
        let mut connections = self.lock();
        let number = connections.next_number;
        connections.next_number += 1;
        connections.open.insert(number, (client.to_owned(), reverse.clone()));
        ClientRegistration { clients: self.clone(), number }
    }

    /// The newest connection of the client that has something, for a client that wants it.
    ///
    /// # Errors
    /// The answer, if it is another client or not there.
    pub(crate) fn host_requests_to(&self, owner: &str, asking: &str) -> Result<HostRequests, RpcError> {
        let connections = self.lock();
        // Clients write the authorities of URIs in small letters.
        let itself = owner.eq_ignore_ascii_case(asking);
        let is_meant = |id: &str| if itself { id == asking } else { id.eq_ignore_ascii_case(owner) };
        match connections.open.values().rev().find(|(id, _)| is_meant(id)) {
            Some((_, reverse)) if itself => Ok(reverse.clone()),
            Some(_) => Err(RpcError::new(
                ahp_error_codes::PERMISSION_DENIED,
                "these are files of another client; only that client itself may use them",
            )),
            None => Err(RpcError::new(
                ahp_error_codes::NOT_FOUND,
                "the client that has these files is not connected; connect it and try again",
            )),
        }
    }
}
