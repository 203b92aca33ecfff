//! The integration tests of `hostler-store`: one executable, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod blob_collection;
mod blobs_and_audit;
mod conversation_ownership;
mod crash_recovery;
mod retention;
mod sequencer;
mod write_failures;
