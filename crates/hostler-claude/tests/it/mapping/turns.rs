//! Mapping tests for causes of turns and background tasks. The lines are those that the two builds print.

use super::*;

/// A newer build's message at the start of a turn.
fn native(prompts: &[Uuid]) -> String {
    let named = match prompts {
        [] => String::new(),
        ids => format!(r#","user_message_uuids":{}"#, serde_json::to_string(ids).unwrap()),
    };
    format!(r#"{{"type":"system","subtype":"init","session_id":"S","capabilities":["msg_lifecycle_v1"]{named}}}"#)
}

fn started(id: &str, kind: &str, backgrounded: Option<bool>) -> String {
    let backgrounded = backgrounded.map(|is| format!(r#","is_backgrounded":{is}"#)).unwrap_or_default();
    format!(
        r#"{{"type":"system","subtype":"task_started","task_id":"{id}","tool_use_id":"T","description":"job {id}","task_type":"{kind}"{backgrounded}}}"#
    )
}

fn updated(id: &str, status: &str) -> String {
    format!(r#"{{"type":"system","subtype":"task_updated","task_id":"{id}","patch":{{"status":"{status}"}}}}"#)
}

fn over(id: &str, status: &str) -> String {
    format!(
        r#"{{"type":"system","subtype":"task_notification","task_id":"{id}","status":"{status}","summary":"Background command \"job {id}\" {status} (exit code 0)"}}"#
    )
}

fn listed(ids: &[&str]) -> String {
    let tasks: Vec<_> = ids.iter().map(|id| format!(r#"{{"task_id":"{id}","task_type":"local_bash"}}"#)).collect();
    format!(r#"{{"type":"system","subtype":"background_tasks_changed","tasks":[{}]}}"#, tasks.join(","))
}

/// A call's result that names a background task.
fn left(fields: &str) -> String {
    format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"T","content":"x"}}]}},"tool_use_result":{fields}}}"#
    )
}

const REQUESTING: &str = r#"{"type":"system","subtype":"status","status":"requesting"}"#;

fn reasons(mapper: &mut EventMapper, lines: &[&str]) -> Vec<String> {
    let mut reasons = Vec::new();
    for line in lines {
        for event in mapper.on_message(&WireMessage::parse(line.as_bytes()).unwrap()) {
            match event {
                DriverEvent::TurnStarted(TurnCause::Prompt) => reasons.push("prompt".to_owned()),
                DriverEvent::TurnStarted(TurnCause::Agent(reason)) => reasons.push(reason),
                _ => {}
            }
        }
    }
    reasons
}

fn about(events: Vec<String>) -> Vec<String> {
    events.into_iter().filter(|event| event.starts_with("background")).collect()
}

