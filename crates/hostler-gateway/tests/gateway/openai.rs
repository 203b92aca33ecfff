//! The `openai` upstream against a chat-completions server on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hostler_gateway::{CredentialError, CredentialSource, FixedCredential, UsageTotals};
use hostler_gateway_openai::{OpenAiConfig, OpenAiUpstream};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::support::{Fixture, KEY, Received, Reply, TestUpstream, error, events, names, parse, request, string};

const USAGE: &str = r#"{"prompt_tokens":20,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":12}}"#;
/// Usage of a call with [`USAGE`]: requests, input, output, cache reads, cache writes.
const USED: [u64; 5] = [1, 8, 5, 12, 0];

fn used(fixture: &Fixture) -> [u64; 5] {
    let UsageTotals { requests, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, .. } =
        fixture.registration.usage();
    [requests, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens]
}

fn config(upstream: &TestUpstream) -> OpenAiConfig {
    OpenAiConfig { credential: Arc::new(FixedCredential(Some(KEY.into()))), ..OpenAiConfig::new(upstream.url.clone()) }
}

async fn gateway(upstream: &TestUpstream) -> Fixture {
    Fixture::with(Arc::new(OpenAiUpstream::new(config(upstream)))).await
}

fn json_reply(status: u16, body: &Value) -> Reply {
    Reply::Whole(status, &[("content-type", "application/json"), ("retry-after", "77")], body.to_string())
}

fn completion() -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "served-model",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
        "usage": serde_json::from_str::<Value>(USAGE).unwrap(),
    })
}

fn chunk(delta: Value, finish_reason: Option<&str>) -> Bytes {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    format!("data: {}\n\n", json!({"id": "chatcmpl-1", "model": "served-model", "choices": [choice]})).into()
}

fn done() -> Bytes {
    format!("data: {{\"choices\":[],\"usage\":{USAGE}}}\n\ndata: [DONE]\n\n").into()
}

fn short_stream() -> Vec<Bytes> {
    vec![
        chunk(json!({"role": "assistant", "content": ""}), None),
        chunk(json!({"content": "hel"}), None),
        chunk(json!({"content": "lo"}), None),
        chunk(json!({}), Some("stop")),
        done(),
    ]
}

fn sent(received: &Received) -> Value {
    serde_json::from_slice(&received.body).unwrap()
}

#[tokio::test]
async fn a_request_is_sent_as_chat_completions_with_own_headers_only() {
    let upstream = TestUpstream::start([json_reply(200, &completion())]).await;
    let fixture = gateway(&upstream).await;
    let response = fixture
        .client
        .post(fixture.url("/v1/messages?beta=true"))
        .bearer_auth(fixture.bearer())
        .header("anthropic-version", "2023-06-01")
        .header("anthropic-beta", "interleaved-thinking-2025-05-14")
        .header("x-app", "cli")
        .body(request("hi", false))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);

    let [received] = upstream.received().try_into().unwrap();
    assert_eq!(received.path, "/base/chat/completions");
    assert_eq!(
        sent(&received),
        json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]})
    );
    let mut headers: Vec<(&str, &str)> =
        received.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    headers.retain(|(name, _)| !["host", "content-length", "accept"].contains(name));
    headers.sort_unstable();
    let bearer = format!("Bearer {KEY}");
    assert_eq!(
        headers,
        [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("user-agent", concat!("hostler-gateway/", env!("CARGO_PKG_VERSION"))),
        ]
    );
}

#[tokio::test]
async fn a_url_without_a_path_means_v1() {
    for (path, expected) in [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/api/openai", "/api/openai/chat/completions"),
    ] {
        let upstream = TestUpstream::start([json_reply(200, &completion())]).await;
        let base_url = format!("{}{path}", upstream.url.origin().ascii_serialization()).parse().unwrap();
        let fixture = Fixture::with(Arc::new(OpenAiUpstream::new(OpenAiConfig::new(base_url)))).await;
        assert_eq!(fixture.whole("hi").await.status(), 200);
        let [received] = upstream.received().try_into().unwrap();
        assert_eq!(received.path, expected);
        assert!(!received.headers.contains_key("authorization"), "no key, no header");
    }
}

#[tokio::test]
async fn a_complete_response_is_translated_and_metered() {
    let upstream = TestUpstream::start([json_reply(200, &completion())]).await;
    let fixture = gateway(&upstream).await;
    let response = fixture.whole("hi").await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let message: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    assert_eq!(message["type"], "message");
    assert_eq!(message["model"], "served-model");
    assert_eq!(message["content"], json!([{"type": "text", "text": "hello"}]));
    assert_eq!(message["stop_reason"], "end_turn");
    assert!(string(&message["id"]).starts_with("msg_"));
    assert_eq!(used(&fixture), USED);
}

