//! Runs the real Claude Code executable: wire types, control protocol, event mapping, transcripts, managed installs.
//!
//! ```text
//!   ClaudeDriver::open ── options ──► hostler-process ──► claude
//!                                        │ lines
//!         Connection ◄── writer task ◄───┤
//!         events     ◄── reader task ◄───┘  wire → requests (answers) and mapping (events)
//! ```
//!
//! * [`wire`]: one line of NDJSON as a type, both ways.
//! * [`mapping`]: from messages to driver events; pure.
//! * [`ClaudeDriver`]: starts agents and opens connections to them.
//! * [`transcripts`]: the agent's transcripts, read without the agent.
//! * [`install`]: the managed builds.
//! * `workspace`: the configuration of a folder, and the private copy that an agent is started with.
//!
//! **Architecture Invariant:** this is the only crate that knows Claude Code's formats and names. It knows nothing of
//! AHP, clients or the engine, and it reads no environment variable: all it needs is in [`ClaudeConfig`].

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
