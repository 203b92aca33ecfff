//! Unit tests of the replay of stored turns and of their sub-agents.

use std::fmt::Write as _;
use std::io::Cursor;

use hostler_driver::SubAgentEvent;

use super::*;

fn turns(text: &str) -> Vec<TranscriptReplay> {
    turns_with(text, &|_| None)
}

fn turns_with(text: &str, sub_agents: &SubAgentLookup<'_>) -> Vec<TranscriptReplay> {
    let index = TranscriptIndex::read(&mut Cursor::new(text)).unwrap();
    let chain = RecordChain::from_index(&index);
    let line = |at: usize| {
        let link = &index.records[chain.positions[at]];
        let place = usize::try_from(link.byte_range.start).unwrap()..usize::try_from(link.byte_range.end).unwrap();
        (link.kind, text.get(place).unwrap().as_bytes())
    };
    let spans = chain.turn_spans(&index);
    spans
        .into_iter()
        .map(|span| replay_turn(Path::new("/p"), span.range.map(line), span.continues_in_next, sub_agents))
        .collect()
}

/// The displayed part of a turn.
fn seen(turn: &TranscriptReplay) -> String {
    let mut seen = match &turn.origin {
        TurnOrigin::User { text, attachment_count: 0 } => format!("> {text}"),
        TurnOrigin::User { text, attachment_count: attached } => format!("> {text} [{attached}]"),
        TurnOrigin::Agent(reason) => format!("* {reason}"),
    };
    for event in &turn.events {
        let _ = match event {
            DriverEvent::PartDelta { text, .. } => write!(seen, " | {text}"),
            DriverEvent::ToolReady { id, .. } => write!(seen, " | call {id}"),
            DriverEvent::ToolFinished { id, outcome, .. } => write!(seen, " | {id} {outcome:?}"),
            DriverEvent::CompactionFinished { tokens_before: before, tokens_after: after } => {
                write!(seen, " | shortened {before:?} {after:?}")
            }
            DriverEvent::Notice(text) => write!(seen, " | note {text}"),
            DriverEvent::TurnEnded(outcome) => write!(seen, " | {outcome:?}"),
            _ => Ok(()),
        };
    }
    seen
}

fn prompt(name: &str, parent: &str, text: &str) -> String {
    json!({"type": "user", "uuid": name, "parentUuid": parent, "timestamp": "2026-01-01T00:00:00Z",
        "message": {"content": text}})
    .to_string()
}

fn answer(name: &str, parent: &str, message: &str, block: &serde_json::Value) -> String {
    json!({"type": "assistant", "uuid": name, "parentUuid": parent, "timestamp": "2026-01-01T00:00:05Z",
        "message": {"id": message, "model": "m", "content": [block], "usage": {"input_tokens": 10, "output_tokens": 3}}})
    .to_string()
}

fn text(text: &str) -> serde_json::Value {
    json!({"type": "text", "text": text})
}

#[test]
fn replayed_turn_has_usage_and_end() {
    let turns = turns(&[prompt("a", "", "hi"), answer("b", "a", "1", &text("hello"))].join("\n"));
    let [turn] = &turns[..] else { panic!("one turn") };
    assert_eq!(seen(turn), "> hi | hello | Completed { empty: false }");
    assert_eq!(turn.started_at.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(turn.ended_at.as_deref(), Some("2026-01-01T00:00:05Z"));
    let usage = turn.events.iter().rev().find_map(|event| match event {
        DriverEvent::Usage(usage) => Some((usage.input, usage.output, usage.context_tokens, usage.model.clone())),
        _ => None,
    });
    assert_eq!(usage, Some((10, 3, Some(13), Some("m".to_owned()))));
}

#[test]
fn calls_without_results_are_cut_off() {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}});
    let result = |name: &str, parent: &str, id: &str, error: bool| {
        json!({"type": "user", "uuid": name, "parentUuid": parent,
            "message": {"content": [{"type": "tool_result", "tool_use_id": id, "is_error": error, "content": "x"}]}})
        .to_string()
    };
    let lines = [
        prompt("a", "", "go"),
        answer("b", "a", "1", &call("t1")),
        answer("c", "b", "1", &call("t2")),
        result("d", "c", "t2", true),
        result("e", "b", "t1", false),
        answer("f", "e", "2", &call("t3")),
    ];
    let turns = turns(&lines.join("\n"));
    let seen = seen(&turns[0]);
    let replayed = "| call t1 | call t2 | t2 Failed | t1 Succeeded | call t3 | t3 Failed |";
    assert!(seen.contains(replayed), "{seen}");
}

