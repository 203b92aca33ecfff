//! Turns at runtime: queued messages, steering, resumed turns, races.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "turn_runtime/agent_settings.rs"]
mod agent_settings;
mod common;
#[path = "turn_runtime/helpers.rs"]
mod helpers;
#[path = "turn_runtime/queue.rs"]
mod queue;
#[path = "turn_runtime/races.rs"]
mod races;
#[path = "turn_runtime/resume.rs"]
mod resume;
#[path = "turn_runtime/status.rs"]
mod status;
#[path = "turn_runtime/steering.rs"]
mod steering;
