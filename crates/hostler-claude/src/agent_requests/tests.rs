//! Unit tests of the agent's requests and their answers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hostler_driver::{DenyAllGate, QuestionAnswer, QuestionKind};
use proptest::prelude::*;

use super::*;
use crate::wire::WireMessage;

/// Decides the same on every call.
struct Always(GateDecision);

impl PermissionGate for Always {
    fn decide(self: Arc<Self>, _: GatedCall) -> BoxFuture<'static, GateDecision> {
        ready(self.0.clone()).boxed()
    }
}

fn always(decision: GateDecision) -> Arc<dyn PermissionGate> {
    Arc::new(Always(decision))
}

fn deny_all() -> Arc<dyn PermissionGate> {
    Arc::new(DenyAllGate)
}

fn asked(asks: &mut AgentRequests, id: &str, request: &str, gate: Arc<dyn PermissionGate>) -> RequestResolution {
    let line = format!(r#"{{"type":"control_request","request_id":"{id}","request":{request}}}"#);
    let WireMessage::ControlRequest(ask) = WireMessage::parse(line.as_bytes()).unwrap() else { panic!("{line}") };
    let decision = decide_on_call(&ask, &gate).now_or_never().unwrap();
    asks.handle_request(&ask, decision, &mut || None)
}

fn text(line: Option<Vec<u8>>) -> String {
    String::from_utf8(line.unwrap()).unwrap()
}

const BASH: &str = r#"{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"touch x"},"tool_use_id":"t","decision_reason":"why"}"#;
const HOOK: &str = r#"{"subtype":"hook_callback","callback_id":"PreToolUse","tool_use_id":"t","input":{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"file_path":"x"},"tool_use_id":"t"}}"#;

#[test]
fn hook_is_answered_at_once_with_the_gate_decision() {
    for (gate, expected, denied) in [
        (GateDecision::Allow, r#""permissionDecision":"allow""#, None),
        (GateDecision::Ask, r#""permissionDecision":"ask""#, None),
        (
            GateDecision::Deny("no".to_owned()),
            r#""permissionDecision":"deny","permissionDecisionReason":"no""#,
            Some("t"),
        ),
    ] {
        let consequence = asked(&mut AgentRequests::default(), "r", HOOK, always(gate.clone()));
        assert_eq!(consequence.denied_call.as_deref(), denied);
        assert_eq!(consequence.gate_decision, Some(("t".to_owned(), gate)));
        let line = text(consequence.line);
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn call_without_a_decision_is_denied() {
    for (request, answer) in [(HOOK, r#""permissionDecision":"deny""#), (BASH, r#""behavior":"deny""#)] {
        let line = format!(r#"{{"type":"control_request","request_id":"r","request":{request}}}"#);
        let WireMessage::ControlRequest(ask) = WireMessage::parse(line.as_bytes()).unwrap() else { panic!("{line}") };
        let consequence = AgentRequests::default().handle_request(&ask, None, &mut || None);
        assert_eq!(consequence.denied_call.as_deref(), Some("t"));
        assert!(text(consequence.line).contains(answer), "{answer}");
    }
}

/// Records the directories of the calls.
#[derive(Default)]
struct Noting(std::sync::Mutex<Vec<Option<std::path::PathBuf>>>);

impl PermissionGate for Noting {
    fn decide(self: Arc<Self>, call: GatedCall) -> BoxFuture<'static, GateDecision> {
        self.0.lock().unwrap().push(call.cwd);
        ready(GateDecision::Ask).boxed()
    }
}

#[test]
fn gate_receives_the_directory_of_the_hook() {
    let gate = Arc::new(Noting::default());
    let hook = |cwd: &str| HOOK.replace(r#""tool_name":"Read""#, &format!(r#""cwd":{cwd},"tool_name":"Read""#));
    for cwd in [r#""/project/sub""#, r#""relative""#, "null"] {
        asked(&mut AgentRequests::default(), "r", &hook(cwd), Arc::<Noting>::clone(&gate));
    }
    asked(&mut AgentRequests::default(), "r", BASH, Arc::<Noting>::clone(&gate));
    assert_eq!(*gate.0.lock().unwrap(), [Some("/project/sub".into()), None, None, None]);
}

#[test]
fn permission_request_is_pending_until_answered_once() {
    let mut asks = AgentRequests::default();
    let consequence = asked(&mut asks, "r", BASH, always(GateDecision::Ask));
    assert!(consequence.line.is_none(), "nothing is said yet");
    let Some(DriverEvent::PermissionRequested(request)) = consequence.event else { panic!("no request") };
    assert_eq!(
        (request.tool.as_str(), request.call_id.as_str(), request.reason.as_deref()),
        ("Bash", "t", Some("why"))
    );
    let answered = asks.answer("r", &Answer::Allow { input: None }).unwrap();
    assert_eq!(
        text(answered.line),
        r#"{"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"behavior":"allow","updatedInput":{"command":"touch x"}}}}"#
    );
    assert!(asks.answer("r", &Answer::Allow { input: None }).is_none());
}

#[test]
fn answer_may_replace_the_input_or_deny_with_a_message() {
    let mut asks = AgentRequests::default();
    asked(&mut asks, "a", BASH, always(GateDecision::Ask));
    asked(&mut asks, "b", BASH, always(GateDecision::Ask));
    let input: Arc<RawValue> = RawValue::from_string(r#"{"command":"ls"}"#.to_owned()).unwrap().into();
    let changed = asks.answer("a", &Answer::Allow { input: Some(input) }).unwrap();
    assert!(text(changed.line).contains(r#""updatedInput":{"command":"ls"}"#));
    let denied = asks.answer("b", &Answer::Deny { message: "use ls".to_owned() }).unwrap();
    assert_eq!(denied.denied_call.as_deref(), Some("t"));
    assert!(text(denied.line).contains(r#""behavior":"deny","message":"use ls""#));
}

#[test]
fn rule_added_after_the_hook_decides_without_asking() {
    let mut asks = AgentRequests::default();
    assert!(text(asked(&mut asks, "r", BASH, always(GateDecision::Allow)).line).contains(r#""behavior":"allow""#));
    let denied = asked(&mut asks, "r", BASH, deny_all());
    assert_eq!(denied.denied_call.as_deref(), Some("t"));
    assert!(denied.event.is_none());
}

#[test]
fn withdrawn_request_cannot_be_answered() {
    let mut asks = AgentRequests::default();
    asked(&mut asks, "r", BASH, always(GateDecision::Ask));
    assert!(asks.withdraw("r"));
    assert!(!asks.withdraw("r"));
    assert!(asks.answer("r", &Answer::Allow { input: None }).is_none());
}

#[test]
fn unreadable_requests_are_denied() {
    for request in [
        r#"{"subtype":"can_use_tool"}"#,
        r#"{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t"}"#,
        r#"{"subtype":"can_use_tool","tool_name":"Bash","input":[],"tool_use_id":"t"}"#,
        r#"{"subtype":"can_use_tool","tool_name":7,"input":{},"tool_use_id":"t"}"#,
        r#"{"subtype":"can_use_tool","tool_name":"AskUserQuestion","input":{},"tool_use_id":"t"}"#,
    ] {
        let line = text(asked(&mut AgentRequests::default(), "r", request, always(GateDecision::Ask)).line);
        assert!(line.contains(r#""behavior":"deny""#), "{request}: {line}");
    }
    for request in [
        r#"{"subtype":"hook_callback"}"#,
        r#"{"subtype":"hook_callback","input":7}"#,
        r#"{"subtype":"hook_callback","tool_use_id":7,"input":{}}"#,
        r#"{"subtype":"hook_callback","input":{"hook_event_name":"PreToolUse","tool_name":"Bash"}}"#,
        r#"{"subtype":"hook_callback","input":{"tool_name":"Bash","tool_input":{},"tool_use_id":"t"}}"#,
    ] {
        let line = text(asked(&mut AgentRequests::default(), "r", request, always(GateDecision::Allow)).line);
        assert!(line.contains(r#""permissionDecision":"deny""#), "{request}: {line}");
    }
    for request in [r#"{"subtype":"mcp_message","server_name":"x","message":{}}"#, r#"{"no":"subtype"}"#, "7"] {
        let line = text(asked(&mut AgentRequests::default(), "r", request, always(GateDecision::Allow)).line);
        assert!(line.contains(r#""subtype":"error""#), "{request}: {line}");
    }
}

#[test]
fn repeated_ids_and_too_many_requests_are_denied() {
    let mut asks = AgentRequests::default();
    asked(&mut asks, "r", BASH, always(GateDecision::Ask));
    let again = asked(&mut asks, "r", BASH, always(GateDecision::Ask));
    assert!(text(again.line).contains(r#""behavior":"deny""#));
    for number in 1..MAX_PENDING_REQUESTS {
        assert!(asked(&mut asks, &format!("n{number}"), BASH, always(GateDecision::Ask)).event.is_some());
    }
    assert!(asked(&mut asks, "one more", BASH, always(GateDecision::Ask)).event.is_none());
}

#[test]
fn questions_go_to_a_person_even_if_everything_is_allowed() {
    let mut asks = AgentRequests::default();
    let request = r#"{"subtype":"can_use_tool","tool_name":"AskUserQuestion","tool_use_id":"t","input":{"questions":[
        {"question":"Which colour?","header":"Colour","multiSelect":false,"options":[{"label":"Red","description":"r"},{"label":"Blue"}]},
        {"question":"Which letters?","multiSelect":true,"options":[{"label":"A"},{"label":"B"}]},
        {"question":"Why?"}]}}"#
        .replace('\n', "");
    let consequence = asked(&mut asks, "r", &request, always(GateDecision::Allow));
    let Some(DriverEvent::QuestionsAsked(shown)) = consequence.event else { panic!("no questions") };
    assert_eq!(shown.questions.len(), 3);
    assert!(matches!(
        &shown.questions[1].kind,
        QuestionKind::Choice { allows_multiple: true, allows_free_text: true, .. }
    ));
    assert_eq!(shown.questions[2].kind, QuestionKind::Text);
    let chosen = |options: &[&str], free: &[&str]| QuestionAnswer::Selected {
        options: options.iter().map(|text| (*text).to_owned()).collect(),
        free_text: free.iter().map(|text| (*text).to_owned()).collect(),
    };
    let answers = Answer::Answers(vec![
        ("q1".to_owned(), chosen(&["Red"], &[])),
        ("q2".to_owned(), chosen(&["A", "B"], &["and C"])),
        ("not asked".to_owned(), QuestionAnswer::Text("x".to_owned())),
    ]);
    let line = text(asks.answer("r", &answers).unwrap().line);
    assert!(line.contains(r#""answers":{"Which colour?":"Red","Which letters?":"A, B, and C"}"#), "{line}");
    assert!(line.contains(r#""behavior":"allow""#));

    asked(&mut asks, "s", &request, always(GateDecision::Ask));
    assert!(text(asks.answer("s", &Answer::Skip).unwrap().line).contains(r#""behavior":"deny""#));
}

#[test]
fn accepted_plan_sets_a_mode_for_the_process() {
    let mut asks = AgentRequests::default();
    let request =
        r##"{"subtype":"can_use_tool","tool_name":"ExitPlanMode","tool_use_id":"t","input":{"plan":"# Plan"}}"##;
    let Some(DriverEvent::PlanProposed(plan)) = asked(&mut asks, "r", request, always(GateDecision::Allow)).event
    else {
        panic!("no plan")
    };
    assert_eq!(plan.plan.as_deref(), Some("# Plan"));
    let line = text(asks.answer("r", &Answer::AcceptPlan { mode: "acceptEdits".to_owned() }).unwrap().line);
    assert!(
        line.contains(r#""updatedPermissions":[{"type":"setMode","mode":"acceptEdits","destination":"session"}]"#),
        "{line}"
    );
}

#[test]
fn elicitation_answers_have_the_requested_types() {
    let mut asks = AgentRequests::default();
    let request = r#"{"subtype":"elicitation","mcp_server_name":"db","message":"Which one?","requested_schema":{"type":"object","required":["name"],"properties":{"name":{"type":"string","title":"Name"},"port":{"type":"integer"},"tls":{"type":"boolean"},"kind":{"type":"string","enum":["a","b"],"enumNames":["A","B"]},"also":{"type":"array","items":{"anyOf":[{"const":"x","title":"The X"},{"const":"y","title":"The Y"}]}}}}}"#;
    let Some(DriverEvent::QuestionsAsked(shown)) = asked(&mut asks, "r", request, deny_all()).event else {
        panic!("no questions")
    };
    assert_eq!(shown.title.as_deref(), Some("db: Which one?"));
    let ids: Vec<_> = shown.questions.iter().map(|question| (question.id.as_str(), question.required)).collect();
    let order = [("name", true), ("port", false), ("tls", false), ("kind", false), ("also", false)];
    assert_eq!(ids, order, "asked in the server's order");
    let QuestionKind::Choice { options, allows_multiple: true, .. } = &shown.questions[4].kind else {
        panic!("{shown:?}")
    };
    assert_eq!((options[1].id.as_str(), options[1].label.as_str()), ("y", "The Y"));
    let answers = Answer::Answers(vec![
        ("name".to_owned(), QuestionAnswer::Text("main".to_owned())),
        ("port".to_owned(), QuestionAnswer::Number(5432.0)),
        ("tls".to_owned(), QuestionAnswer::Boolean(true)),
        ("kind".to_owned(), QuestionAnswer::Selected { options: vec!["b".to_owned()], free_text: vec![] }),
    ]);
    let line = text(asks.answer("r", &answers).unwrap().line);
    assert!(line.contains(r#""action":"accept""#), "{line}");
    for part in [r#""name":"main""#, r#""port":5432"#, r#""tls":true"#, r#""kind":"b""#] {
        assert!(line.contains(part), "{line}");
    }
    for (answer, action) in [(Answer::Skip, "cancel"), (Answer::Deny { message: String::new() }, "decline")] {
        asked(&mut asks, "r", request, deny_all());
        assert!(text(asks.answer("r", &answer).unwrap().line).contains(action));
    }
    let odd = r#"{"subtype":"elicitation","message":"x","requested_schema":{"properties":{"a":{"type":"object"}}}}"#;
    assert!(text(asked(&mut asks, "q", odd, deny_all()).line).contains(r#""action":"cancel""#));
}

proptest! {
    /// With a gate that never allows, only a person's answer lets a tool run, whatever the agent sends.
    #[test]
    fn only_explicit_allow_is_allowed(
        subtype in prop_oneof![Just("can_use_tool"), Just("hook_callback"), Just("elicitation"), Just("other")],
        tool in prop_oneof![Just("\"Bash\""), Just("7"), Just("null"), Just("\"AskUserQuestion\""), Just("\"ExitPlanMode\"")],
        input in prop_oneof![Just("{}"), Just("[]"), Just("null"), Just(r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{},"tool_use_id":"t"}"#)],
        call in prop_oneof![Just("\"t\""), Just("5"), Just("null")],
        deny in any::<bool>(),
    ) {
        let request = format!(r#"{{"subtype":"{subtype}","tool_name":{tool},"input":{input},"tool_use_id":{call}}}"#);
        let gate = if deny { GateDecision::Deny("no".to_owned()) } else { GateDecision::Ask };
        let mut asks = AgentRequests::default();
        let consequence = asked(&mut asks, "r", &request, always(gate));
        prop_assert!(consequence.line.is_some() != consequence.event.is_some(), "answered at once or handed on");
        if let Some(line) = consequence.line {
            let line = String::from_utf8(line).unwrap();
            prop_assert!(!line.contains(r#""behavior":"allow""#), "{}", line);
            prop_assert!(!line.contains(r#""permissionDecision":"allow""#), "{}", line);
        }
    }
}
