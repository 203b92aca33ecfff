//! The integration tests of `hostler-rules`: one executable, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod command_lines;
mod domains;
mod modes;
mod parser_threads;
mod paths;
mod properties;
mod read_only_commands;
mod real_shell;
mod rules;
mod symlink_swaps;