#[test]
fn interrupted_failed_and_empty_turns_have_their_outcome() {
    let interrupted = prompt("c", "b", "[Request interrupted by user]");
    let lines = [prompt("a", "", "hi"), answer("b", "a", "1", &text("hel")), interrupted];
    assert!(matches!(
        turns(&lines.join("\n"))[0].events.last(),
        Some(DriverEvent::TurnEnded(TurnOutcome::Interrupted))
    ));
    let failed = json!({"type": "assistant", "uuid": "b", "parentUuid": "a", "isApiErrorMessage": true, "apiErrorStatus": 529,
        "message": {"id": "x", "model": "<synthetic>", "content": [text("API Error: overloaded")]}});
    let turn = &turns(&[prompt("a", "", "hi"), failed.to_string()].join("\n"))[0];
    let Some(DriverEvent::TurnEnded(TurnOutcome::Failed(failure))) = turn.events.last() else {
        panic!("{}", seen(turn))
    };
    assert_eq!((failure.status, failure.message.as_str()), (Some(529), "API Error: overloaded"));
    let turn = &turns(&prompt("a", "", "hi"))[0];
    assert!(matches!(turn.events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Interrupted))), "{}", seen(turn));
}

#[test]
fn cut_off_turn_stays_cut_off_after_a_resume() {
    let filler = |parent: &str| {
        json!({"type": "assistant", "uuid": "x", "parentUuid": parent,
            "message": {"id": "x", "model": "<synthetic>", "content": [text("No response requested.")]}})
        .to_string()
    };
    let call = json!({"type": "tool_use", "id": "t1", "name": "Bash", "input": {}});
    let called = [prompt("a", "", "hi"), answer("b", "a", "1", &call)];
    for lines in [vec![prompt("a", "", "hi"), filler("a")], called.to_vec(), [&called[..], &[filler("b")]].concat()] {
        let turn = &turns(&lines.join("\n"))[0];
        let (seen, end) = (seen(turn), turn.events.last());
        assert!(matches!(end, Some(DriverEvent::TurnEnded(TurnOutcome::Interrupted))), "{seen}");
        assert!(!seen.contains("No response"), "{seen}");
    }
}

#[test]
fn compact_command_is_a_turn() {
    let boundary = json!({"type": "system", "subtype": "compact_boundary", "uuid": "c", "logicalParentUuid": "b",
        "compactMetadata": {"preTokens": 100, "postTokens": 7}});
    let summary = json!({"type": "user", "uuid": "d", "parentUuid": "c", "isCompactSummary": true, "message": {"content": "long ago"}});
    let lines = [
        prompt("a", "", "hi"),
        answer("b", "a", "1", &text("hello")),
        boundary.to_string(),
        summary.to_string(),
        prompt("e", "d", "<command-name>/compact</command-name>\n<command-args>briefly</command-args>"),
        prompt("f", "e", "<local-command-stdout>Compacted </local-command-stdout>"),
        prompt("g", "f", "on"),
        answer("h", "g", "2", &text("yes")),
    ];
    let turns: Vec<String> = turns(&lines.join("\n")).iter().map(seen).collect();
    assert_eq!(turns.len(), 3, "{turns:#?}");
    assert!(turns[0].ends_with("| hello | Completed { empty: false }"), "{turns:#?}");
    assert!(turns[1].starts_with("> /compact briefly | shortened Some(100) Some(7)"), "{turns:#?}");
    assert!(turns[2].ends_with("| yes | Completed { empty: false }"), "{turns:#?}");
}

