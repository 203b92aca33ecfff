//! Mapping tests for sub-agents.

use hostler_claude::mapping::EventMapper;
use hostler_claude::wire::WireMessage;
use hostler_driver::GateDecision;
use uuid::Uuid;

use super::{INIT, SUCCESS, replay, show, tool_result, whole};

/// The agent starts a sub-agent with the call `T`.
const CALL: &str = r#"{"type":"tool_use","id":"T","name":"Agent","input":{}}"#;

fn started(task: &str, call: &str, more: &str) -> String {
    format!(
        r#"{{"type":"system","subtype":"task_started","task_id":"{task}","tool_use_id":"{call}","description":"look","prompt":"go","task_type":"local_agent"{more}}}"#
    )
}

fn said(call: &str, message: &str, block: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"{message}","model":"h","usage":{{"input_tokens":7,"output_tokens":1}},"content":[{block}]}},"parent_tool_use_id":"{call}"}}"#
    )
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn bash(id: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"ls"}}}}"#)
}

fn result_of(call: &str, of: &str, output: &str, is_error: bool) -> String {
    format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{of}","is_error":{is_error},"content":"{output}"}}]}},"parent_tool_use_id":"{call}"}}"#
    )
}

fn notified(task: &str, status: &str) -> String {
    format!(r#"{{"type":"system","subtype":"task_notification","task_id":"{task}","status":"{status}","summary":"s"}}"#)
}

fn returned(task: &str, text: &str) -> String {
    let result = tool_result(r#""handed back""#, false);
    let outcome = format!(
        r#""tool_use_result":{{"status":"completed","agentId":"{task}","content":[{{"type":"text","text":"a note"}},{{"type":"text","text":"{text}"}}],"usage":{{"input_tokens":9,"output_tokens":5}}}}"#
    );
    result.replacen('{', &format!("{{{outcome},"), 1)
}

/// The events of sub-agents in a turn that has started one.
fn sub_agents(lines: &[&str]) -> Vec<String> {
    let mut mapper = EventMapper::default();
    mapper.prompt_sent(Uuid::nil());
    let call = whole("M", CALL);
    let mut all = vec![INIT, &call];
    all.extend(lines);
    let shown = replay(&mut mapper, &all);
    shown.into_iter().filter(|event| event.starts_with("a1") || event.starts_with("a2")).collect()
}

#[test]
fn sub_agent_runs_and_its_call_returns() {
    let (one, two) = (said("T", "H1", &text("I look")), said("T", "H1", &bash("B")));
    let last = said("T", "H2", &text("found"));
    let events = sub_agents(&[
        &started("a1", "T", ""),
        &one,
        &two,
        &result_of("T", "B", "a.txt", false),
        &last,
        &notified("a1", "completed"),
        &returned("a1", "found"),
    ]);
    assert_eq!(
        events,
        [
            r#"a1 of T None: look "go""#,
            "a1: part 1 Text",
            r#"a1: part 1 + "I look""#,
            r#"a1: usage 7 1 of "h" 0"#,
            "a1: tool B Bash",
            r#"a1: tool B ready {"command":"ls"}"#,
            r#"a1: usage 7 1 of "h" 0"#,
            "a1: tool B Succeeded: a.txt",
            "a1: part 2 Text",
            r#"a1: part 2 + "found""#,
            r#"a1: usage 14 2 of "h" 0"#,
            r#"a1: usage 16 6 of "h" 0"#,
            "a1 Completed",
        ]
    );
}

#[test]
fn unprinted_final_text_comes_from_the_result() {
    let events = sub_agents(&[&started("a1", "T", ""), &said("T", "H", &bash("B")), &returned("a1", "found")]);
    let answer = events.iter().position(|event| event == r#"a1: part 1 + "found""#).unwrap();
    assert_eq!(events.last().unwrap(), "a1 Completed");
    assert!(events[answer..].iter().any(|event| event.starts_with("a1: tool B Failed")), "{events:?}");
}

#[test]
fn sub_agent_outcome_is_reported() {
    let end = |lines: &[&str]| {
        let begun = started("a1", "T", "");
        let mut all = vec![begun.as_str()];
        all.extend(lines);
        sub_agents(&all).pop().unwrap()
    };
    assert_eq!(end(&[&notified("a1", "failed"), &returned("a1", "x")]), r#"a1 Failed("s")"#);
    assert_eq!(end(&[&notified("a1", "stopped"), SUCCESS]), "a1 Stopped");
    assert_eq!(end(&[&tool_result(r#""no""#, true)]), r#"a1 Failed("no")"#);
    assert_eq!(end(&[SUCCESS]), "a1 Stopped", "the turn does not leave behind what it waited for");
    let killed = r#"{"type":"system","subtype":"task_updated","task_id":"a1","patch":{"status":"killed"}}"#;
    assert_eq!(end(&[killed]), "a1 Stopped");
}

#[test]
fn background_sub_agent_outlives_its_turn() {
    let begun = started("a1", "T", r#","is_backgrounded":true"#);
    let events = sub_agents(&[&begun, SUCCESS, &said("T", "H", &text("still here")), &notified("a1", "completed")]);
    assert!(events.contains(&r#"a1: part 1 + "still here""#.to_owned()), "{events:?}");
    assert_eq!(events.last().unwrap(), "a1 Completed");
    // The other build reports it when the call returns.
    let launched = tool_result(r#""launched""#, false).replacen(
        '{',
        r#"{"tool_use_result":{"isAsync":true,"agentId":"a1","status":"async_launched"},"#,
        1,
    );
    let events = sub_agents(&[&started("a1", "T", ""), &launched, SUCCESS, &notified("a1", "completed")]);
    assert_eq!(events, [r#"a1 of T None: look "go""#, "a1 Completed"]);
}

#[test]
fn nested_sub_agent_has_a_parent_and_ends_with_it() {
    let nested = said("T", "H", r#"{"type":"tool_use","id":"N","name":"Agent","input":{}}"#);
    let begun = started("a1", "T", r#","is_backgrounded":true"#);
    let inner = started("a2", "N", "");
    let events = sub_agents(&[&begun, &nested, &inner, SUCCESS, &said("N", "I", &text("deep"))]);
    assert!(events.contains(&r#"a2 of N Some("a1"): look "go""#.to_owned()), "{events:?}");
    assert!(events.last().unwrap().starts_with("a2: usage"), "{events:?}");
    let waited_for = sub_agents(&[&started("a1", "T", ""), &nested, &inner, SUCCESS]);
    assert!(waited_for.contains(&"a1 Stopped".to_owned()) && waited_for.contains(&"a2 Stopped".to_owned()));
}

#[test]
fn calls_of_an_unprinted_sub_agent_come_from_hooks() {
    let hook = |event: &str, more: &str| {
        format!(
            r#"{{"type":"control_request","request_id":"r","request":{{"subtype":"hook_callback","callback_id":"h","tool_use_id":"B","input":{{"hook_event_name":"{event}","agent_id":"a1","tool_name":"Bash","tool_input":{{"command":"ls"}},"tool_use_id":"B"{more}}}}}}}"#
        )
    };
    let mut mapper = EventMapper::default();
    replay(&mut mapper, &[INIT, &whole("M", CALL), &started("a1", "T", "")]);
    let mut map_line = |line: &str| {
        let WireMessage::ControlRequest(ask) = WireMessage::parse(line.as_bytes()).unwrap() else { panic!() };
        mapper.on_hook(&ask.body).iter().map(show).collect::<Vec<_>>()
    };
    let before = hook("PreToolUse", "");
    assert_eq!(map_line(&before), ["a1: tool B Bash", r#"a1: tool B ready {"command":"ls"}"#]);
    assert_eq!(map_line(&before), [""; 0], "once");
    assert_eq!(map_line(&hook("PostToolUse", "")), ["a1: tool B Succeeded: "]);
    let again = before.replace("\"B\"", "\"C\"");
    assert_eq!(map_line(&again).len(), 2);
    let gated = mapper.on_gate_decision(Some(("C".into(), GateDecision::Allow)));
    assert_eq!(gated.iter().map(show).collect::<Vec<_>>(), ["a1: tool C gated Allow"]);
    // The agent prints the call later: it is not started again, and its result counts.
    let printed = replay_on(&mut mapper, &[&said("T", "H", &bash("C")), &result_of("T", "C", "out", true)]);
    assert_eq!(printed, [r#"a1: usage 7 1 of "h" 0"#, "a1: tool C Failed: out"]);
}

fn replay_on(mapper: &mut EventMapper, lines: &[&str]) -> Vec<String> {
    let messages = lines.iter().map(|line| WireMessage::parse(line.as_bytes()).unwrap());
    messages.flat_map(|message| mapper.on_message(&message)).map(|event| show(&event)).collect()
}
