//! Properties that hold for every input.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::streams::{cases, delta, finish, sse, translated, translator};
use crate::dialect::{ChatDialect, LateSystemRole, TokenLimitField};
use crate::request::{self, ResponseContext};
use crate::response;

#[test]
fn a_stream_split_at_any_byte_is_translated_equally() {
    for (title, bytes) in cases() {
        let bytes = bytes.as_bytes();
        let (written, outcome) = translated(translator(true), [bytes]);
        let same = |chunks: Vec<&[u8]>| {
            let (again, ended) = translated(translator(true), chunks);
            assert_eq!(again, written, "{title}");
            assert_eq!(format!("{ended:?}"), format!("{outcome:?}"), "{title}");
        };
        for at in 0..=bytes.len() {
            let (left, right) = bytes.split_at(at);
            same(vec![left, right]);
        }
        same(bytes.chunks(1).collect());
    }
}

/// Keys and values that the translation looks for, so that random JSON resembles a request or a response.
const VOCABULARY: [&str; 44] = [
    "model",
    "messages",
    "role",
    "content",
    "type",
    "text",
    "user",
    "assistant",
    "system",
    "tool_use",
    "tool_result",
    "tool_use_id",
    "id",
    "name",
    "input",
    "image",
    "source",
    "base64",
    "url",
    "data",
    "document",
    "tools",
    "input_schema",
    "tool_choice",
    "any",
    "thinking",
    "enabled",
    "output_config",
    "choices",
    "delta",
    "message",
    "finish_reason",
    "stop",
    "tool_calls",
    "function",
    "arguments",
    "index",
    "usage",
    "error",
    "code",
    "reasoning_content",
    "refusal",
    "{}",
    "{\"a\":",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(VOCABULARY.as_slice()).prop_map(str::to_owned), 1 => ".{0,6}"]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..6).prop_map(|fields| Value::from(Map::from_iter(fields))),
        ]
    })
}

fn dialect() -> impl Strategy<Value = ChatDialect> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(limit, system, reasoning_effort)| ChatDialect {
        token_limit_field: if limit { TokenLimitField::MaxTokens } else { TokenLimitField::MaxCompletionTokens },
        late_system_role: if system { LateSystemRole::System } else { LateSystemRole::User },
        supports_reasoning_effort: reasoning_effort,
    })
}

/// A block that is valid in this role's message, or occasionally an invalid one.
fn any_block(role: &'static str) -> impl Strategy<Value = Value> {
    let own = match role {
        "user" => prop_oneof![
            "[ab]".prop_map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "done"})),
            Just(json!({"type": "image", "source": {"type": "url", "url": "https://example.org"}})),
        ]
        .boxed(),
        "assistant" => prop_oneof![
            "[ab]".prop_map(|id| json!({"type": "tool_use", "id": id, "name": "Read", "input": {}})),
            Just(json!({"type": "thinking", "thinking": "hm", "signature": ""})),
        ]
        .boxed(),
        _ => Just(json!({"type": "text", "text": "remember"})).boxed(),
    };
    prop_oneof![
        20 => ".{0,8}".prop_map(|text| json!({"type": "text", "text": text})),
        20 => own,
        1 => any_json(),
    ]
}

fn any_conversation() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(["user", "assistant", "system"].as_slice());
    let message = role.prop_flat_map(|role| {
        prop::collection::vec(any_block(role), 0..4).prop_map(move |content| json!({"role": role, "content": content}))
    });
    prop::collection::vec(message, 0..8)
        .prop_map(|messages| json!({"model": "m", "max_tokens": 5, "messages": messages}))
}

/// The order that chat completions require of a conversation.
fn check_order(chat: &Value) -> Result<(), TestCaseError> {
    let messages = chat["messages"].as_array().cloned().unwrap_or_default();
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "tool") {
        let before = messages[..at].iter().rev().find(|before| before["role"] != "tool");
        let follows_calls = before.is_some_and(|before| before["tool_calls"].is_array());
        prop_assert!(follows_calls, "{message} in {chat:#}");
    }
    for pair in messages.windows(2) {
        let twice = pair[0]["role"] == pair[1]["role"] && (pair[0]["role"] == "user" || pair[0]["role"] == "assistant");
        prop_assert!(!twice, "{chat:#}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_json_is_translated_or_rejected(json in any_json(), dialect in dialect()) {
        let text = json.to_string();
        let _ = request::translate_request(text.as_bytes(), "m", true, dialect);
        let _ = response::translate_response(text.as_bytes(), "msg_1", "m", ResponseContext::default());
        let stream = sse(&[delta(json.clone()), json, finish("stop")]);
        let _ = translated(translator(true), [stream.as_bytes()]);
    }

    #[test]
    fn any_bytes_are_translated_or_rejected(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
        let _ = translated(translator(true), chunks.iter().map(Vec::as_slice));
    }

    #[test]
    fn results_follow_their_calls_and_roles_alternate(conversation in any_conversation(), dialect in dialect()) {
        if let Ok(translated) = request::translate_request(conversation.to_string().as_bytes(), "m", false, dialect) {
            check_order(&serde_json::from_slice(&translated.body).unwrap())?;
        }
    }

    #[test]
    fn any_chunking_gives_equal_events(
        pieces in prop::collection::vec((0u64..3, "[a-c{}\"]{0,4}", any::<bool>()), 0..8),
        sizes in prop::collection::vec(1usize..60, 1..20),
    ) {
        let chunks: Vec<Value> = pieces
            .into_iter()
            .map(|(index, piece, is_text)| match is_text {
                true => delta(json!({"content": piece})),
                false => delta(json!({"tool_calls": [{"index": index, "function": {"name": "Read", "arguments": piece}}]})),
            })
            .chain([finish("length")])
            .collect();
        let bytes = sse(&chunks).into_bytes();
        let (written, outcome) = translated(translator(true), [bytes.as_slice()]);
        let mut rest = bytes.as_slice();
        let mut cut = Vec::new();
        for size in sizes.into_iter().cycle() {
            let (head, tail) = rest.split_at(size.min(rest.len()));
            cut.push(head);
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        let (again, ended) = translated(translator(true), cut);
        prop_assert_eq!(again, written);
        prop_assert_eq!(format!("{ended:?}"), format!("{outcome:?}"));
    }
}
