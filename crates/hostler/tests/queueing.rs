//! Messages that wait, turns of the agent's own, and changes between messages, with the real Claude Code, both builds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "queueing/beside.rs"]
mod beside;
mod common;
#[path = "queueing/policy.rs"]
mod policy;
#[path = "queueing/queue.rs"]
mod queue;
