//! The integration tests of `hostler`: one executable, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod agent_crash;
mod agent_pool;
mod attachments;
mod budget;
mod chaos;
mod claude_driver;
mod cli;
mod common;
mod disk_failures;
mod editor_announcement;
mod external_sessions;
mod failed_agent_start;
mod former_state;
mod grants;
mod hostile_folder;
mod hostile_settings;
mod install_on_demand;
mod known_attacks;
mod large_transcript;
mod log_channel;
mod message_queue;
mod protocol;
mod proxy;
mod real_agent;
mod reconnect;
mod resources;
mod search;
mod secrets;
mod session_roots;
mod sessions;
mod shell_commands;
mod shutdown;
mod sign_in;
mod steering;
mod sub_agents;
mod terminals;
mod tools;
mod upstreams;
mod vscode;
mod web_page;
