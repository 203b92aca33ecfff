//! Message queue, agent-initiated turns, and changes between messages, with the real Claude Code, both builds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "message_queue/background_turns.rs"]
mod background_turns;
mod common;
#[path = "message_queue/policy_changes.rs"]
mod policy_changes;
#[path = "message_queue/queue.rs"]
mod queue;
