//! The AHP surface: JSON-RPC framing, protocol versions, permission to dispatch, and the WebSocket listener.
//!
//! **Architecture Invariant:** nothing outside this crate knows JSON-RPC, protocol versions or method names; nothing in
//! this crate knows agents. This crate checks form and identity; the engine checks preconditions on state.

#![forbid(unsafe_code)]

mod access_policy;
mod browser_sessions;
mod client_files;
mod connected_clients;
mod connection;
mod connection_reader;
mod decode;
mod dispatch_queue;
mod encode;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod host_requests;
mod http_frontend;
mod log_channels;
mod memory_connection;
mod methods;
mod ordered_tasks;
mod protocol;
mod protocol_version;
mod resources;
mod rpc;
mod search;
mod server;
mod session_check;
mod tls;
mod trust;
mod ws;

pub use access_policy::{AccessPolicy, AccessRefusal};
pub use browser_sessions::BrowserSessions;
pub use connection::AhpConnectionLimits;
pub use http_frontend::HttpHandler;
pub use memory_connection::{MemoryConnection, connect_in_memory};
pub use protocol::protocol_reference;
pub use server::{Server, ServerConfig};
pub use tls::{TlsError, TlsIdentity};
pub use ws::SocketLimits;
