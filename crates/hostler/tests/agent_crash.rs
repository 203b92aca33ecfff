//! Real Claude Code, both builds: it crashes in every state of a turn, or cannot be started. Each failure has its
//! own error, no process or lock remains, and the conversation continues.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;
#[path = "agent_crash/crash_during_turn.rs"]
mod crash_during_turn;
#[path = "agent_crash/failed_starts.rs"]
mod failed_starts;
#[path = "agent_crash/long_chat.rs"]
mod long_chat;
