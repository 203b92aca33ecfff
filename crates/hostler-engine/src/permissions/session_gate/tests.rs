//! Property test: the gate never allows what neither a rule nor the mode allows, whatever changes meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hostler_driver::{GateDecision, GatedCall, PermissionGate as _};
use hostler_rules::{Effect, PermissionMode, Rule, RuleScope, RuleSet, RuleStore};
use proptest::prelude::*;
use serde_json::value::RawValue;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{GateDirectories, SessionGate};
use crate::clock::SystemClock;

const MODES: [PermissionMode; 5] = [
    PermissionMode::Default,
    PermissionMode::AcceptEdits,
    PermissionMode::Plan,
    PermissionMode::Bypass,
    PermissionMode::DontAsk,
];

/// Commands that change something, for calls and rules.
const COMMANDS: [&str; 3] = ["git push", "touch made", "rm -rf x"];

#[derive(Debug, Clone)]
enum Step {
    Mode(usize),
    Begin(usize),
    Finish,
    Abandon,
    Allow(usize),
    Call(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..MODES.len()).prop_map(Step::Mode),
        (0..MODES.len()).prop_map(Step::Begin),
        Just(Step::Finish),
        Just(Step::Abandon),
        (0..COMMANDS.len()).prop_map(Step::Allow),
        (0..COMMANDS.len()).prop_map(Step::Call),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn command_is_allowed_only_by_a_rule_or_in_bypass_mode(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let book = Arc::new(RuleStore::open(dir.path()).unwrap());
        let work = dir.path().to_owned();
        let places = GateDirectories { working_directory: work, ..GateDirectories::default() };
        let (gate, mut log) = SessionGate::new(places, book, PermissionMode::Default, RuleSet::default(), Arc::new(SystemClock::default()));
        let (mut mode, mut next, mut allowed) = (PermissionMode::Default, VecDeque::new(), Vec::new());
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Mode(n) => {
                    mode = MODES[n];
                    gate.set_mode(mode);
                }
                Step::Begin(n) => {
                    next.push_back(MODES[n]);
                    gate.begin_mode_change(MODES[n]);
                }
                Step::Finish => {
                    mode = next.pop_front().unwrap_or(mode);
                    gate.finish_mode_change();
                }
                Step::Abandon => {
                    next.pop_front();
                    gate.abandon_mode_change();
                }
                Step::Allow(n) => {
                    let rule = Rule::parse(Effect::Allow, RuleScope::Session, &format!("Bash({})", COMMANDS[n])).unwrap();
                    gate.add_session_rules(&[rule]).unwrap();
                    allowed.push(n);
                }
                Step::Call(n) => {
                    let input = serde_json::json!({ "command": COMMANDS[n] }).to_string();
                    let input = RawValue::from_string(input).unwrap();
                    let id = format!("c{at}");
                    let call = GatedCall { call_id: &id, tool: "Bash", input: &input, sub_agent: None, cwd: None };
                    let said = gate.decide(&call);
                    let passes = |mode: PermissionMode| mode == PermissionMode::Bypass || (mode != PermissionMode::Plan && allowed.contains(&n));
                    let may = passes(mode) && next.iter().copied().all(passes);
                    prop_assert_eq!(said == GateDecision::Allow, may, "{:?} {:?} {:?}: {:?}", mode, next, COMMANDS[n], said);
                    if mode == PermissionMode::Plan || next.contains(&PermissionMode::Plan) {
                        prop_assert!(matches!(said, GateDecision::Deny(_)), "a plan changes nothing");
                    }
                    prop_assert!(log.try_recv().is_ok(), "it is written down");
                }
            }
        }
    }
}

