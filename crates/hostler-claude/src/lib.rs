//! Drives the real Claude Code executable: wire types, control protocol, event mapping, managed installs.
//!
//! ```text
//!   ClaudeDriver::open ── options ──► hostler-process ──► claude
//!                                        │ lines
//!         Connection ◄── writer task ◄───┤
//!         events     ◄── pump task ◄─────┘  wire → asks, control (answers) and mapping (events)
//! ```
//!
//! * [`wire`]: one line of NDJSON as a type, both ways.
//! * [`mapping`]: from messages to driver events; pure.
//! * [`ClaudeDriver`]: everything about starting an agent and talking to it.
//! * [`stored`]: its transcripts, read without it.
//! * [`install`]: the managed builds.
//! * `workspace`: what a folder's own configuration brings, and what an agent is started on instead of it.
//!
//! **Architecture Invariant:** this is the only crate that knows Claude Code's words. It knows nothing of AHP, clients
//! or the engine, and it reads no environment variable: what it needs is in [`ClaudeConfig`].

#![forbid(unsafe_code)]

mod agent_requests;
mod connection;
mod control_requests;
mod driver;
mod executable;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod install;
mod launch_options;
pub mod mapping;
mod on_demand_driver;
mod open;
mod open_errors;
mod output_reader;
mod prompt;
mod questions;
mod remove_images;
mod settings_fingerprint;
mod tool_display;
mod transcript_locator;
pub mod transcripts;
mod version;
pub mod wire;
mod wire_stats;
mod workspace;

pub use driver::{ClaudeConfig, ClaudeDriver, DEFAULT_HANDSHAKE_TIMEOUT, plans_directory};
pub use executable::Executable;
pub use on_demand_driver::OnDemandDriver;
pub use version::ClaudeVersion;
pub use wire_stats::WireStats;
pub use workspace::workspace_configuration;
