//! Tools, permissions and questions with the real Claude Code, both builds, on the scripted model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "tools/approval_without_clients.rs"]
mod approval_without_clients;
#[path = "tools/audit.rs"]
mod audit;
mod common;
#[path = "tools/elicitation.rs"]
mod elicitation;
#[path = "tools/permissions.rs"]
mod permissions;
#[path = "tools/questions_and_plans.rs"]
mod questions_and_plans;
#[path = "tools/rules.rs"]
mod rules;
#[path = "tools/shell_output.rs"]
mod shell_output;
#[path = "tools/sub_agents.rs"]
mod sub_agents;
