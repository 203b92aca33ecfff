//! Shared by the host's listeners: bounded sets of connections, and names in `Host` headers.
//!
//! Owns no socket and no task, and knows nothing of HTTP, bearers or tokens: the gateway and the AHP listener decide
//! what a connection may do, and this crate decides which connection is evicted when there are too many.

#![forbid(unsafe_code)]

mod evicting_set;
mod host_header;

pub use evicting_set::{EvictingSet, EvictingSetMember};
pub use host_header::{is_loopback_name, split_host_and_port};