#[tokio::test]
async fn a_stream_is_translated_and_metered() {
    let upstream = TestUpstream::start([Reply::events(short_stream())]).await;
    let fixture = gateway(&upstream).await;
    let events = events(fixture.stream("hi").await).await;
    assert_eq!(
        names(&events),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert_eq!(events[0].1["message"]["model"], "served-model");
    assert_eq!(events[5].1["usage"]["input_tokens"], 8);
    assert_eq!(used(&fixture), USED);
    let [received] = upstream.received().try_into().unwrap();
    assert_eq!(sent(&received)["stream"], true);
    assert_eq!(sent(&received)["stream_options"], json!({"include_usage": true}));
}

#[tokio::test]
async fn each_chunk_passes_as_soon_as_it_arrives() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = gateway(&upstream).await;
    let stream = short_stream();
    chunks.send(Ok(stream[0].clone())).await.unwrap();
    let mut response = fixture.stream("hi").await;
    let next = async |response: &mut reqwest::Response| {
        let text = response.chunk().await.unwrap().unwrap();
        parse(std::str::from_utf8(&text).unwrap())
    };
    assert_eq!(names(&next(&mut response).await), ["message_start"]);
    chunks.send(Ok(stream[1].clone())).await.unwrap();
    assert_eq!(names(&next(&mut response).await), ["content_block_start", "content_block_delta"]);
    chunks.send(Ok(stream[2].clone())).await.unwrap();
    assert_eq!(names(&next(&mut response).await), ["content_block_delta"]);
    chunks.send(Ok(stream[3].clone())).await.unwrap();
    chunks.send(Ok(stream[4].clone())).await.unwrap();
    assert_eq!(names(&next(&mut response).await), ["content_block_stop", "message_delta", "message_stop"]);
    // The last marker ends the response, even if the server leaves the connection open.
    assert_eq!(response.chunk().await.unwrap(), None);
    fixture.gateway.wait_until_idle().await;
}

#[tokio::test]
async fn a_client_disconnect_ends_the_call() {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = gateway(&upstream).await;
    chunks.send(Ok(short_stream().swap_remove(0))).await.unwrap();
    let response = fixture.stream("hi").await;
    drop(response);
    upstream.hung_up().await;
    fixture.gateway.wait_until_idle().await;
}

#[tokio::test]
async fn tools_and_images_survive_a_round_trip() {
    let first = vec![
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "Read", "arguments": ""}}]}),
            None,
        ),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"path\":"}}]}), None),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"/a.png\"}"}}]}), None),
        chunk(json!({}), Some("tool_calls")),
        done(),
    ];
    let upstream = TestUpstream::start([Reply::events(first), Reply::events(short_stream())]).await;
    let fixture = gateway(&upstream).await;
    let tools = json!([{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}]);
    let mut messages = vec![json!({"role": "user", "content": "look"})];
    let ask = |messages: &[Value]| {
        json!({"model": "m", "max_tokens": 9, "stream": true, "tools": tools, "messages": messages}).to_string()
    };
    let answer = events(fixture.post(ask(&messages)).await).await;
    let started = &answer[1].1["content_block"];
    assert_eq!(*started, json!({"type": "tool_use", "id": "call_1", "name": "Read", "input": {}}));
    let pieces: Vec<String> = answer[2..4].iter().map(|(_, data)| string(&data["delta"]["partial_json"])).collect();
    assert_eq!(answer[5].1["delta"]["stop_reason"], "tool_use");

    let input: Value = serde_json::from_str(&pieces.concat()).unwrap();
    messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": started["id"], "name": "Read", "input": input}]}));
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}});
    messages.push(
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": started["id"], "content": [image]}]}),
    );
    assert_eq!(names(&events(fixture.post(ask(&messages)).await).await).last(), Some(&"message_stop"));

    let received = upstream.received();
    let chat = sent(&received[1]);
    let roles: Vec<String> =
        chat["messages"].as_array().unwrap().iter().map(|message| string(&message["role"])).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    assert_eq!(chat["messages"][1]["tool_calls"][0]["function"]["arguments"], "{\"path\":\"/a.png\"}");
    assert_eq!(chat["messages"][2]["tool_call_id"], "call_1");
    assert_eq!(chat["messages"][3]["content"][1]["image_url"]["url"], "data:image/png;base64,iVBORw0K");
    assert_eq!(chat["tools"][0]["function"]["parameters"], json!({"type": "object"}));
    assert_eq!(fixture.registration.usage().requests, 2);
}

