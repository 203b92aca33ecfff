//! The driver with the real Claude Code, both builds: what the engine relies on and no fake can vouch for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "driver/attachments.rs"]
mod attachments;
#[path = "driver/bed.rs"]
mod bed;
#[path = "driver/beside.rs"]
mod beside;
mod common;
#[path = "driver/conformance.rs"]
mod conformance;
#[path = "driver/folding.rs"]
mod folding;
#[path = "driver/forgetting.rs"]
mod forgetting;
#[path = "driver/golden.rs"]
mod golden;
#[path = "driver/pictures.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod pictures;
#[path = "driver/policies.rs"]
mod policies;
#[path = "driver/steering.rs"]
mod steering;
#[path = "driver/transcripts.rs"]
mod transcripts;
