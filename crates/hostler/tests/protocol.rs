//! The protocol from outside: what clients of the real binary see on the real socket, at each version that is spoken.
//!
//! Each file is an area with a host of its own, which its cases share. `SUITE_CASE=part` plays the cases whose names hold
//! that part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "protocol/annotations.rs"]
mod annotations;
#[path = "protocol/approvals.rs"]
mod approvals;
#[path = "protocol/attaching.rs"]
mod attaching;
#[path = "protocol/beside_js.rs"]
mod beside_js;
#[path = "protocol/clients.rs"]
mod clients;
mod common;
#[path = "protocol/completing.rs"]
mod completing;
#[path = "protocol/configuration.rs"]
mod configuration;
#[path = "protocol/files.rs"]
mod files;
#[path = "protocol/hostile.rs"]
mod hostile;
#[path = "protocol/initialize.rs"]
mod initialize;
#[path = "protocol/kit.rs"]
mod kit;
#[path = "protocol/lacking.rs"]
mod lacking;
#[path = "protocol/local.rs"]
mod local;
#[path = "protocol/marks.rs"]
mod marks;
#[path = "protocol/ordering.rs"]
mod ordering;
#[path = "protocol/paging.rs"]
mod paging;
#[path = "protocol/questions.rs"]
mod questions;
#[path = "protocol/queueing.rs"]
mod queueing;
#[path = "protocol/real.rs"]
mod real;
#[path = "protocol/reconnecting.rs"]
mod reconnecting;
#[path = "protocol/refusing.rs"]
mod refusing;
#[path = "protocol/restarting.rs"]
mod restarting;
#[path = "protocol/root.rs"]
mod root;
#[path = "protocol/sessions.rs"]
mod sessions;
#[path = "protocol/strange.rs"]
mod strange;
#[path = "protocol/subscribing.rs"]
mod subscribing;
#[path = "protocol/terminals.rs"]
mod terminals;
#[path = "protocol/transport.rs"]
mod transport;
#[path = "protocol/trust.rs"]
mod trust;
#[path = "protocol/turns.rs"]
mod turns;
#[path = "protocol/vanishing.rs"]
mod vanishing;
#[path = "protocol/versions.rs"]
mod versions;
#[path = "protocol/watching.rs"]
mod watching;
#[path = "protocol/workers.rs"]
mod workers;

/// How many cases there are at least; each of them is played at every version.
const CASES: usize = 650;

#[test]
fn no_case_is_lost() {
    let areas = [
        annotations::CASES,
        approvals::CASES,
        attaching::CASES,
        beside_js::CASES,
        clients::CASES,
        completing::CASES,
        configuration::CASES,
        files::CASES,
        hostile::CASES,
        initialize::CASES,
        lacking::CASES,
        local::CASES,
        marks::CASES,
        ordering::CASES,
        paging::CASES,
        questions::CASES,
        queueing::CASES,
        real::CASES,
        reconnecting::CASES,
        refusing::CASES,
        restarting::CASES,
        root::CASES,
        sessions::CASES,
        strange::CASES,
        subscribing::CASES,
        terminals::CASES,
        transport::CASES,
        trust::CASES,
        turns::CASES,
        vanishing::CASES,
        versions::CASES,
        watching::CASES,
        workers::CASES,
    ];
    let names: Vec<_> = areas.concat();
    let mut different = names.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), names.len(), "each name is there once");
    assert!(names.len() >= CASES, "{} cases", names.len());
}
