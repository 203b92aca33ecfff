//! Attachments of messages, with the real binary and the real Claude Code, both builds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "claude_driver/attachment_blocks.rs"]
#[allow(dead_code, reason = "the driver's tests use the rest")]
mod attachment_blocks;
#[path = "attachments/command_line.rs"]
mod command_line;
mod common;
#[path = "attachments/image_delivery.rs"]
mod image_delivery;
#[path = "attachments/rejected_attachments.rs"]
mod rejected_attachments;
