//! The AHP surface: JSON-RPC framing, protocol versions, who may dispatch what, and the WebSocket listener.
//!
//! **Architecture Invariant:** nothing outside this crate knows JSON-RPC, protocol versions or method names; nothing in
//! this crate knows agents. State preconditions are the engine's business, form and identity are checked here.

#![forbid(unsafe_code)]

mod checkup;
mod clients;
mod connection;
mod decode;
mod edge;
mod encode;
mod exchange;
mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod lane;
mod logs;
mod memory;
mod methods;
mod pass;
mod protocol;
mod reader;
mod resources;
mod reverse;
mod rpc;
mod search;
mod server;
mod tls;
mod trust;
mod version;
mod ws;

pub use connection::ConnectionLimits;
pub use edge::{AccessPolicy, Refusal};
pub use exchange::Pages;
pub use memory::{MemoryConnection, connect_in_memory};
pub use pass::Passes;
pub use protocol::reference;
pub use server::{Server, ServerConfig};
pub use tls::{Tls, TlsError};
pub use ws::SocketLimits;
