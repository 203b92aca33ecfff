//! Conversations of the agent that this host did not lead: in the list, named and deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

#[path = "history/listing.rs"]
mod listing;
