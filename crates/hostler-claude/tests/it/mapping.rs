//! Mapping tests: lines in, events out.

mod sub_agents;
mod turns;

use crate::event_order::OrderCheck;
use hostler_claude::mapping::EventMapper;
use hostler_claude::wire::WireMessage;
use hostler_driver::{DriverEvent, SubAgentEvent, TurnCause};
use uuid::Uuid;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"S","model":"m"}"#;
const START: &str = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"M","model":"m","usage":{"input_tokens":100,"output_tokens":1}}}}"#;
const TEXT: &str = r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}"#;
const SUCCESS: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"x","usage":{"input_tokens":3,"output_tokens":4},"modelUsage":{"m":{"contextWindow":200000}},"session_id":"S"}"#;

fn delta(text: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}}}"#
    )
}

fn whole(id: &str, block: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"{id}","model":"m","content":[{block}]}},"parent_tool_use_id":null}}"#
    )
}

fn whole_text(id: &str, text: &str) -> String {
    whole(id, &format!(r#"{{"type":"text","text":"{text}"}}"#))
}

fn tool_result(content: &str, is_error: bool) -> String {
    format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"T","is_error":{is_error},"content":{content}}}]}}}}"#
    )
}

fn replay(mapper: &mut EventMapper, lines: &[&str]) -> Vec<String> {
    let mut order = OrderCheck::default();
    let mut shown = Vec::new();
    for line in lines {
        for event in mapper.on_message(&WireMessage::parse(line.as_bytes()).unwrap()) {
            order.see(&event);
            shown.push(show(&event));
        }
    }
    shown
}

/// Sends one prompt, then these lines; omits the turn's start, its first token and the starts of answers.
fn turn(lines: &[&str]) -> Vec<String> {
    let mut mapper = EventMapper::default();
    mapper.prompt_sent(Uuid::nil());
    mapper.transcript_found("S", "/t/S.jsonl".into());
    let mut all = vec![INIT];
    all.extend(lines);
    let mut shown = replay(&mut mapper, &all);
    assert_eq!(shown.drain(..2).collect::<Vec<_>>(), ["began", "resume /t/S.jsonl"]);
    shown.retain(|event| event != "message");
    shown
}

fn show(event: &DriverEvent) -> String {
    match event {
        DriverEvent::TurnStarted(TurnCause::Prompt) => "began".to_owned(),
        DriverEvent::TurnStarted(TurnCause::Agent(_)) => "began unasked".to_owned(),
        DriverEvent::PartStarted { part, kind } => format!("part {} {kind:?}", part.0),
        DriverEvent::PartDelta { part, text } => format!("part {} + {text:?}", part.0),
        DriverEvent::ToolStarted { id, name, .. } => format!("tool {id} {name}"),
        DriverEvent::ToolInputDelta { id, json } => format!("tool {id} + {json}"),
        DriverEvent::ToolReady { id, input, .. } => format!("tool {id} ready {input}"),
        DriverEvent::ToolFinished { id, outcome, output, .. } => format!("tool {id} {outcome:?}: {output}"),
        DriverEvent::Usage(usage) => format!(
            "usage {} {} of {:?} {:?}",
            usage.input,
            usage.output,
            usage.model.as_deref().unwrap_or_default(),
            usage.context_window.unwrap_or(0)
        ),
        DriverEvent::PermissionModeChanged(mode) => format!("mode {mode}"),
        DriverEvent::ResumeToken(token) => format!("resume {}", token.0),
        DriverEvent::Retrying { attempt, max_attempts: max, delay, status, category } => {
            format!("retry {attempt}/{max} in {delay:?}: {status:?} {category:?}")
        }
        DriverEvent::Notice(text) => format!("notice {text}"),
        DriverEvent::TurnEnded(outcome) => format!("ended {outcome:?}"),
        DriverEvent::ToolDecided { id, decision: gate } => format!("tool {id} gated {gate:?}"),
        DriverEvent::MessageStarted => "message".to_owned(),
        DriverEvent::CompactionStarted => "compaction".to_owned(),
        DriverEvent::CompactionFinished { tokens_before: before, tokens_after: after } => {
            format!("compacted {before:?} {after:?}")
        }
        DriverEvent::CompactionFailed(why) => format!("not compacted: {why}"),
        DriverEvent::BackgroundTaskChanged(task) => {
            format!("background {} {:?} {}", task.id, task.kind, task.description)
        }
        DriverEvent::BackgroundTaskEnded { id } => format!("background {id} ended"),
        DriverEvent::SubAgent { agent, event } => match event {
            SubAgentEvent::Started(start) => format!(
                "{agent} of {} {:?}: {} {:?}",
                start.call_id,
                start.parent_id.as_ref().map(ToString::to_string),
                start.description,
                start.prompt.expose()
            ),
            SubAgentEvent::Activity(event) => format!("{agent}: {}", show(event)),
            SubAgentEvent::Finished(outcome) => format!("{agent} {outcome:?}"),
        },
        DriverEvent::ToolProgress { .. }
        | DriverEvent::SteerInjected(_)
        | DriverEvent::SteerUndelivered(_)
        | DriverEvent::PermissionRequested(_)
        | DriverEvent::QuestionsAsked(_)
        | DriverEvent::PlanProposed(_)
        | DriverEvent::RequestWithdrawn(_)
        | DriverEvent::ProcessExited { .. } => unreachable!("the mapping knows nothing of requests and processes"),
    }
}

