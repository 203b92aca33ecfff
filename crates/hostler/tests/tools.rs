//! Tools, permissions and questions with the real Claude Code, both builds, on the scripted model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "tools/asking.rs"]
mod asking;
#[path = "tools/audit.rs"]
mod audit;
mod common;
#[path = "tools/permissions.rs"]
mod permissions;
#[path = "tools/rules.rs"]
mod rules;
