//! Test kit: fake agent, fake driver and transcript store, AHP clients, manual clock, process checks. Used by tests
//! and benchmarks only.

#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "used by tests only, where a panic is the report"
)]

pub mod benchmark_table;
pub mod clock;
pub mod conformance;
pub mod fake_agent;
pub mod fake_driver;
pub mod fake_transcript_store;
pub mod processes;
pub mod raw_client;
pub mod stalled_disk;
pub mod test_client;
