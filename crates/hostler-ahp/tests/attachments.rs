//! Messages with attachments over the wire: their order, the host's requests for files, and what the host stores.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

#[path = "attachments/client_files.rs"]
mod client_files;
#[path = "attachments/dispatch_queue.rs"]
mod dispatch_queue;
#[path = "attachments/fixture.rs"]
mod fixture;
