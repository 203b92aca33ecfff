//! What is attached to messages, with the real binary and the real Claude Code, both builds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "attachments/command_line.rs"]
mod command_line;
mod common;
#[path = "attachments/journeys.rs"]
mod journeys;
#[path = "driver/pictures.rs"]
#[allow(dead_code, reason = "the driver's tests use the rest")]
mod pictures;
#[path = "attachments/refusals.rs"]
mod refusals;