#[tokio::test]
async fn an_unsupported_request_is_rejected_without_a_call() {
    let upstream = TestUpstream::start([]).await;
    let fixture = gateway(&upstream).await;
    let pdf =
        json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}});
    let body = json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": [pdf]}]});
    let (status, kind, message) = error(fixture.post(body.to_string()).await).await;
    assert_eq!((status, kind.as_str()), (400, "invalid_request_error"));
    assert!(message.starts_with("messages.0.content.0: "), "{message}");
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn errors_retain_their_status_message_and_retry_after() {
    for (status, kind) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "api_error"),
    ] {
        let body =
            json!({"error": {"message": "It does not work.", "type": "some_error", "param": null, "code": null}});
        for stream in [true, false] {
            let upstream = TestUpstream::start([json_reply(status, &body)]).await;
            let fixture = gateway(&upstream).await;
            let response = fixture.post(request("hi", stream)).await;
            assert_eq!(response.headers()["retry-after"], "77");
            assert_eq!(error(response).await, (status, kind.to_owned(), "It does not work.".to_owned()));
        }
    }
}

#[tokio::test]
async fn a_call_to_a_loading_server_is_retried() {
    let loading = || Reply::Whole(503, &[], json!({"error": {"message": "Loading model", "code": 503}}).to_string());
    let upstream = TestUpstream::start([loading(), loading(), Reply::events(short_stream())]).await;
    let fixture = gateway(&upstream).await;
    assert_eq!(names(&events(fixture.stream("hi").await).await).last(), Some(&"message_stop"));
    assert_eq!(upstream.received().len(), 3);
    assert_eq!(used(&fixture), USED);
}

#[tokio::test]
async fn an_error_in_place_of_the_first_chunk_becomes_an_error_response() {
    let first = Bytes::from_static(b"data: {\"error\":{\"message\":\"Slow down\",\"code\":429}}\n\n");
    let upstream = TestUpstream::start([Reply::events(vec![first])]).await;
    let fixture = gateway(&upstream).await;
    let expected = (429, "rate_limit_error".to_owned(), "Slow down".to_owned());
    assert_eq!(error(fixture.stream("hi").await).await, expected);
}

