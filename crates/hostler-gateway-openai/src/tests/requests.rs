//! Translation of requests.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::dialect::{ChatDialect, LateSystemRole, TokenLimitField};
use crate::request::translate_request;
use crate::request_body_fields::UnsupportedRequest;

const SMALL_SERVER: ChatDialect = ChatDialect {
    token_limit_field: TokenLimitField::MaxTokens,
    late_system_role: LateSystemRole::User,
    supports_reasoning_effort: false,
};
const OPENAI: ChatDialect = ChatDialect {
    token_limit_field: TokenLimitField::MaxCompletionTokens,
    late_system_role: LateSystemRole::System,
    supports_reasoning_effort: true,
};

fn translated(request: &Value, stream: bool, dialect: ChatDialect) -> Result<Value, UnsupportedRequest> {
    translate_request(request.to_string().as_bytes(), "the-model", stream, dialect)
        .map(|translated| serde_json::from_slice(&translated.body).unwrap())
}

/// A request with these messages.
fn asking(messages: Value) -> Value {
    json!({"model": "the-model", "max_tokens": 100, "messages": messages})
}

/// A request with further fields.
fn with(fields: Value) -> Value {
    let mut request = asking(json!([{"role": "user", "content": "hi"}]));
    for (name, value) in fields.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {"path": "/a \"b\""}})
}

fn result(id: &str, content: Value) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}

fn png() -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}})
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Reads.", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}})
}

/// A shortened request of Claude Code's native build for a model whose name it does not know.
fn agent_request() -> Value {
    let cached = json!({"type": "ephemeral"});
    json!({
        "model": "the-model",
        "system": [text("You are an agent."), {"type": "text", "text": "Be brief.", "cache_control": cached}],
        "metadata": {"user_id": "{\"device_id\":\"d\",\"session_id\":\"s\"}"},
        "max_tokens": 32000,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "xhigh"},
        "tools": [
            tool("Read"),
            {"name": "DeferredToolPlaceholder", "description": "", "input_schema": {"type": "object"}, "defer_loading": true},
            {"name": "WebFetch", "description": "Fetches.", "input_schema": {"type": "object"}, "defer_loading": true},
        ],
        "messages": [
            user(json!([text("<system-reminder>one</system-reminder>"), text("look at it")])),
            {"role": "system", "content": [{"type": "text", "text": "# Environment", "cache_control": cached}]},
            assistant(json!([
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "redacted_thinking", "data": "AAAA"},
                text("I look."),
                call("call_1", "Read"),
                {"type": "tool_use", "id": "call_2", "name": "ToolSearch", "input": {"query": "select:WebFetch"}},
            ])),
            {"role": "system", "content": "A late word."},
            user(json!([
                text("and hurry"),
                {"type": "tool_result", "tool_use_id": "call_1", "content": [png(), text("8 x 8")], "cache_control": cached},
                result("call_2", json!([{"type": "tool_reference", "tool_name": "WebFetch"}])),
            ])),
        ],
        "stream": true,
    })
}

