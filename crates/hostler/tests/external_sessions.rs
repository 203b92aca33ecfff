//! External sessions of the real Claude Code, both builds: listed, renamed, deleted, searched, opened, read and
//! continued.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "claude_driver/attachment_blocks.rs"]
#[allow(dead_code, reason = "the driver's tests use the rest")]
mod attachment_blocks;
#[path = "external_sessions/attachments_and_models.rs"]
mod attachments_and_models;
mod common;
#[path = "external_sessions/failed_turns.rs"]
mod failed_turns;
#[path = "external_sessions/import_fidelity.rs"]
mod import_fidelity;
#[path = "external_sessions/import_session.rs"]
mod import_session;
#[path = "external_sessions/interactive_cli.rs"]
mod interactive_cli;
#[path = "external_sessions/listing.rs"]
mod listing;
#[path = "external_sessions/live_sync.rs"]
mod live_sync;
#[path = "external_sessions/mid_turn_import.rs"]
mod mid_turn_import;
#[path = "external_sessions/resume_after_import.rs"]
mod resume_after_import;
#[path = "external_sessions/second_host.rs"]
mod second_host;
#[path = "external_sessions/transcript_doctor.rs"]
mod transcript_doctor;
