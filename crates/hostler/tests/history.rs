//! Conversations of the real Claude Code, both builds, that somebody else has led: listed, named, deleted, found, opened, read and
//! continued.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "history/between.rs"]
mod between;
mod common;
#[path = "history/contents.rs"]
mod contents;
#[path = "history/doctor.rs"]
mod doctor;
#[path = "history/golden.rs"]
mod golden;
#[path = "history/interactive.rs"]
mod interactive;
#[path = "history/listing.rs"]
mod listing;
#[path = "history/live.rs"]
mod live;
#[path = "driver/pictures.rs"]
#[allow(dead_code, reason = "the driver's tests use the rest")]
mod pictures;
#[path = "history/resuming.rs"]
mod resuming;
#[path = "history/second.rs"]
mod second;
#[path = "history/taking.rs"]
mod taking;
#[path = "history/troubles.rs"]
mod troubles;