fn cases() -> Vec<(&'static str, Value)> {
    vec![
        ("a plain question", with(json!({}))),
        ("a system prompt as a string", with(json!({"system": "Be brief."}))),
        ("a system prompt in blocks", with(json!({"system": [text("Be brief."), text("Be kind.")]}))),
        ("an empty system prompt", with(json!({"system": []}))),
        (
            "sampling and stopping",
            with(json!({"temperature": 0.7, "top_p": 0.9, "stop_sequences": ["END", "\n\n"], "tools": null})),
        ),
        ("no stop sequences", with(json!({"stop_sequences": []}))),
        (
            "hints are ignored",
            with(json!({
                "metadata": {"user_id": "someone"}, "context_management": {"edits": []}, "service_tier": "auto",
                "cache_control": {"type": "ephemeral"}, "speed": "fast", "diagnostics": {"previous_message_id": null},
                "thinking": {"type": "enabled", "budget_tokens": 31999},
            })),
        ),
        (
            "blocks of one message are its paragraphs, and messages of one role are one",
            asking(json!([
                user(json!([text("one"), text(""), text("two")])),
                user(json!("three")),
                assistant(json!([text("four")])),
                assistant(json!([text("five"), call("call_1", "Read")])),
                user(json!([result("call_1", json!("six"))])),
            ])),
        ),
        (
            "images, by their bytes and by URL",
            asking(json!([user(json!([
                text("what is this?"),
                png(),
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            ]))])),
        ),
        (
            "a document of text",
            asking(json!([user(json!([
                {"type": "document", "title": "notes.txt", "context": "from the office", "source": {"type": "text", "media_type": "text/plain", "data": "one\ntwo"}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "three"}},
            ]))])),
        ),
        (
            "tools and their results: several, failed, empty, and the user's text after them",
            asking(json!([
                user(json!("go")),
                assistant(json!([call("call_1", "Read"), call("call_2", "Read"), call("call_3", "Read")])),
                user(json!([
                    text("meanwhile"),
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "no such file", "is_error": true},
                    {"type": "tool_result", "tool_use_id": "call_2", "is_error": null},
                    result("call_3", json!([text("a"), text("b")])),
                ])),
            ])),
        ),
        (
            "results in two messages",
            asking(json!([
                user(json!("go")),
                assistant(json!([call("call_1", "Read"), call("call_2", "Read")])),
                user(json!([result("call_1", json!([png()])), text("one")])),
                user(json!([result("call_2", json!("done")), text("two")])),
            ])),
        ),
        (
            "an assistant that only thought",
            asking(json!([
                user(json!("go")),
                assistant(json!([{"type": "thinking", "thinking": "hm", "signature": ""}])),
                user(json!("go on")),
            ])),
        ),
        (
            "tools",
            with(json!({"tools": [
                tool("Read"),
                {"type": "custom", "name": "Write", "input_schema": {"type": "object"}, "strict": true, "cache_control": {"type": "ephemeral"}},
            ]})),
        ),
        (
            "any tool, one at a time",
            with(json!({"tools": [tool("Read")], "tool_choice": {"type": "any", "disable_parallel_tool_use": true}})),
        ),
        (
            "a choice of tools",
            with(json!({"tools": [tool("Read")], "tool_choice": {"type": "auto", "disable_parallel_tool_use": false}})),
        ),
        ("one tool", with(json!({"tools": [tool("Read")], "tool_choice": {"type": "tool", "name": "Read"}}))),
        ("no tool", with(json!({"tools": [tool("Read")], "tool_choice": {"type": "none"}}))),
        ("a choice of no tools", with(json!({"tools": [], "tool_choice": {"type": "auto"}}))),
        (
            "output by a schema",
            with(json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}})),
        ),
        (
            "output by a schema, the old name",
            with(json!({"output_format": {"type": "json_schema", "schema": {"type": "object"}}})),
        ),
    ]
}

#[test]
fn supported_requests_are_translated() {
    let mut page = String::new();
    for (title, request) in cases() {
        let chat = translated(&request, false, SMALL_SERVER).unwrap_or_else(|error| panic!("{title}: {error}"));
        page.push_str(&format!("# {title}\n{chat:#}\n\n"));
    }
    insta::assert_snapshot!(page);
}

#[test]
fn an_agents_request_is_translated_for_a_small_server() {
    insta::assert_snapshot!(format!("{:#}", translated(&agent_request(), true, SMALL_SERVER).unwrap()));
}

#[test]
fn an_agents_request_is_translated_for_openai() {
    insta::assert_snapshot!(format!("{:#}", translated(&agent_request(), true, OPENAI).unwrap()));
}

