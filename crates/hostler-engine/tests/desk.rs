//! The desk: what the agent asks, who answers, and what becomes of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "desk/bench.rs"]
mod bench;
mod common;
#[path = "desk/modes.rs"]
mod modes;
#[path = "desk/permissions.rs"]
mod permissions;
#[path = "desk/previews.rs"]
mod previews;
#[path = "desk/questions.rs"]
mod questions;
#[path = "desk/rules.rs"]
mod rules;
#[path = "desk/tools.rs"]
mod tools;
