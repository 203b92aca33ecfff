//! The integration tests of `hostler-claude`: one executable, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod captured_traffic;
mod conformance;
mod connection;
mod damaged_transcripts;
mod event_order;
mod fixture;
mod install;
mod mapping;
mod open;
mod steering;
mod transcript_replay;
mod wire_fuzz;