/// As both builds write them in a terminal.
#[test]
fn terminal_commands_are_turns_with_their_output() {
    let printed = json!({"type": "system", "subtype": "local_command", "uuid": "f", "parentUuid": "e", "isMeta": false,
        "content": "<local-command-stdout>Total cost: $1</local-command-stdout>"});
    let lines = [
        prompt("a", "", "<bash-input>ls; who</bash-input>"),
        prompt("b", "a", "<bash-stdout>one\n```two\n</bash-stdout><bash-stderr>who?</bash-stderr>"),
        prompt("c", "b", "<bash-input>true</bash-input>"),
        prompt("d", "c", "<bash-stdout></bash-stdout><bash-stderr></bash-stderr>"),
        prompt("e", "d", "<command-name>/cost</command-name>\n<command-args></command-args>"),
        printed.to_string(),
        prompt("g", "f", "<command-name>/fast</command-name>"),
        prompt("h", "g", "<local-command-stderr>Not here.</local-command-stderr>"),
        prompt("i", "h", "<command-name>/exit</command-name>"),
        prompt("j", "i", "<local-command-stdout>See ya!</local-command-stdout>"),
    ];
    let turns: Vec<_> = turns(&lines.join("\n")).iter().map(seen).collect();
    let expected = [
        "> !ls; who |     one\n    ```two\n    who? | Completed { empty: false }",
        "> !true | Completed { empty: false }",
        "> /cost | Total cost: $1 | Completed { empty: false }",
        "> /fast | note Not here. | Completed { empty: false }",
        "> /exit | note See ya! | Completed { empty: false }",
    ];
    assert_eq!(turns, expected);
}

#[test]
fn agent_initiated_turn_has_a_reason() {
    let replayed =
        prompt("a", "", "<task-notification>\n<summary>Agent \"look\" finished</summary>\n</task-notification>");
    assert_eq!(turns(&replayed)[0].origin, TurnOrigin::Agent("Agent \"look\" finished".to_owned()));
    let content = prompt("a", "", "what is <bash-input>ls</bash-input>?");
    let said = TurnOrigin::User { text: "what is <bash-input>ls</bash-input>?".to_owned(), attachment_count: 0 };
    assert_eq!(turns(&content)[0].origin, said);
    let shell = prompt("a", "", "<bash-input>ls -l</bash-input>");
    assert_eq!(turns(&shell)[0].origin, TurnOrigin::User { text: "!ls -l".to_owned(), attachment_count: 0 });
}

