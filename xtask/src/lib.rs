//! Project automation: what a person or the continuous integration runs.
//!
//! **Architecture Invariant:** nothing here is part of the product; it drives cargo and the `hostler` binary from outside.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that people run in a terminal")]

pub mod bench;
pub mod chaos;
pub mod demo;
mod failures;
pub mod fuzz;
pub mod install;
mod leak_check;
mod pinned_packages;
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