#[test]
fn calls_are_refused_when_the_audit_queue_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let book = Arc::new(RuleStore::open(dir.path()).unwrap());
    let places = GateDirectories { working_directory: dir.path().to_owned(), ..GateDirectories::default() };
    let (gate, _log) =
        SessionGate::new(places, book, PermissionMode::Bypass, RuleSet::default(), Arc::new(SystemClock::default()));
    let input = RawValue::from_string("{}".to_owned()).unwrap();
    let call = GatedCall { call_id: "c", tool: "TodoWrite", input: &input, sub_agent: None, cwd: None };
    for _ in 0..super::MAX_UNWRITTEN_DECISIONS {
        assert_eq!(gate.decide(&call), GateDecision::Allow);
    }
    assert!(matches!(gate.decide(&call), GateDecision::Deny(_)));
}

#[test]
fn plan_mode_allows_writing_the_plan_only() {
    let dir = tempfile::tempdir().unwrap();
    let (work, plans) = (dir.path().join("project"), dir.path().join("plans"));
    for made in [&work, &plans] {
        std::fs::create_dir(made).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(work.join("a.md"), plans.join("link.md")).unwrap();
    let book = Arc::new(RuleStore::open(dir.path()).unwrap());
    let places = GateDirectories {
        working_directory: work.clone(),
        home: None,
        plans_directory: Some(plans.clone()),
        host_directories: Vec::new(),
    };
    let (gate, _log) =
        SessionGate::new(places, book, PermissionMode::Plan, RuleSet::default(), Arc::new(SystemClock::default()));
    let write = |file: &std::path::Path| {
        let input = serde_json::json!({ "file_path": file, "content": "x" }).to_string();
        let input = RawValue::from_string(input).unwrap();
        gate.decide(&GatedCall { call_id: "c", tool: "Write", input: &input, sub_agent: None, cwd: None })
    };
    for other in [work.join("a.md"), plans.join("link.md"), plans.join("run.sh"), plans.join("../project/a.md")] {
        assert!(matches!(write(&other), GateDecision::Deny(_)), "{}", other.display());
    }
    assert_eq!(gate.last_plan(), None);
    assert_eq!(write(&plans.join("mine.md")), GateDecision::Allow);
    assert_eq!(gate.last_plan(), Some(plans.canonicalize().unwrap().join("mine.md")));
    gate.set_mode(PermissionMode::Default);
    assert_eq!(write(&plans.join("mine.md")), GateDecision::Ask, "who does not plan has no business there");
}

/// Counts the command lines that are parsed, and the calls that are evaluated.
#[derive(Clone, Default)]
struct RuleCounters {
    parsed: Arc<AtomicUsize>,
    evaluated: Arc<AtomicUsize>,
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for RuleCounters {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        match event.metadata().target() {
            "hostler_rules::tool_use" => self.parsed.fetch_add(1, Ordering::Relaxed),
            "hostler_rules::decide_or_ask" => self.evaluated.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

impl RuleCounters {
    fn count(&self, test: impl FnOnce(&Self)) {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        tracing::subscriber::with_default(subscriber, || test(self));
    }

    fn evaluated(&self) -> usize {
        self.evaluated.load(Ordering::Relaxed)
    }
}

#[test]
fn command_line_of_a_request_is_parsed_once() {
    let dir = tempfile::tempdir().unwrap();
    let book = Arc::new(RuleStore::open(dir.path()).unwrap());
    let places = GateDirectories { working_directory: dir.path().to_owned(), ..GateDirectories::default() };
    let (gate, _log) =
        SessionGate::new(places, book, PermissionMode::Default, RuleSet::default(), Arc::new(SystemClock::default()));
    RuleCounters::default().count(|counters| {
        let input = |line: &str| RawValue::from_string(serde_json::json!({ "command": line }).to_string()).unwrap();
        let (first, other, edited) = (input("make all | tail"), input("make all | head"), input("make none | tail"));
        let decide = |id: &str, input: &RawValue, cwd: Option<&std::path::Path>| {
            gate.decide(&GatedCall { call_id: id, tool: "Bash", input, sub_agent: None, cwd })
        };
        let count = || counters.parsed.load(Ordering::Relaxed);
        assert_eq!(decide("a", &first, Some(dir.path())), GateDecision::Ask, "the hook");
        assert_eq!(decide("b", &other, Some(dir.path())), GateDecision::Ask, "the hook of another call");
        assert_eq!(decide("a", &first, None), GateDecision::Ask, "the permission request");
        assert_eq!(gate.evaluate("a", "Bash", first.get()).decision, GateDecision::Ask, "before it is displayed");
        assert!(!gate.suggest_rules("a", "Bash", first.get()).is_empty(), "its options");
        assert_eq!(
            gate.evaluate_anew(None, "Read", r#"{"file_path":"a.txt"}"#).decision,
            GateDecision::Allow,
            "a preview"
        );
        gate.set_mode(PermissionMode::Plan);
        assert!(matches!(gate.evaluate("a", "Bash", first.get()).decision, GateDecision::Deny(_)));
        gate.set_mode(PermissionMode::Default);
        gate.add_session_rules(&[Rule::parse(Effect::Allow, RuleScope::Session, "Bash(make:*)").unwrap()]).unwrap();
        assert_eq!(gate.evaluate("a", "Bash", first.get()).decision, GateDecision::Allow, "with another rule");
        assert_eq!(count(), 2, "two calls, two lines");
        // Another input or directory is another call.
        gate.evaluate("a", "Bash", edited.get());
        assert_eq!(count(), 3);
        decide("a", &edited, Some(&dir.path().join("sub")));
        assert_eq!(count(), 4);
    });
}

#[test]
fn call_is_evaluated_once_per_version_of_rules_and_modes() {
    let dir = tempfile::tempdir().unwrap();
    let rule_store = Arc::new(RuleStore::open(dir.path()).unwrap());
    let places = GateDirectories { working_directory: dir.path().to_owned(), ..GateDirectories::default() };
    let (gate, mut log) = SessionGate::new(
        places,
        Arc::clone(&rule_store),
        PermissionMode::Default,
        RuleSet::default(),
        Arc::new(SystemClock::default()),
    );
    let rule = |effect, text: &str| Rule::parse(effect, RuleScope::Session, text).unwrap();
    let input = RawValue::from_string(r#"{"command":"make all | tail"}"#.to_owned()).unwrap();
    let decide = |cwd| gate.decide(&GatedCall { call_id: "a", tool: "Bash", input: &input, sub_agent: None, cwd });
    RuleCounters::default().count(|counters| {
        assert_eq!(decide(Some(dir.path())), GateDecision::Ask, "the hook");
        assert_eq!(decide(None), GateDecision::Ask, "the permission request");
        let displayed = gate.evaluate("a", "Bash", input.get());
        assert_eq!((displayed.decision, displayed.reason.as_str()), (GateDecision::Ask, "No rule applies."));
        assert!(!gate.suggest_rules("a", "Bash", input.get()).is_empty());
        assert_eq!(counters.evaluated(), 1, "hook, request and display");
        gate.evaluate_anew(Some("a"), "Bash", input.get());
        assert_eq!(counters.evaluated(), 2, "the approval of a person");

        let changes: [&dyn Fn(); 5] = [
            &|| gate.set_mode(PermissionMode::AcceptEdits),
            &|| gate.begin_mode_change(PermissionMode::DontAsk),
            &|| gate.abandon_mode_change(),
            &|| gate.set_folder_rules(&[]),
            &|| gate.add_session_rules(&[rule(Effect::Ask, "Bash(git:*)")]).unwrap(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            change();
            let before = counters.evaluated();
            gate.evaluate("a", "Bash", input.get());
            let modes = if number == 1 { 2 } else { 1 };
            assert_eq!(counters.evaluated(), before + modes, "change {number}");
            gate.evaluate("a", "Bash", input.get());
            assert_eq!(counters.evaluated(), before + modes, "again after change {number}");
        }
        rule_store.add(None, &[rule(Effect::Deny, "Bash(make:*)")]).unwrap();
        assert!(matches!(decide(None), GateDecision::Deny(_)), "a rule that was added to the file");
    });
    let mut written = Vec::new();
    while let Ok(entry) = log.try_recv() {
        written.push(entry.decision);
    }
    assert_eq!(written, ["ask", "deny"]);
}

#[cfg(unix)]
#[test]
fn approval_reads_links_again_and_a_carried_decision_never_allows() {
    let dir = tempfile::tempdir().unwrap();
    let (work, state) = (dir.path().join("project"), dir.path().join("state"));
    for made in [&work, &state, &work.join("secret")] {
        std::fs::create_dir(made).unwrap();
    }
    let rule_store = Arc::new(RuleStore::open(&state).unwrap());
    let places = GateDirectories { working_directory: work.clone(), ..GateDirectories::default() };
    let mut rules = RuleSet::default();
    rules.add(Rule::parse(Effect::Deny, RuleScope::Session, "Edit(secret/**)").unwrap()).unwrap();
    let clock = Arc::new(SystemClock::default());
    let (gate, _log) = SessionGate::new(places, rule_store, PermissionMode::Default, rules, clock);
    let link = |target: &str| {
        let _ = std::fs::remove_file(work.join("link"));
        std::os::unix::fs::symlink(target, work.join("link")).unwrap();
    };
    let (read, write) = (r#"{"file_path":"link"}"#, r#"{"file_path":"link","content":"x"}"#);
    link("inside.txt");
    assert_eq!(gate.evaluate("r", "Read", read).decision, GateDecision::Allow);
    assert_eq!(gate.evaluate("w", "Write", write).decision, GateDecision::Ask);
    link("../outside.txt");
    assert_eq!(gate.evaluate("r", "Read", read).decision, GateDecision::Ask, "an approval is not carried");
    link("secret/key");
    assert_eq!(gate.evaluate("w", "Write", write).decision, GateDecision::Ask, "a person is still asked");
    let approved = gate.evaluate_anew(Some("w"), "Write", write).decision;
    assert!(matches!(approved, GateDecision::Deny(_)), "the approval is checked against the link");
}

#[test]
fn call_directory_decides_and_is_reused_for_later_requests() {
    let dir = tempfile::tempdir().unwrap();
    let (work, state) = (dir.path().join("project"), dir.path().join("state"));
    std::fs::create_dir_all(work.join("sub")).unwrap();
    let book = Arc::new(RuleStore::open(dir.path()).unwrap());
    let places = GateDirectories {
        working_directory: work.clone(),
        host_directories: vec![work.join("own"), state],
        ..GateDirectories::default()
    };
    let (gate, _log) =
        SessionGate::new(places, book, PermissionMode::Default, RuleSet::default(), Arc::new(SystemClock::default()));
    let decide = |id: &str, line: &str, cwd: Option<&std::path::Path>| {
        let input = RawValue::from_string(serde_json::json!({ "command": line }).to_string()).unwrap();
        let said = gate.decide(&GatedCall { call_id: id, tool: "Bash", input: &input, sub_agent: None, cwd });
        assert_eq!(said, gate.evaluate(id, "Bash", input.get()).decision, "asked again");
        said
    };
    assert_eq!(decide("a", "cat ../a.txt", Some(&work.join("sub"))), GateDecision::Allow);
    assert_eq!(decide("b", "cat ../a.txt", Some(&work)), GateDecision::Ask);
    assert_eq!(decide("c", "cat ../a.txt", None), GateDecision::Ask, "the session's directory");
    assert_eq!(decide("d", "cat a.txt", Some(dir.path())), GateDecision::Ask, "the shell has left the project");
    assert_eq!(decide("a", "cat ../a.txt", None), GateDecision::Allow, "the request that follows its hook");
    assert_eq!(decide("e", "cat own/secret", Some(&work)), GateDecision::Ask, "the host's own");
    assert_eq!(decide("f", "cat own.txt", Some(&work)), GateDecision::Allow);
    let suggested = gate.suggest_rules("a", "Bash", r#"{"command":"ls | wc -l && make"}"#);
    let texts: Vec<String> = suggested.iter().flat_map(|one| &one.rules).map(ToString::to_string).collect();
    assert_eq!(texts, ["Bash(make)"], "only what is missing");
}
