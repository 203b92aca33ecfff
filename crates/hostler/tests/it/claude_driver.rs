//! Claude driver with the real Claude Code, both builds: behavior that the engine relies on and a fake cannot
//! prove.

#[allow(dead_code, reason = "other tests use the rest")]
pub(crate) mod attachment_blocks;
mod attachments;
mod background_work;
mod conformance;
mod driver_fixture;
mod image_removal;
mod policy_changes;
mod record_transcripts;
mod steering;
mod steering_with_attachments;
mod transcripts;
