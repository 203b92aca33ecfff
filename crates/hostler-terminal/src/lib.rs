//! What shells in terminals say: text that is never cut inside a character, commands by shell integration, and where a long
//! scrollback may be cut.
//!
//! ```text
//!   shell + our script ──bytes──► Stream ──► text for people
//!                                        └─► marks: a prompt, a command begins, a command has ended, a directory
//! ```
//!
//! Our scripts make a shell write its marks into its output, each with a *nonce* that what the shell runs is not told.
//! [`Stream`] takes them out again; whatever else looks like a mark is somebody's output and stays where it is. The nonce
//! tells marks from output that happens to look like them. It is no secret before programs of the same user: the system shows
//! them what a shell was started with.
//!
//! **Architecture Invariant:** no process, no protocol, no clock. The only files are the scripts ([`Integration`]).

#![forbid(unsafe_code)]

mod nonce;
mod output_parser;
mod scrollback;
mod shell_event;
mod shell_integration;
mod title_scanner;
mod utf8_decoder;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use nonce::ShellNonce;
pub use output_parser::{ShellOutput, ShellOutputParser};
pub use scrollback::scrollback_trim_bytes;
pub use shell_event::ShellEvent;
pub use shell_integration::{ShellIntegration, ShellLaunch};
