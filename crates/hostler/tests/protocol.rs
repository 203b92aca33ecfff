//! The protocol from outside: what clients of the real binary receive on the real socket, at each supported
//! version.
//!
//! Each file is an area with its own host, which its cases share. `SUITE_CASE=part` runs the cases whose names
//! contain that part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "protocol/annotations.rs"]
mod annotations;
#[path = "protocol/approvals.rs"]
mod approvals;
#[path = "protocol/attachments.rs"]
mod attachments;
#[path = "protocol/claude_code.rs"]
mod claude_code;
mod common;
#[path = "protocol/completions.rs"]
mod completions;
#[path = "protocol/configuration.rs"]
mod configuration;
#[path = "protocol/drafts_titles_flags.rs"]
mod drafts_titles_flags;
#[path = "protocol/file_watch.rs"]
mod file_watch;
#[path = "protocol/files.rs"]
mod files;
#[path = "protocol/harness.rs"]
mod harness;
#[path = "protocol/host_restart.rs"]
mod host_restart;
#[path = "protocol/hostile_clients.rs"]
mod hostile_clients;
#[path = "protocol/initialize.rs"]
mod initialize;
#[path = "protocol/local_turns.rs"]
mod local_turns;
#[path = "protocol/local_turns_js.rs"]
mod local_turns_js;
#[path = "protocol/message_queue.rs"]
mod message_queue;
#[path = "protocol/multiple_clients.rs"]
mod multiple_clients;
#[path = "protocol/ordering.rs"]
mod ordering;
#[path = "protocol/paging.rs"]
mod paging;
#[path = "protocol/questions.rs"]
mod questions;
#[path = "protocol/reconnect.rs"]
mod reconnect;
#[path = "protocol/rejected_actions.rs"]
mod rejected_actions;
#[path = "protocol/root_channel.rs"]
mod root_channel;
#[path = "protocol/sessions.rs"]
mod sessions;
#[path = "protocol/slow_and_lost_clients.rs"]
mod slow_and_lost_clients;
#[path = "protocol/sub_agents.rs"]
mod sub_agents;
#[path = "protocol/subscribe.rs"]
mod subscribe;
#[path = "protocol/terminals.rs"]
mod terminals;
#[path = "protocol/transport.rs"]
mod transport;
#[path = "protocol/trust.rs"]
mod trust;
#[path = "protocol/turns.rs"]
mod turns;
#[path = "protocol/unknown_input.rs"]
mod unknown_input;
#[path = "protocol/unsupported_features.rs"]
mod unsupported_features;
#[path = "protocol/versions.rs"]
mod versions;

/// Minimum number of cases; each of them runs at every version.
const MIN_CASE_COUNT: usize = 650;

#[test]
fn case_names_are_unique_and_none_is_missing() {
    let areas = [
        annotations::CASES,
        approvals::CASES,
        attachments::CASES,
        local_turns_js::CASES,
        multiple_clients::CASES,
        completions::CASES,
        configuration::CASES,
        files::CASES,
        hostile_clients::CASES,
        initialize::CASES,
        unsupported_features::CASES,
        local_turns::CASES,
        drafts_titles_flags::CASES,
        ordering::CASES,
        paging::CASES,
        questions::CASES,
        message_queue::CASES,
        claude_code::CASES,
        reconnect::CASES,
        rejected_actions::CASES,
        host_restart::CASES,
        root_channel::CASES,
        sessions::CASES,
        unknown_input::CASES,
        subscribe::CASES,
        terminals::CASES,
        transport::CASES,
        trust::CASES,
        turns::CASES,
        slow_and_lost_clients::CASES,
        versions::CASES,
        file_watch::CASES,
        sub_agents::CASES,
    ];
    let names: Vec<_> = areas.concat();
    let mut different = names.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), names.len(), "each name occurs once");
    assert!(names.len() >= MIN_CASE_COUNT, "{} cases", names.len());
}
