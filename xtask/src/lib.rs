//! Project automation for developers and continuous integration.
//!
//! **Architecture Invariant:** nothing here is part of the product; it runs cargo and the `hostler` binary from
//! outside.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "command line program")]

pub mod bench;
pub mod chaos;
pub mod demo;
mod failures;
pub mod fuzz;
pub mod install;
mod leak_check;
mod pinned_packages;
pub mod recording;
mod required_programs;
pub mod setup;
pub mod smoke;
pub mod soak;
mod steps;
mod system_packages;
pub mod test;
pub mod vscode;
pub mod web;
pub mod workspace;
