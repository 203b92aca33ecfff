//! Messages with attachments over the wire: their order, what the host asks the client for, and what it keeps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

#[path = "attachments/bench.rs"]
mod bench;
#[path = "attachments/fetching.rs"]
mod fetching;
#[path = "attachments/lane.rs"]
mod lane;