#[test]
fn steering_text_starts_a_turn_after_all_calls_of_its_answer() {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}});
    let result = |name: &str, parent: &str, id: &str| {
        json!({"type": "user", "uuid": name, "parentUuid": parent,
            "message": {"content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]}})
        .to_string()
    };
    let beside = |content: &str| {
        json!({"type": "attachment", "uuid": "e", "parentUuid": "d", "timestamp": "2026-01-01T00:00:03Z",
            "attachment": {"type": "hook_additional_context", "content": [content]}})
        .to_string()
    };
    let lines = |content: &str| {
        let lines = [
            prompt("a", "", "go"),
            answer("b", "a", "1", &call("t1")),
            answer("c", "b", "1", &call("t2")),
            result("d", "c", "t1"),
            beside(content),
            result("f", "e", "t2"),
            answer("g", "f", "2", &text("blue it is")),
        ];
        lines.join("\n")
    };
    let replayed: Vec<_> = turns(&lines(&crate::prompt::wrap_steering_text("in blue"))).iter().map(seen).collect();
    let expected = [
        "> go | call t1 | call t2 | t1 Succeeded | t2 Succeeded | Completed { empty: false }",
        "> in blue | blue it is | Completed { empty: false }",
    ];
    assert_eq!(replayed, expected);
    assert_eq!(turns(&lines("in blue")).len(), 1, "the context of another hook is not a user message");
}

/// The events of sub-agents.
fn sub_agents_of(turn: &TranscriptReplay) -> Vec<String> {
    let mut replayed = Vec::new();
    for event in &turn.events {
        if let DriverEvent::SubAgent { agent, event } = event {
            replayed.push(match event {
                SubAgentEvent::Started(start) => format!("{} by {}: {}", agent.0, start.call_id, start.prompt.expose()),
                SubAgentEvent::Activity(event) => match &**event {
                    DriverEvent::PartDelta { text, .. } => text.clone(),
                    _ => continue,
                },
                SubAgentEvent::Finished(outcome) => format!("{outcome:?}"),
            });
        }
    }
    replayed
}

#[test]
fn sub_agent_is_replayed_from_its_own_transcript() {
    let call = json!({"type": "tool_use", "id": "t1", "name": "Agent", "input": {"prompt": "look"}});
    for is_async in [false, true] {
        let result = json!({"type": "user", "uuid": "c", "parentUuid": "b",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
            "toolUseResult": {"agentId": "a1", "isAsync": is_async, "status": if is_async { "async_launched" } else { "completed" },
                "agentType": "general-purpose", "prompt": "look", "content": [{"type": "text", "text": "found"}]}});
        let lines = [
            prompt("a", "", "go"),
            answer("b", "a", "1", &call),
            result.to_string(),
            answer("d", "c", "2", &text("ok")),
        ];
        let own = [prompt("x", "", "look"), answer("y", "x", "s", &text("found"))]
            .join("\n")
            .replace("\"uuid\"", "\"isSidechain\":true,\"uuid\"");
        let turns = turns_with(&lines.join("\n"), &|asked| {
            let transcript = Ok(own.clone().into_bytes());
            (asked == SubAgentQuery::ById("a1")).then(|| SubAgentTranscript { id: "a1".to_owned(), transcript })
        });
        assert_eq!(sub_agents_of(&turns[0]), ["a1 by t1: look", "found", "Completed"], "{is_async}");
        assert!(seen(&turns[0]).ends_with("| t1 Succeeded | ok | Completed { empty: false }"), "{}", seen(&turns[0]));
        // Without its transcript the call remains.
        assert!(
            turns_with(&lines.join("\n"), &|_| None)[0]
                .events
                .iter()
                .all(|e| !matches!(e, DriverEvent::SubAgent { .. }))
        );
    }
}

#[test]
fn sub_agent_of_an_interrupted_call_is_replayed() {
    let call =
        json!({"type": "tool_use", "id": "t1", "name": "Agent", "input": {"description": "d", "prompt": "look"}});
    let interrupted = json!({"type": "user", "uuid": "c", "parentUuid": "b", "promptId": "m1", "toolUseResult": "Error: stopped",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": "stopped"}]}});
    let began = prompt("a", "", "go").replacen('{', "{\"promptId\":\"m1\",", 1);
    let own = prompt("x", "", "look") + "\n" + &answer("y", "x", "s", &text("so far"));
    let sub_agents = |asked: SubAgentQuery<'_>| {
        let expected = SubAgentQuery::ByCall { call: "t1", prompt: "look", message: Some("m1") };
        assert_eq!(asked, expected);
        Some(SubAgentTranscript { id: "a1".to_owned(), transcript: Ok(own.clone().into_bytes()) })
    };
    let cut_off = vec![began, answer("b", "a", "1", &call)];
    let replayed = turns_with(&cut_off.join("\n"), &sub_agents);
    assert_eq!(sub_agents_of(&replayed[0]), ["a1 by t1: look", "so far", "Stopped"]);
    let lines = [cut_off, vec![interrupted.to_string(), prompt("d", "c", "[Request interrupted by user]")]].concat();
    let replayed = turns_with(&lines.join("\n"), &sub_agents);
    let seen = sub_agents_of(&replayed[0]);
    assert_eq!(seen[..2], ["a1 by t1: look", "so far"]);
    assert_eq!(seen.len(), 3, "it is replayed once, and ends: {seen:?}");
}

#[test]
fn unreadable_sub_agent_is_reported() {
    let call =
        json!({"type": "tool_use", "id": "t1", "name": "Agent", "input": {"description": "d", "prompt": "look"}});
    let lines = [prompt("a", "", "go"), answer("b", "a", "1", &call)].join("\n");
    let torn = |_: SubAgentQuery<'_>| {
        let error = SubAgentTranscriptError::Unreadable("torn".to_owned());
        Some(SubAgentTranscript { id: "a1".to_owned(), transcript: Err(error) })
    };
    let replayed = seen(&turns_with(&lines, &torn)[0]);
    assert!(
        replayed.contains("| note The work of a sub-agent cannot be shown: failed to read its transcript: torn."),
        "{replayed}"
    );
}
