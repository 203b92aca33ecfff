//! Test kit: fake agent, AHP client transports, process and secret checks.

#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "used by tests only, where a panic is the report"
)]

pub mod bench;
pub mod clock;
pub mod conformance;
pub mod fake_agent;
pub mod fake_archive;
pub mod fake_driver;
pub mod peer;
pub mod processes;
pub mod raw;
