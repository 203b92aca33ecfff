//! Property tests: for any output of an agent there is no panic, and events are in order.

use crate::event_order::OrderCheck;
use hostler_claude::mapping::EventMapper;
use hostler_claude::wire::WireMessage;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Values that decide something, so that random messages reach every branch.
const WORDS: &[&str] = &[
    "a",
    "b",
    "tool_1",
    "tool_2",
    "msg_1",
    "msg_2",
    "text",
    "thinking",
    "tool_use",
    "tool_result",
    "text_delta",
    "thinking_delta",
    "input_json_delta",
    "success",
    "error_during_execution",
    "aborted_tools",
    "reject",
    "<synthetic>",
    "<local-command-stdout>x</local-command-stdout>",
    "PreToolUse:Bash hook error: no",
    "",
    "é🦀",
    "msg_lifecycle_v1",
    "API Error: {",
    "0e4b8f9c-9f0e-4d5a-8d4f-3b1f6a1c2d3e",
];

const KEYS: &[&str] = &[
    "type",
    "subtype",
    "event",
    "message",
    "id",
    "index",
    "delta",
    "content_block",
    "content",
    "text",
    "thinking",
    "partial_json",
    "tool_use_id",
    "is_error",
    "usage",
    "input_tokens",
    "result",
    "errors",
    "terminal_reason",
    "session_id",
    "permission_denials",
    "capabilities",
    "user_message_uuids",
    "tool_result_meta",
    "name",
    "input",
    "parent_tool_use_id",
    "retry_delay_ms",
    "attempt",
    "error_status",
    "compact_metadata",
    "model",
    "modelUsage",
];

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(WORDS).prop_map(str::to_owned)
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        word().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(KEYS), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// Well-formed messages in random order.
fn plausible() -> impl Strategy<Value = Value> {
    let index = 0..3_u8;
    let id = prop::sample::select(&["msg_1", "msg_2"][..]);
    let tool = prop::sample::select(&["tool_1", "tool_2"][..]);
    let kind = prop::sample::select(&["text", "thinking"][..]);
    let event = |event: Value| json!({"type": "stream_event", "event": event, "parent_tool_use_id": null});
    let assistant = |id: &str, block: Value| json!({"type": "assistant", "message": {"id": id, "content": [block]}});
    prop_oneof![
        Just(json!({"type": "system", "subtype": "init", "session_id": "s"})),
        id.clone().prop_map(move |id| event(json!({"type": "message_start", "message": {"id": id, "model": "m"}}))),
        (index.clone(), kind.clone()).prop_map(move |(index, kind)| event(
            json!({"type": "content_block_start", "index": index, "content_block": {"type": kind, kind: ""}})
        )),
        (index.clone(), tool.clone()).prop_map(move |(index, id)| event(
            json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": id, "name": "T"}})
        )),
        (index.clone(), kind.clone(), word()).prop_map(move |(index, kind, text)| event(
            json!({"type": "content_block_delta", "index": index, "delta": {"type": format!("{kind}_delta"), kind: text}})
        )),
        (index.clone(), word()).prop_map(move |(index, json)| event(
            json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": json}})
        )),
        index.prop_map(move |index| event(json!({"type": "content_block_stop", "index": index}))),
        Just(event(json!({"type": "message_delta", "usage": {"output_tokens": 7}}))),
        Just(event(json!({"type": "message_stop"}))),
        (id.clone(), kind, word()).prop_map(move |(id, kind, text)| assistant(id, json!({"type": kind, kind: text}))),
        (id, tool.clone()).prop_map(move |(id, tool)| assistant(
            id,
            json!({"type": "tool_use", "id": tool, "name": "T", "input": {}})
        )),
        (tool, any::<bool>()).prop_map(|(tool, failed)| json!({"type": "user", "message": {"content": [
            {"type": "tool_result", "tool_use_id": tool, "is_error": failed, "content": "x"}]}})),
        any::<bool>().prop_map(|failed| json!({"type": "result", "subtype": "success", "is_error": failed, "result": "x"})),
    ]
}

fn replay(messages: &[Value]) {
    let mut mapper = EventMapper::default();
    let mut order = OrderCheck::default();
    for message in messages {
        let line = message.to_string();
        if let Ok(message) = WireMessage::parse(line.as_bytes()) {
            for event in mapper.on_message(&message) {
                order.see(&event);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_bytes_parse_to_a_message_or_an_error(line in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = WireMessage::parse(&line);
    }

    #[test]
    fn any_json_yields_events_in_order(messages in prop::collection::vec((word(), anything()), 0..20)) {
        let types = ["assistant", "user", "system", "result", "stream_event", "control_request", "control_response"];
        let messages: Vec<Value> = messages
            .into_iter()
            .enumerate()
            .map(|(number, (_, mut value))| {
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("type".to_owned(), json!(types[number % types.len()]));
                }
                value
            })
            .collect();
        replay(&messages);
    }

    #[test]
    fn well_formed_messages_in_any_order_yield_events_in_order(messages in prop::collection::vec(plausible(), 0..60)) {
        replay(&messages);
    }
}
