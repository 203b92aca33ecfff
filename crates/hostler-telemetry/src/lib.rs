//! The host's own log for listeners: `tracing` events as OTLP/JSON.
//!
//! A [`LogTap`] is a `tracing` layer that costs nothing without listeners. Each listener has a level and a bounded
//! queue; records that do not fit are counted and dropped, so that neither the host nor a connection ever waits for it.
//!
//! **Architecture Invariant:** only events of Hostler's own crates are passed on: libraries for sockets and HTTP log
//! the bytes that pass through them. This crate knows nothing of clients, and code that forwards records must not log
//! while doing so.

#![forbid(unsafe_code)]

mod log_record;
mod log_tap;
mod otlp;

pub use log_record::{FieldValue, LogLevel, LogRecord};
pub use log_tap::{LogBatch, LogListener, LogTap};
pub use otlp::build_export_request;
