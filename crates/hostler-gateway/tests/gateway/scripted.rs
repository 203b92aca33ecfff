//! The scripted model over HTTP.

use serde_json::{Value, json};

use crate::support::{Fixture, error, events, names, request};

#[tokio::test]
async fn a_text_without_directives_is_echoed_word_by_word() {
    let fixture = Fixture::scripted().await;
    let events = events(fixture.stream("hi there").await).await;
    let [start, block, ping, deltas @ .., stop, delta, end] = events.as_slice() else { panic!("{events:?}") };
    let input_tokens = request("hi there", true).len().div_ceil(4);
    assert_eq!(start.1["message"]["role"], "assistant");
    assert_eq!(start.1["message"]["type"], "message");
    assert_eq!(start.1["message"]["model"], "claude-sonnet-4-5");
    assert_eq!(start.1["message"]["content"], json!([]));
    assert_eq!(start.1["message"]["usage"]["input_tokens"], input_tokens);
    assert_eq!(
        block.1,
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    );
    assert_eq!(ping.0, "ping");
    let texts: Vec<&str> = deltas.iter().map(|(_, data)| data["delta"]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Hello ", "from ", "the ", "scripted ", "model. ", "You ", "said: ", "hi ", "there"]);
    assert_eq!(stop.1, json!({"type": "content_block_stop", "index": 0}));
    assert_eq!(delta.1["delta"], json!({"stop_reason": "end_turn", "stop_sequence": null}));
    assert_eq!(delta.1["usage"]["output_tokens"], texts.concat().len().div_ceil(4));
    assert_eq!(end.0, "message_stop");
}

#[tokio::test]
async fn equal_requests_get_equal_responses() {
    let fixture = Fixture::scripted().await;
    let script = "!think hm\n!say hello\n!tool Bash {\"command\":\"ls\"}";
    let first = fixture.stream(script).await.text().await.unwrap();
    assert_eq!(first, fixture.stream(script).await.text().await.unwrap());
}

#[tokio::test]
async fn the_complete_message_equals_the_streamed_one() {
    let fixture = Fixture::scripted().await;
    let script = "!think hm well\n!say hello you\n!tool Bash {\"command\":\"ls\"}\n!tool Read {}";
    let whole: Value = serde_json::from_str(&fixture.whole(script).await.text().await.unwrap()).unwrap();
    assert_eq!(whole["type"], "message");
    assert_eq!(whole["role"], "assistant");
    assert_eq!(whole["stop_reason"], "tool_use");
    assert_eq!(whole["content"][0]["thinking"], "hm well");
    assert!(!whole["content"][0]["signature"].as_str().unwrap().is_empty());
    assert_eq!(whole["content"][1], json!({"type": "text", "text": "hello you"}));
    assert_eq!(whole["content"][2]["input"], json!({"command": "ls"}));
    assert_eq!(whole["content"][3]["name"], "Read");

    let events = events(fixture.stream(script).await).await;
    let assembled = assemble(&events);
    let without_ids = |content: &Value| {
        let mut content = content.clone();
        content.as_array_mut().unwrap().iter_mut().for_each(|block| {
            block.as_object_mut().unwrap().retain(|name, _| name != "id" && name != "signature");
        });
        content
    };
    assert_eq!(without_ids(&assembled), without_ids(&whole["content"]));
    let (_, delta) = &events[events.len() - 2];
    assert_eq!(delta["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
}

/// Assembles a message from its events, as a client does.
fn assemble(events: &[(String, Value)]) -> Value {
    let mut content: Vec<Value> = Vec::new();
    let mut json = String::new();
    for (name, data) in events {
        match name.as_str() {
            "content_block_start" => content.push(data["content_block"].clone()),
            "content_block_delta" => {
                let block = content.last_mut().unwrap();
                let delta = &data["delta"];
                match delta["type"].as_str().unwrap() {
                    "input_json_delta" => json.push_str(delta["partial_json"].as_str().unwrap()),
                    kind => {
                        let field = kind.strip_suffix("_delta").unwrap();
                        let grown = format!("{}{}", block[field].as_str().unwrap(), delta[field].as_str().unwrap());
                        block[field] = grown.into();
                    }
                }
            }
            "content_block_stop" if !json.is_empty() => {
                content.last_mut().unwrap()["input"] = serde_json::from_str(&std::mem::take(&mut json)).unwrap();
            }
            _ => {}
        }
    }
    content.into()
}

#[tokio::test]
async fn an_error_before_the_first_event_is_a_response_and_later_an_event() {
    let fixture = Fixture::scripted().await;
    for (status, kind) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ] {
        let script = format!("!error {status} As requested.");
        let expected = (status, kind.to_owned(), "As requested.".to_owned());
        assert_eq!(error(fixture.stream(&script).await).await, expected);
        assert_eq!(error(fixture.whole(&script).await).await, expected);

        let events = events(fixture.stream(&format!("!say a\n{script}")).await).await;
        assert_eq!(
            names(&events),
            ["message_start", "content_block_start", "ping", "content_block_delta", "content_block_stop", "error"]
        );
        assert_eq!(events[5].1["error"]["type"], kind);
    }
}

#[tokio::test]
async fn a_cut_directive_ends_the_stream_with_one_error_event() {
    let fixture = Fixture::scripted().await;
    let events = events(fixture.stream("!deltas 2\n!cut").await).await;
    assert_eq!(names(&events)[3..], ["content_block_delta", "content_block_delta", "content_block_stop", "error"]);
    assert_eq!(error(fixture.stream("!cut").await).await.0, 502);
    assert_eq!(error(fixture.whole("!say a\n!cut").await).await.0, 502);
}

#[tokio::test]
async fn an_invalid_script_is_answered_with_its_error() {
    let fixture = Fixture::scripted().await;
    let (status, _, message) = error(fixture.stream("!say a\n!wait long").await).await;
    assert_eq!(status, 400);
    assert_eq!(message, "Invalid script: line 2: expected a number of milliseconds.");
}

#[tokio::test]
async fn huge_output_and_many_deltas_arrive_completely() {
    let fixture = Fixture::scripted().await;
    let deltas =
        |events: &[(String, Value)]| names(events).iter().filter(|name| **name == "content_block_delta").count();
    let many = events(fixture.stream("!deltas 5000").await).await;
    assert_eq!(deltas(&many), 5000);
    let huge = events(fixture.stream("!huge 3000000").await).await;
    assert_eq!(assemble(&huge)[0]["text"].as_str().unwrap().len(), 3_000_000);
}

#[tokio::test]
async fn pace_and_wait_do_not_change_the_content() {
    let fixture = Fixture::scripted().await;
    let events = events(fixture.stream("!wait 1\n!pace 1\n!say a b\n!wait 1\n!say c").await).await;
    let content = assemble(&events);
    assert_eq!(content, json!([{"type": "text", "text": "a b"}, {"type": "text", "text": "c"}]));
}
