//! The host's own log for whoever listens: what its parts say by `tracing`, as OTLP/JSON.
//!
//! A [`LogTap`] is a layer of the log that costs nothing while nobody listens. Each listener has a level and a bounded
//! queue; what does not fit is counted and left out, so that neither the host nor a connection ever waits for it.
//!
//! **Architecture Invariant:** only what our own crates say is passed on: libraries for sockets and HTTP log the bytes that
//! pass through them. It knows nothing of clients, and whoever passes records on must not log while doing so.

#![forbid(unsafe_code)]

mod log_record;
mod log_tap;
mod otlp;

pub use log_record::{FieldValue, LogLevel, LogRecord};
pub use log_tap::{LogBatch, LogListener, LogTap};
pub use otlp::build_export_request;
