//! Messages with attachments over the wire: their order, what the host asks the client for, and what it keeps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

#[path = "attachments/client_files.rs"]
mod client_files;
#[path = "attachments/dispatch_queue.rs"]
mod dispatch_queue;
#[path = "attachments/fixture.rs"]
mod fixture;
