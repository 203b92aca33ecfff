//! The integration tests of `hostler-cli`: one executable, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod attach;
mod commands;
mod proxy;
mod rules;
mod run;
mod serve;
mod sessions;
mod support;
mod trust;
