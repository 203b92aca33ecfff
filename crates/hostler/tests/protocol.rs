//! The protocol from outside: what clients of the real binary see on the real socket, at each version that is spoken.
//!
//! Each file is an area with a host of its own, which its cases share. `SUITE_CASE=part` plays the cases whose names hold
//! that part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;
#[path = "protocol/configuration.rs"]
mod configuration;
#[path = "protocol/initialize.rs"]
mod initialize;
#[path = "protocol/kit.rs"]
mod kit;
#[path = "protocol/reconnecting.rs"]
mod reconnecting;
#[path = "protocol/root.rs"]
mod root;
#[path = "protocol/sessions.rs"]
mod sessions;
#[path = "protocol/subscribing.rs"]
mod subscribing;
#[path = "protocol/transport.rs"]
mod transport;
#[path = "protocol/turns.rs"]
mod turns;
#[path = "protocol/versions.rs"]
mod versions;

/// How many cases there are at least; each of them is played at every version.
const CASES: usize = 220;

#[test]
fn no_case_is_lost() {
    let areas = [
        configuration::CASES,
        initialize::CASES,
        reconnecting::CASES,
        root::CASES,
        sessions::CASES,
        subscribing::CASES,
        transport::CASES,
        turns::CASES,
        versions::CASES,
    ];
    let names: Vec<_> = areas.concat();
    let mut different = names.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), names.len(), "each name is there once");
    assert!(names.len() >= CASES, "{} cases", names.len());
}
