//! The protocol from outside: what clients of the real binary receive on the real socket, at each supported
//! version.
//!
//! Each file is an area with its own host, which its cases share. `SUITE_CASE=part` runs the cases whose names
//! contain that part.

mod annotations;
mod approvals;
mod attachments;
mod claude_code;
mod completions;
mod configuration;
mod drafts_titles_flags;
mod file_watch;
mod files;
mod harness;
mod host_restart;
mod hostile_clients;
mod initialize;
mod local_turns;
mod local_turns_js;
mod message_queue;
mod multiple_clients;
mod ordering;
mod paging;
mod questions;
mod reconnect;
mod rejected_actions;
mod root_channel;
mod sessions;
mod slow_and_lost_clients;
mod sub_agents;
mod subscribe;
mod terminals;
mod transport;
mod trust;
mod turns;
mod unknown_input;
mod unsupported_features;
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
