//! Pending requests: what the agent asks, which client answers, and the outcome.

mod diff_previews;
mod helpers;
mod permission_modes;
mod permissions;
mod questions;
mod rule_changes;
mod stalled_previews;
mod stalled_rules;
mod tool_calls;
