//! Pending requests: what the agent asks, which client answers, and the outcome.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;
#[path = "pending_requests/diff_previews.rs"]
mod diff_previews;
#[path = "pending_requests/helpers.rs"]
mod helpers;
#[path = "pending_requests/permission_modes.rs"]
mod permission_modes;
#[path = "pending_requests/permissions.rs"]
mod permissions;
#[path = "pending_requests/questions.rs"]
mod questions;
#[path = "pending_requests/rule_changes.rs"]
mod rule_changes;
#[path = "pending_requests/stalled_previews.rs"]
mod stalled_previews;
#[path = "pending_requests/tool_calls.rs"]
mod tool_calls;
