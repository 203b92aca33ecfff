//! The session's runtime: messages that wait, messages that are folded in, turns that are taken up again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;
#[path = "runtime/policy.rs"]
mod policy;
#[path = "runtime/queue.rs"]
mod queue;
#[path = "runtime/races.rs"]
mod races;
#[path = "runtime/resume.rs"]
mod resume;
#[path = "runtime/status.rs"]
mod status;
#[path = "runtime/steer.rs"]
mod steer;
#[path = "runtime/words.rs"]
mod words;