#[tokio::test]
async fn invalid_responses_become_502() {
    for (stream, reply) in [
        (false, Reply::Whole(200, &[], "<html>".to_owned())),
        (false, Reply::Whole(200, &[], r#"{"choices":[]}"#.to_owned())),
        (true, Reply::Whole(200, &[("content-type", "application/json")], completion().to_string())),
        (true, Reply::events(vec![])),
        (true, Reply::events(vec![Bytes::from_static(b"data: [DONE]\n\n")])),
        (true, Reply::events(vec![Bytes::from_static(b"data: <html>\n\n")])),
    ] {
        let upstream = TestUpstream::start([reply]).await;
        let fixture = gateway(&upstream).await;
        assert_eq!(error(fixture.post(request("hi", stream)).await).await.0, 502);
        assert_eq!(upstream.received().len(), 1);
    }
}

#[tokio::test]
async fn a_failing_stream_ends_with_one_error_event() {
    let error_chunk = Bytes::from_static(b"data: {\"error\":{\"message\":\"Out of memory\",\"code\":500}}\n\n");
    let cut = || Err(std::io::Error::other("cut"));
    for (rest, message) in [
        (vec![Ok(error_chunk)], "Out of memory"),
        (vec![], "Upstream request failed: the response was interrupted: the stream ended without a finish_reason."),
        (
            vec![Ok(Bytes::from_static(b"data: [DONE]\n\n"))],
            "Upstream request failed: the response was interrupted: the stream ended without a finish_reason.",
        ),
        (vec![cut()], "Upstream request failed: the response was interrupted: "),
    ] {
        let (sender, reply) = Reply::stream();
        let upstream = TestUpstream::start([reply]).await;
        let fixture = gateway(&upstream).await;
        sender.send(Ok(short_stream().swap_remove(0))).await.unwrap();
        // The stream starts before it fails: unread bytes may be lost together with the connection.
        let mut response = fixture.stream("hi").await;
        let mut text = response.chunk().await.unwrap().unwrap().to_vec();
        for chunk in rest {
            sender.send(chunk).await.unwrap();
        }
        drop(sender);
        while let Some(chunk) = response.chunk().await.unwrap() {
            text.extend_from_slice(&chunk);
        }
        let events = parse(std::str::from_utf8(&text).unwrap());
        assert_eq!(names(&events), ["message_start", "error"]);
        assert_eq!(events[1].1["error"]["type"], "api_error");
        assert!(string(&events[1].1["error"]["message"]).starts_with(message), "{}", events[1].1);
    }
}

#[tokio::test]
async fn the_servers_models_are_served_and_others_are_rejected() {
    let list = json!({"object": "list", "data": [{"id": "qwen3", "max_model_len": 40960}, {"id": "gpt-4o"}]});
    // A model that is not listed might be new: the list is fetched again if it is older than a minute.
    let upstream =
        TestUpstream::start([json_reply(200, &list), json_reply(200, &completion()), json_reply(200, &list)]).await;
    let fixture = gateway(&upstream).await;
    let response = fixture.client.get(fixture.url("/v1/models")).bearer_auth(fixture.bearer()).send().await.unwrap();
    let models: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    let ids: Vec<String> = models["data"].as_array().unwrap().iter().map(|model| string(&model["id"])).collect();
    assert_eq!(ids, ["qwen3", "gpt-4o"]);
    let ask = |model: &str| json!({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(fixture.post(ask("qwen3").to_string()).await.status(), 200);
    assert_eq!(error(fixture.post(ask("claude-sonnet-4-5").to_string()).await).await.0, 404);
    let received = upstream.received();
    assert_eq!(received[0].path, "/base/models");
    assert_eq!(received[0].headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(sent(&received[1])["model"], "qwen3");
    assert!(received[2..].iter().all(|received| received.path == "/base/models"), "no call for an unknown model");
}

#[tokio::test]
async fn tokens_cannot_be_counted() {
    let upstream = TestUpstream::start([]).await;
    let fixture = gateway(&upstream).await;
    let url = fixture.url("/v1/messages/count_tokens");
    let response =
        fixture.client.post(url).bearer_auth(fixture.bearer()).body(request("hi", false)).send().await.unwrap();
    let (status, kind, _) = error(response).await;
    assert_eq!((status, kind.as_str()), (501, "api_error"));
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn the_key_is_in_no_response_and_no_debug_output() {
    let quoting = json!({"error": {"message": format!("bad key {KEY}"), "code": 401}});
    let event = || Bytes::from(format!("data: {quoting}\n\n"));
    let upstream = TestUpstream::start([
        json_reply(401, &quoting),
        json_reply(200, &quoting),
        Reply::events(vec![event()]),
        Reply::events(vec![short_stream().swap_remove(0), event()]),
    ])
    .await;
    let fixture = gateway(&upstream).await;
    let mut shown = format!("{:?} {:?}", config(&upstream), OpenAiUpstream::new(config(&upstream)));
    for stream in [true, false, true, true] {
        let response = fixture.post(request("hi", stream)).await;
        shown.push_str(&response.text().await.unwrap());
    }
    assert_eq!(shown.matches("bad key [redacted]").count(), 4, "{shown}");
    assert!(!shown.contains(KEY));
    let with_password: OpenAiConfig = OpenAiConfig::new("http://user:planted@example.org/v1".parse().unwrap());
    assert!(!format!("{with_password:?} {:?}", OpenAiUpstream::new(with_password.clone())).contains("planted"));
}

/// Counts rejections of its key.
#[derive(Debug, Default)]
struct CountingCredential(AtomicUsize);

impl CredentialSource for CountingCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        Ok(Some(KEY.into()))
    }

    fn mark_rejected(&self, _secret: &SecretString) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct MissingCredential;

impl CredentialSource for MissingCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        Err(CredentialError::Missing { message: "put the key into the file".to_owned() })
    }
}

#[tokio::test]
async fn a_rejected_key_is_reported_to_its_source_and_a_missing_one_is_an_error() {
    let body = json!({"error": {"message": "Incorrect API key"}});
    let upstream = TestUpstream::start([json_reply(401, &body), json_reply(403, &body)]).await;
    let credential = Arc::new(CountingCredential::default());
    let config = OpenAiConfig { credential: credential.clone(), ..OpenAiConfig::new(upstream.url.clone()) };
    let fixture = Fixture::with(Arc::new(OpenAiUpstream::new(config.clone()))).await;
    assert_eq!(error(fixture.stream("hi").await).await.0, 401);
    assert_eq!(error(fixture.stream("hi").await).await.0, 403);
    assert_eq!(credential.0.load(Ordering::Relaxed), 1);

    let config = OpenAiConfig { credential: Arc::new(MissingCredential), ..config };
    let fixture = Fixture::with(Arc::new(OpenAiUpstream::new(config))).await;
    let (_, _, message) = error(fixture.stream("hi").await).await;
    assert!(message.contains("put the key into the file"), "{message}");
    assert_eq!(upstream.received().len(), 2);
}