#[test]
fn streamed_answer_is_one_part_and_its_whole_block_adds_nothing() {
    let usage = r#"{"type":"stream_event","event":{"type":"message_delta","usage":{"output_tokens":25}}}"#;
    let events =
        turn(&[START, TEXT, &delta("Hello "), &delta("there"), &whole_text("M", "Hello there"), usage, SUCCESS]);
    assert_eq!(
        events,
        [
            "part 1 Text",
            "part 1 + \"Hello \"",
            "part 1 + \"there\"",
            r#"usage 100 25 of "m" 0"#,
            r#"usage 3 4 of "m" 200000"#,
            "ended Completed { empty: false }",
        ]
    );
}

#[test]
fn whole_block_adds_the_rest_of_a_stream_that_ended_early() {
    let events = turn(&[START, TEXT, &delta("Hel"), &whole_text("M", "Hello")]);
    assert_eq!(events, ["part 1 Text", "part 1 + \"Hel\"", "part 1 + \"lo\""]);
}

#[test]
fn unstreamed_answer_is_emitted_from_whole_blocks() {
    let thinking = whole("M", r#"{"type":"thinking","thinking":"hm"}"#);
    let events = turn(&[&thinking, &whole_text("M", "one"), &whole_text("M", "two")]);
    assert_eq!(
        events,
        ["part 1 Reasoning", "part 1 + \"hm\"", "part 2 Text", "part 2 + \"one\"", "part 3 Text", "part 3 + \"two\"",]
    );
}

#[test]
fn answer_starts_once_streamed_or_not() {
    let answers = |lines: &[&str]| {
        let events = replay(&mut EventMapper::default(), lines);
        events.iter().filter(|event| *event == "message").count()
    };
    assert_eq!(answers(&[INIT, START, TEXT, &delta("a"), &whole_text("M", "a")]), 1);
    assert_eq!(answers(&[INIT, &whole_text("M", "a"), &whole_text("M", "b"), &whole_text("N", "c")]), 2);
    let of_agent = whole_text("M", "Error: No messages to compact").replace("\"m\"", "\"<synthetic>\"");
    assert_eq!(answers(&[INIT, &of_agent]), 0, "text of the agent itself is not an answer of the model");
    let of_sub_agent = START.replace(r#""type":"stream_event","#, r#""type":"stream_event","parent_tool_use_id":"T","#);
    assert_eq!(answers(&[INIT, &of_sub_agent]), 0);
}

#[test]
fn cut_stream_retains_its_part_and_emits_a_notice() {
    let again = START.replace("\"M\"", "\"N\"");
    let events = turn(&[START, TEXT, &delta("half"), &again, TEXT, &delta("whole"), &whole_text("N", "whole")]);
    assert_eq!(
        events,
        [
            "part 1 Text",
            "part 1 + \"half\"",
            "notice The connection to the model was interrupted. The agent is retrying its answer.",
            "part 2 Text",
            "part 2 + \"whole\"",
        ]
    );
}

#[test]
fn cut_stream_with_an_unstreamed_answer_emits_a_notice() {
    let events = turn(&[START, TEXT, &delta("half"), &whole_text("N", "whole")]);
    assert_eq!(
        events,
        [
            "part 1 Text",
            "part 1 + \"half\"",
            "notice The connection to the model was interrupted. The agent is retrying its answer.",
            "part 2 Text",
            "part 2 + \"whole\"",
        ]
    );
}

#[test]
fn differing_whole_block_becomes_another_part() {
    let events = turn(&[START, TEXT, &delta("abc"), &whole_text("M", "xyz")]);
    assert_eq!(events, ["part 1 Text", "part 1 + \"abc\"", "part 2 Text", "part 2 + \"xyz\""]);
}

#[test]
fn tool_call_starts_streams_becomes_ready_and_finishes() {
    let start = r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"T","name":"Bash","input":{}}}}"#;
    let input = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}}"#;
    let call = whole("M", r#"{"type":"tool_use","id":"T","name":"Bash","input":{"a":1}}"#);
    let events = turn(&[
        START,
        start,
        input,
        &call,
        &tool_result(r#"[{"type":"text","text":"a"},{"type":"image"}]"#, false),
        SUCCESS,
    ]);
    assert_eq!(
        events[..4],
        ["tool T Bash", "tool T + {}", "tool T ready {\"a\":1}", "tool T Succeeded: a\n[not text]"]
    );
}

#[test]
fn denied_call_is_recognized_in_every_wording() {
    let call = whole("M", r#"{"type":"tool_use","id":"T","name":"Read","input":{}}"#);
    let denied = |lines: &[&str], is_marked: bool| {
        let mut mapper = EventMapper::default();
        if is_marked {
            mapper.mark_denied("T");
        }
        let mut all = vec![INIT, &call];
        all.extend(lines);
        replay(&mut mapper, &all).into_iter().filter(|event| event.starts_with("tool T D")).collect::<Vec<_>>()
    };
    assert_eq!(denied(&[&tool_result(r#""no""#, true)], true), ["tool T Denied: no"]);
    assert_eq!(denied(&[&tool_result(r#""PreToolUse:Read hook error: no""#, true)], false), ["tool T Denied: no"]);
    let rule = r#"{"type":"system","subtype":"permission_denied","tool_use_id":"T","message":"x"}"#;
    assert_eq!(denied(&[rule, &tool_result(r#""no""#, true)], false), ["tool T Denied: no"]);
    let meta = tool_result(r#""no""#, true).replace(
        r#""type":"user","#,
        r#""type":"user","tool_result_meta":[{"id":"T","permission_decision":{"decision":"reject"}}],"#,
    );
    assert_eq!(denied(&[&meta], false), ["tool T Denied: no"]);
    let at_the_end = SUCCESS.replace(r#""usage""#, r#""permission_denials":[{"tool_use_id":"T"}],"usage""#);
    assert_eq!(denied(&[&at_the_end], false).len(), 1);
    assert_eq!(denied(&[&tool_result(r#""no such file""#, true)], false), [""; 0]);
}

#[test]
fn messages_of_unknown_sub_agents_are_skipped_and_counted() {
    let mut mapper = EventMapper::default();
    let of_sub_agent = whole_text("M", "sub").replace("null", "\"toolu_1\"");
    assert_eq!(replay(&mut mapper, &[&of_sub_agent]), [""; 0]);
    assert_eq!(mapper.skipped().sub_agent, 1);
}

#[test]
fn failure_that_ends_the_turn_is_reported_once() {
    let failed = whole_text("F", "API Error: no").replace("\"m\"", "\"<synthetic>\"");
    let failed = failed.replace(r#""parent_tool_use_id""#, r#""error":"server_error","parent_tool_use_id""#);
    let shown = |lines: &[&str]| {
        let events = turn(lines).into_iter().filter(|event| event.starts_with("part"));
        events.collect::<Vec<_>>()
    };
    let end = r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: no"}"#;
    assert_eq!(shown(&[&failed, end]), [""; 0]);
    let expected = ["part 1 Text", "part 1 + \"API Error: no\""];
    assert_eq!(shown(&[&failed, &end.replace("no\"", "something else\"")]), expected, "the end says another one");
    assert_eq!(shown(&[&failed, &end.replace("true", "false")]), expected, "the turn ended well");
    let and_on = ["part 1 Text", "part 1 + \"API Error: no\"", "part 2 Text", "part 2 + \"yes\""];
    assert_eq!(shown(&[&failed, &whole_text("M", "yes"), SUCCESS]), and_on, "it went on");
    assert_eq!(shown(&[&failed, START, TEXT, &delta("yes"), SUCCESS]), and_on, "it went on");
}

#[test]
fn is_error_decides_the_outcome() {
    let ended = |result: &str| turn(&[result]).pop().unwrap();
    let result = |fields: &str| format!(r#"{{"type":"result",{fields}}}"#);
    for (fields, expected) in [
        (r#""subtype":"success","is_error":false,"result":"""#, "Completed { empty: true }"),
        (
            r#""subtype":"success","is_error":true,"api_error_status":429,"result":"API Error: 429 {\"error\":{\"message\":\"slow down\"}} · wait""#,
            r#"Failed(TurnFailure { category: RateLimit, message: "API Error: 429 slow down · wait", status: Some(429) })"#,
        ),
        (
            r#""subtype":"success","is_error":true,"api_error_status":null,"result":"API Error: Connection error.""#,
            r#"Failed(TurnFailure { category: Network, message: "API Error: Connection error.", status: None })"#,
        ),
        (
            r#""subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (1)"]"#,
            r#"Failed(TurnFailure { category: Limit, message: "Reached maximum number of turns (1)", status: None })"#,
        ),
        (
            r#""subtype":"error_during_execution","is_error":true,"errors":["[ede_diagnostic] x"]"#,
            r#"Failed(TurnFailure { category: Agent, message: "The agent could not finish its answer.", status: None })"#,
        ),
        (r#""subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming""#, "Interrupted"),
        (r#""subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools""#, "Interrupted"),
        (
            r#""subtype":"error_during_execution","is_error":true"#,
            r#"Failed(TurnFailure { category: Agent, message: "The agent ended the turn with an error and gave no reason.", status: None })"#,
        ),
    ] {
        assert_eq!(ended(&result(fields)), format!("ended {expected}"), "{fields}");
    }
}

#[test]
fn command_output_in_the_result_is_emitted() {
    let events = turn(&[r#"{"type":"result","subtype":"success","is_error":false,"result":"Unknown command: /x"}"#]);
    assert_eq!(events[..2], ["part 1 Text", "part 1 + \"Unknown command: /x\""]);
}

#[test]
fn compaction_is_not_an_empty_success() {
    let boundary =
        r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{"pre_tokens":125,"post_tokens":14}}"#;
    let summary = r#"{"type":"user","message":{"content":"This session is being continued"},"isSynthetic":true}"#;
    let stdout = r#"{"type":"user","message":{"content":"<local-command-stdout>Compacted </local-command-stdout>"}}"#;
    let events =
        turn(&[boundary, summary, stdout, r#"{"type":"result","subtype":"success","is_error":false,"result":""}"#]);
    assert_eq!(events[..2], ["compaction", "compacted Some(125) Some(14)"]);
    assert!(events[2].starts_with("usage"), "the summary and the command's output are not shown: {events:?}");
    assert_eq!(events.last().unwrap(), "ended Completed { empty: false }");
}

#[test]
fn permission_mode_change_by_the_agent_is_reported() {
    let status = |more: &str| format!(r#"{{"type":"system","subtype":"status","status":null{more}}}"#);
    let modes = [r#","permissionMode":"plan""#, "", r#","permissionMode":null"#, r#","permissionMode":"default""#];
    let lines = modes.map(status);
    let events = turn(&lines.each_ref().map(String::as_str));
    assert_eq!(events[..2], ["mode plan", "mode default"], "{events:?}");
}

#[test]
fn compaction_starts_and_fails_once() {
    let compacting = r#"{"type":"system","subtype":"status","status":"compacting"}"#;
    let failed =
        r#"{"type":"system","subtype":"status","status":null,"compact_result":"failed","compact_error":"Too long"}"#;
    let aborted =
        r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming"}"#;
    assert_eq!(turn(&[compacting, compacting, failed])[..], ["compaction", "not compacted: Too long"]);
    let given_up = "not compacted: The turn ended before the conversation was compacted.";
    assert_eq!(turn(&[compacting, aborted])[..2], ["compaction", given_up]);
}

#[test]
fn retry_has_status_and_category() {
    let retry = |status: &str| {
        let line = format!(
            r#"{{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"retry_delay_ms":1055.5,"error_status":{status},"error":"x"}}"#
        );
        turn(&[&line]).remove(0)
    };
    assert_eq!(retry("401"), "retry 2/10 in 1.0555s: Some(401) Auth");
    assert_eq!(retry("403"), "retry 2/10 in 1.0555s: Some(403) Auth");
    assert_eq!(retry("529"), "retry 2/10 in 1.0555s: Some(529) Overloaded");
    assert_eq!(retry("null"), "retry 2/10 in 1.0555s: None Network");
}

#[test]
fn agent_initiated_turn_is_distinguished() {
    let mut mapper = EventMapper::default();
    assert_eq!(replay(&mut mapper, &[INIT, SUCCESS])[0], "began unasked");
    mapper.prompt_sent(Uuid::nil());
    assert_eq!(replay(&mut mapper, &[INIT, SUCCESS])[0], "began");
    assert_eq!(replay(&mut mapper, &[SUCCESS])[0], "began unasked", "a result alone is a turn, too");
}

#[test]
fn prompt_names_of_newer_builds_are_used() {
    let named = r#"{"type":"system","subtype":"init","session_id":"S","capabilities":["msg_lifecycle_v1"],"user_message_uuids":["00000000-0000-0000-0000-000000000000"]}"#;
    let unnamed = r#"{"type":"system","subtype":"init","session_id":"S","capabilities":["msg_lifecycle_v1"]}"#;
    let mut mapper = EventMapper::default();
    mapper.prompt_sent(Uuid::nil());
    assert_eq!(replay(&mut mapper, &[unnamed, SUCCESS])[0], "began unasked", "our prompt waits behind it");
    assert_eq!(replay(&mut mapper, &[named, SUCCESS])[0], "began");
}

#[test]
fn interrupted_turn_uses_streamed_usage() {
    let interrupted = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","usage":{"input_tokens":0,"output_tokens":0}}"#;
    assert_eq!(turn(&[START, interrupted]), [r#"usage 100 1 of "m" 0"#, "ended Interrupted"]);
}

#[test]
fn id_is_no_token_before_the_first_turn_ends() {
    // An agent that is killed now may have stored nothing.
    assert_eq!(replay(&mut EventMapper::default(), &[INIT]), ["began unasked"]);
}

#[test]
fn transcript_path_is_preferred_as_token() {
    let mut mapper = EventMapper::default();
    let mut tokens = |lines: &[&str], found: bool| {
        if found {
            mapper.transcript_found("S", "/t/S.jsonl".into());
        }
        let events = replay(&mut mapper, lines);
        events.into_iter().filter(|event| event.starts_with("resume")).collect::<Vec<_>>()
    };
    let cleared = INIT.replace("\"S\"", "\"S2\"");
    assert_eq!(tokens(&[INIT, SUCCESS], false), ["resume S"]);
    assert_eq!(tokens(&[INIT, SUCCESS], true), ["resume /t/S.jsonl"]);
    assert_eq!(tokens(&[INIT, SUCCESS], true), [""; 0], "a token is reported once");
    assert_eq!(tokens(&[&cleared], false), ["resume S2"], "after /clear the old path is no token");
}
