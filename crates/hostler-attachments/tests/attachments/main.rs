//! Attachments from the bytes that a client sends to the blocks that an agent receives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "../support/mod.rs"]
mod support;

mod blocks;
mod budgets;
mod documents;
mod images;
mod malicious_files;
mod orientation;
mod secrets;
mod summaries;
