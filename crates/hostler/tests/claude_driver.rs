//! Claude driver with the real Claude Code, both builds: behavior that the engine relies on and a fake cannot
//! prove.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "claude_driver/attachment_blocks.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod attachment_blocks;
#[path = "claude_driver/attachments.rs"]
mod attachments;
#[path = "claude_driver/background_work.rs"]
mod background_work;
mod common;
#[path = "claude_driver/conformance.rs"]
mod conformance;
#[path = "claude_driver/driver_fixture.rs"]
mod driver_fixture;
#[path = "claude_driver/image_removal.rs"]
mod image_removal;
#[path = "claude_driver/policy_changes.rs"]
mod policy_changes;
#[path = "claude_driver/record_transcripts.rs"]
mod record_transcripts;
#[path = "claude_driver/steering.rs"]
mod steering;
#[path = "claude_driver/steering_with_attachments.rs"]
mod steering_with_attachments;
#[path = "claude_driver/transcripts.rs"]
mod transcripts;
