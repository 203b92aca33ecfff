//! The real Claude Code, both builds, dies in every state of a turn, or cannot be started: each has its name, nothing is
//! left, and the conversation goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;
#[path = "deaths/long.rs"]
mod long;
#[path = "deaths/starts.rs"]
mod starts;
#[path = "deaths/turns.rs"]
mod turns;
