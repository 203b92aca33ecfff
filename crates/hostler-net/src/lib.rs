//! What the listeners of the host share: bounded sets of connections, and names in `Host` headers.
//!
//! Owns no socket and no task, and knows nothing of HTTP, bearers or tokens: the gateway and the AHP listener decide what a
//! connection may do, and this crate decides which connection makes room when there are too many.

#![forbid(unsafe_code)]

mod evicting;
mod host;

pub use evicting::{EvictingSet, Member};
pub use host::{host_and_port, is_loopback_name};