#[test]
fn background_shell_is_reported_once_on_both_builds() {
    let native_lines = [&listed(&["b"]), &started("b", "local_bash", Some(true)), &left(r#"{"backgroundTaskId":"b"}"#)]
        .map(|s| s.clone());
    let js_lines = [started("b", "local_bash", None), left(r#"{"stdout":"","backgroundTaskId":"b"}"#)];
    for lines in [&native_lines[..], &js_lines[..]] {
        let mut mapper = EventMapper::default();
        let lines: Vec<_> = [INIT].into_iter().chain(lines.iter().map(String::as_str)).collect();
        assert_eq!(about(replay(&mut mapper, &lines)), ["background b Shell job b"]);
        assert!(mapper.is_running_in_background("b") && !mapper.is_running_in_background("c"));
        // Outside of a turn, and by whichever line comes first.
        let mut order = mapper.on_message(&WireMessage::parse(updated("b", "killed").as_bytes()).unwrap());
        for line in [over("b", "stopped"), listed(&[])] {
            order.extend(mapper.on_message(&WireMessage::parse(line.as_bytes()).unwrap()));
        }
        assert!(matches!(&order[..], [DriverEvent::BackgroundTaskEnded { id }] if id == "b"), "{order:?}");
        assert!(!mapper.is_running_in_background("b"));
    }
}

#[test]
fn foreground_task_is_not_background_work() {
    for backgrounded in [None, Some(false)] {
        for kind in ["local_bash", "local_agent"] {
            let lines = [
                started("f", kind, backgrounded),
                over("f", "completed"),
                left(r#"{"stdout":"fg","agentId":"f","isAsync":false}"#),
                left(r#""Error: Exit code 1""#),
            ];
            let mut mapper = EventMapper::default();
            let lines: Vec<_> = [INIT].into_iter().chain(lines.iter().map(String::as_str)).collect();
            assert_eq!(about(replay(&mut mapper, &lines)), [""; 0], "{kind}");
            assert_eq!(reasons(&mut mapper, &[SUCCESS, INIT]), ["The agent continues on its own."]);
        }
    }
}

#[test]
fn task_is_reported_when_it_moves_to_the_background() {
    let lines = [started("m", "local_bash", Some(false)), listed(&["m"]), listed(&[])];
    let lines: Vec<_> = [INIT].into_iter().chain(lines.iter().map(String::as_str)).collect();
    assert_eq!(about(replay(&mut EventMapper::default(), &lines)), ["background m Shell job m", "background m ended"]);
}

#[test]
fn background_sub_agent_turn_has_a_generated_reason() {
    // Some builds use its final text as the summary.
    for (line, result) in [
        (started("a", "local_agent", Some(true)), None),
        (started("a", "local_agent", None), Some(left(r#"{"isAsync":true,"status":"async_launched","agentId":"a"}"#))),
    ] {
        let mut mapper = EventMapper::default();
        let lines: Vec<_> = [INIT, &line].into_iter().chain(result.as_deref()).chain([SUCCESS]).collect();
        assert_eq!(about(replay(&mut mapper, &lines)), ["background a SubAgent job a"]);
        assert_eq!(reasons(&mut mapper, &[&over("a", "failed"), INIT]), ["Background agent \"job a\" failed"]);
    }
}

#[test]
fn older_build_turn_follows_its_notification() {
    let mut mapper = EventMapper::default();
    let background = [started("b", "local_bash", None), left(r#"{"backgroundTaskId":"b"}"#)];
    mapper.prompt_sent(Uuid::new_v4());
    assert_eq!(reasons(&mut mapper, &[INIT, &background[0], &background[1], SUCCESS]), ["prompt"]);
    // A prompt is written at the moment the agent starts a turn by itself.
    mapper.prompt_sent(Uuid::new_v4());
    let woken = [&*updated("b", "completed"), &*over("b", "completed"), INIT, SUCCESS, INIT, SUCCESS, INIT];
    assert_eq!(
        reasons(&mut mapper, &woken),
        ["Background command \"job b\" completed (exit code 0)", "prompt", "The agent continues on its own."]
    );
}

#[test]
fn usage_has_context_size_and_turn_cost() {
    let delta =
        |tokens: &str| format!(r#"{{"type":"stream_event","event":{{"type":"message_delta","usage":{tokens}}}}}"#);
    let counted = delta(r#"{"output_tokens":25,"cache_read_input_tokens":1000,"cache_creation_input_tokens":10}"#);
    let result = |fields: &str| SUCCESS.replace(r#""is_error""#, &format!(r#"{fields},"is_error""#));
    let mut mapper = EventMapper::default();
    let mut usage = |lines: &[&str]| {
        let mut last = None;
        for line in lines {
            for event in mapper.on_message(&WireMessage::parse(line.as_bytes()).unwrap()) {
                if let DriverEvent::Usage(usage) = event {
                    last = Some((usage.context_tokens, usage.cost_usd));
                }
            }
        }
        last.unwrap()
    };
    assert_eq!(usage(&[INIT, START, &counted]), (Some(1135), None), "100 and 25, and what was cached");
    assert_eq!(usage(&[START, &result(r#""total_cost_usd":0.5"#)]), (Some(101), Some(0.5)), "the latest answer counts");
    assert_eq!(usage(&[INIT, &result(r#""total_cost_usd":0.75"#)]), (Some(101), Some(0.25)), "without an answer");
    let message =
        result(r#""total_cost_usd":9,"model_usage_since_last_result":{"m":{"costUSD":0.5},"n":{"costUSD":0.25}}"#);
    assert_eq!(usage(&[INIT, &message]), (Some(101), Some(0.75)), "what the agent says itself");
    assert_eq!(usage(&[INIT, &result(r#""total_cost_usd":0.125"#)]).1, Some(0.125), "after it was cleared");
    let boundary =
        r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{"pre_tokens":125,"post_tokens":14}}"#;
    assert_eq!(usage(&[INIT, START, boundary, SUCCESS]), (Some(14), None));
}

#[test]
fn model_change_is_no_turn_and_no_notice() {
    let message = r#"{"type":"user","message":{"content":"<local-command-stdout>Set model to x</local-command-stdout>"},"isReplay":true}"#;
    let mut mapper = EventMapper::default();
    mapper.set_model_change_pending(true);
    assert_eq!(replay(&mut mapper, &[message]), [""; 0], "outside of a turn");
    assert_eq!(replay(&mut mapper, &[INIT, message]), ["began unasked"], "within one");
    mapper.set_model_change_pending(false);
    let typed = mapper.on_message(&WireMessage::parse(message.as_bytes()).unwrap());
    assert!(
        matches!(&typed[..], [DriverEvent::Notice(text)] if text == "Set model to x"),
        "what a person typed is shown"
    );
}

#[test]
fn stopped_task_starts_no_turn() {
    let mut mapper = EventMapper::default();
    let background = [started("b", "local_bash", None), left(r#"{"backgroundTaskId":"b"}"#)];
    replay(&mut mapper, &[INIT, &background[0], &background[1], SUCCESS]);
    mapper.prompt_sent(Uuid::new_v4());
    assert_eq!(reasons(&mut mapper, &[&updated("b", "killed"), &over("b", "stopped"), INIT]), ["prompt"]);
}

#[test]
fn newer_build_names_and_merges_prompts() {
    let (one, two, three) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3));
    let mut mapper = EventMapper::default();
    mapper.prompt_sent(one);
    let background = started("b", "local_bash", Some(true));
    assert_eq!(reasons(&mut mapper, &[&native(&[one]), &background]), ["prompt"]);
    // It notifies at once, during an answer, and starts a turn about it later; two prompts wait behind that.
    mapper.prompt_sent(two);
    mapper.prompt_sent(three);
    let lines = [&*over("b", "completed"), SUCCESS, &native(&[]), SUCCESS, &native(&[two, three]), SUCCESS];
    assert_eq!(reasons(&mut mapper, &lines), ["Background command \"job b\" completed (exit code 0)", "prompt"]);
    assert_eq!(reasons(&mut mapper, &[&native(&[])]), ["The agent continues on its own."], "nothing waits any more");
}

#[test]
fn folded_notification_is_no_reason_for_another_turn() {
    let mut mapper = EventMapper::default();
    let background = started("b", "local_bash", Some(true));
    let lines =
        [&native(&[]), REQUESTING, &background, &over("b", "completed"), REQUESTING, SUCCESS, &native(&[]), SUCCESS];
    assert_eq!(reasons(&mut mapper, &lines), ["The agent continues on its own."; 2]);
}

#[test]
fn unannounced_turn_belongs_to_the_started_prompt() {
    // A compacting command reports it before its turn starts.
    let compacting = r#"{"type":"system","subtype":"status","status":"compacting"}"#;
    let lifecycle = |state: &str| {
        format!(
            r#"{{"type":"command_lifecycle","command_uuid":"00000000-0000-0000-0000-000000000000","state":"{state}"}}"#
        )
    };
    let mut mapper = EventMapper::default();
    mapper.prompt_sent(Uuid::nil());
    assert_eq!(reasons(&mut mapper, &[&lifecycle("queued"), &lifecycle("started"), compacting]), ["prompt"]);
    let mut mapper = EventMapper::default();
    mapper.prompt_sent(Uuid::nil());
    let lines = [&*lifecycle("queued"), &lifecycle("cancelled"), INIT];
    assert_eq!(reasons(&mut mapper, &lines), ["The agent continues on its own."]);
}
