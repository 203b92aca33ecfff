//! External sessions of the real Claude Code, both builds: listed, renamed, deleted, searched, opened, read and
//! continued.

mod attachments_and_models;
mod failed_turns;
mod import_fidelity;
mod import_session;
mod interactive_cli;
mod listing;
mod live_sync;
mod mid_turn_import;
mod resume_after_import;
mod second_host;
mod transcript_doctor;
