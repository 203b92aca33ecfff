//! Parses the output of shells in terminals: text that is never split inside a character, shell events from shell
//! integration, and where a long scrollback is trimmed.
//!
//! ```text
//!   shell + integration script ──bytes──► ShellOutputParser ──► text
//!                                                           └─► events: prompt, command start, command end, directory
//! ```
//!
//! The integration scripts make a shell write events into its output, each with a *nonce* that the shell's commands do
//! not receive. [`ShellOutputParser`] removes them; any other output that looks like an event is passed on unchanged.
//! The nonce distinguishes events from output that happens to look like them. It is not a secret from programs of the
//! same user: the system shows them a shell's environment.
//!
//! **Architecture Invariant:** no process, no protocol, no clock. The only files are the scripts
//! ([`ShellIntegration`]).

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