#[test]
fn unsupported_requests_are_rejected_with_their_path() {
    let block = |block: Value| asking(json!([user(json!([text("look"), block]))]));
    let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="});
    let cases = [
        with(json!({"top_k": 5})),
        with(json!({"container": "c"})),
        with(json!({"mcp_servers": [{"type": "url"}]})),
        with(json!({"thread": {"type": "continue"}})),
        with(json!({"max_tokens": "many"})),
        with(json!({"temperature": "hot"})),
        with(json!({"system": [png()]})),
        with(json!({"system": 5})),
        with(json!({"messages": []})),
        with(json!({"messages": ["hi"]})),
        with(json!({"messages": [{"role": "tool", "content": "hi"}]})),
        with(json!({"messages": [{"role": "user", "content": {"type": "text"}}]})),
        with(json!({"messages": [{"role": "user"}]})),
        with(json!({"tools": [tool("Read"), {"type": "web_search_20250305", "name": "web_search"}]})),
        with(json!({"tools": [{"name": "Read"}]})),
        with(json!({"tools": [{"input_schema": {}}]})),
        with(json!({"tool_choice": {"type": "any"}})),
        with(json!({"tools": [tool("Read")], "tool_choice": {"type": "tool"}})),
        with(json!({"tools": [tool("Read")], "tool_choice": {"type": "most"}})),
        with(json!({"output_config": {"format": {"type": "xml"}}})),
        with(json!({"output_config": {"format": {"type": "json_schema"}}})),
        block(json!({"type": "document", "source": pdf})),
        block(json!({"type": "document", "source": {"type": "file", "file_id": "f"}})),
        block(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
        block(json!({"type": "image"})),
        block(json!({"type": "search_result", "source": "s", "title": "t", "content": []})),
        block(json!({"type": "container_upload", "file_id": "f"})),
        block(json!({"text": "no type"})),
        block(json!({"type": "tool_use", "id": "call_1", "name": "Read", "input": {}})),
        block(result("call_1", json!("a result of nothing"))),
        asking(json!([
            user(json!("go")),
            assistant(json!([call("call_1", "Read")])),
            user(json!([result("call_1", json!([{"type": "document", "source": pdf}]))])),
        ])),
        asking(json!([
            user(json!("go")),
            assistant(json!([text("I know")])),
            user(json!([result("call_1", json!(""))]))
        ])),
        asking(json!([
            user(json!("go")),
            assistant(json!([{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]))
        ])),
        asking(json!([user(json!("go")), assistant(json!("The answer is"))])),
    ];
    let errors = cases.iter().map(|case| translated(case, false, SMALL_SERVER).unwrap_err().to_string());
    insta::assert_snapshot!(errors.collect::<Vec<_>>().join("\n"));
}

#[test]
fn effort_is_sent_if_the_dialect_supports_it() {
    for (fields, expected) in [
        (json!({}), Value::Null),
        (json!({"thinking": {"type": "adaptive"}}), Value::Null),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}), json!("low")),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 8000}}), json!("medium")),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 31999}}), json!("high")),
        (json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}), json!("low")),
        (json!({"output_config": {"effort": "medium"}}), json!("medium")),
        (json!({"output_config": {"effort": "max"}}), json!("high")),
        (json!({"output_config": {"effort": "some_new_word"}}), Value::Null),
        (json!({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}), Value::Null),
    ] {
        let request = with(fields);
        assert_eq!(translated(&request, false, OPENAI).unwrap()["reasoning_effort"], expected, "{request}");
        assert_eq!(translated(&request, false, SMALL_SERVER).unwrap()["reasoning_effort"], Value::Null, "{request}");
    }
}

#[test]
fn the_response_context_follows_the_request() {
    let expected =
        |request: Value| translate_request(request.to_string().as_bytes(), "m", true, OPENAI).unwrap().response_context;
    let agent = expected(agent_request());
    assert!(agent.include_reasoning);
    assert_eq!(
        agent.call_ids.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        BTreeSet::from(["call_1", "call_2"])
    );
    assert!(!expected(with(json!({}))).include_reasoning);
    assert!(!expected(with(json!({"thinking": {"type": "disabled"}}))).include_reasoning);
}
