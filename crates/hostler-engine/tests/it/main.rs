//! The integration tests of `hostler-engine`: one executable, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod agent_pool;
mod annotations;
mod attachments;
mod budget;
mod client_absence;
mod common;
mod completions;
mod configuration;
mod external_sessions;
mod local_commands;
mod log_redaction;
mod pending_requests;
mod permission_bypass;
mod protocol_fixtures;
mod reconnect;
mod resource_watches;
mod search;
mod session_lifecycle;
mod stalled_disk;
mod sub_agents;
mod terminals;
mod turn_machine;
mod turn_paging;
mod turn_runtime;
mod workspace_trust;
