//! Runs every example of `docs/scripted-model.md`, streamed and not.

use serde_json::{Value, json};

use crate::support::{Fixture, parse, string};

const PAGE: &str = include_str!("../../../../docs/scripted-model.md");

#[tokio::test]
async fn the_examples_of_the_scripted_model_match_its_responses() {
    let examples = examples();
    assert!(examples.len() >= 5);
    let fixture = Fixture::scripted().await;
    for (script, answer) in examples {
        assert_eq!(play(&fixture, script, true).await, answer, "streamed: {script}");
        // Without a stream, an error replaces the whole message.
        if !answer.contains("error event") {
            assert_eq!(play(&fixture, script, false).await, answer, "whole: {script}");
        }
    }
}

/// Each `script` block with the `answer` block that follows it.
fn examples() -> Vec<(&'static str, &'static str)> {
    let pages = PAGE.split("```script\n").skip(1);
    pages
        .map(|rest| {
            let (script, rest) = rest.split_once("\n```\n```answer\n").unwrap();
            (script, rest.split_once("\n```\n").unwrap().0)
        })
        .collect()
}

/// Answers tool calls like an agent, until a message ends without any.
async fn play(fixture: &Fixture, script: &str, stream: bool) -> String {
    let mut messages = vec![json!({"role": "user", "content": script})];
    let mut lines = Vec::new();
    loop {
        let body = json!({"model": "m", "messages": messages, "stream": stream}).to_string();
        let response = fixture.post(body).await;
        let status = response.status();
        let text = response.text().await.unwrap();
        if status != 200 {
            let error: Value = serde_json::from_str(&text).unwrap();
            lines.push(format!("error: {} {}", status.as_u16(), describe_error(&error)));
            break;
        }
        let message = if stream { assemble(&text, &mut lines) } else { serde_json::from_str(&text).unwrap() };
        let content = message["content"].as_array().unwrap();
        if !stream {
            lines.extend(content.iter().map(describe_block));
        }
        if message["stop_reason"].is_null() {
            break;
        }
        lines.push(format!("stop: {}", string(&message["stop_reason"])));
        if message["stop_reason"] != "tool_use" {
            break;
        }
        lines.push("result".to_owned());
        let results: Vec<Value> = content
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|block| json!({"type": "tool_result", "tool_use_id": block["id"], "content": "fine"}))
            .collect();
        messages.push(json!({"role": "assistant", "content": content}));
        messages.push(json!({"role": "user", "content": results}));
    }
    lines.join("\n")
}

/// Assembles the message of a stream; blocks are described when they end.
fn assemble(stream: &str, lines: &mut Vec<String>) -> Value {
    let mut message = json!({"content": [], "stop_reason": null});
    let mut block = Value::Null;
    let mut pieces = String::new();
    for (name, data) in parse(stream) {
        match name.as_str() {
            "content_block_start" => block = data["content_block"].clone(),
            "content_block_delta" => {
                let delta = &data["delta"];
                let piece = ["text", "thinking", "partial_json"].iter().find_map(|field| delta[*field].as_str());
                pieces.push_str(piece.unwrap_or_default());
            }
            "content_block_stop" => {
                let pieces = std::mem::take(&mut pieces);
                match string(&block["type"]).as_str() {
                    "tool_use" => block["input"] = serde_json::from_str(&pieces).unwrap(),
                    kind => block[kind] = pieces.into(),
                }
                lines.push(describe_block(&block));
                message["content"].as_array_mut().unwrap().push(block.take());
            }
            "message_delta" => message["stop_reason"] = data["delta"]["stop_reason"].clone(),
            "error" => lines.push(format!("error event: {}", describe_error(&data))),
            _ => {}
        }
    }
    message
}

fn describe_block(block: &Value) -> String {
    let kind = string(&block["type"]);
    match kind.as_str() {
        "tool_use" => format!("tool: {} {}", string(&block["name"]), block["input"]),
        _ => format!("{kind}: {}", string(&block[kind.as_str()]).replace('\n', "\\n")),
    }
}

fn describe_error(error: &Value) -> String {
    format!("{} {}", string(&error["error"]["type"]), string(&error["error"]["message"]))
}
