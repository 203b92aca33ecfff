//! Threads of the parser. This file has one test, because other tests of a process start threads.

use hostler_rules::{
    DecisionOutcome, DiskResolver, PermissionMode, RuleScope, RuleSet, ToolUse, decide_or_ask, suggest_rules,
};

/// The number of threads that the process has started, including this probe: ids are assigned in sequence.
fn thread_count() -> u64 {
    let id = std::thread::spawn(|| std::thread::current().id()).join().unwrap();
    format!("{id:?}").trim_start_matches("ThreadId(").trim_end_matches(')').parse().unwrap()
}

#[test]
fn decisions_and_suggestions_start_no_thread() {
    let directory = tempfile::tempdir().unwrap();
    let before = thread_count();
    for line in ["git status && make", "echo $(ls) | sh -c 'wc -l'", "echo 'open", &"( ".repeat(1_000)] {
        let call = ToolUse::shell(line, directory.path());
        for mode in [PermissionMode::Default, PermissionMode::Plan] {
            let decision = decide_or_ask(&RuleSet::default(), mode, &call, None, &DiskResolver);
            assert_ne!(decision.outcome, DecisionOutcome::Undecided);
        }
        suggest_rules(&call, RuleScope::Session, &DiskResolver);
    }
    assert_eq!(thread_count() - before, 1, "only the probe is started");
}
