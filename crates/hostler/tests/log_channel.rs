//! Clients receive the host's log, at the subscribed level and while subscribed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

use common::{HostProcess, TestHome};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use uuid::Uuid;

const ROOT: &str = ahp_types::ROOT_RESOURCE_URI;

/// Connects a client with an id; also returns the `initialize` answer.
async fn client(host: &HostProcess, id: &str, channels: &[&str]) -> (RawClient, Value) {
    let mut raw = RawClient::connect(&host.url()).await;
    let hello = json!({"protocolVersions": ["1.0.0", "0.9.0"], "clientId": id, "initialSubscriptions": channels});
    let hello = raw.call("initialize", hello).await.unwrap();
    (raw, hello)
}

/// Makes the host log something at a level; it is logged when this returns.
async fn provoke(raw: &mut RawClient, level: &str) {
    let message = match level {
        "debug" => json!({"jsonrpc": "2.0", "method": format!("unknown-{}", Uuid::new_v4()), "params": {}}),
        "warn" => json!({"jsonrpc": "2.0", "method": "dispatchAction", "params": {}}),
        other => panic!("{other}"),
    };
    raw.send(message.to_string()).await;
}

/// Returns whether an export contains a text, in a line of this level at least.
fn says(message: &Value, channel: &str, words: &str) -> bool {
    if message["method"] != "otlp/exportLogs" || message["params"]["channel"] != channel {
        return false;
    }
    let scopes = message["params"]["payload"]["resourceLogs"][0]["scopeLogs"].as_array().unwrap().iter();
    let mut lines = scopes.flat_map(|scope| scope["logRecords"].as_array().unwrap());
    lines.any(|line| line["body"]["stringValue"].as_str().unwrap().contains(words))
}

/// Reads up to the export with a text; returns all messages on the way.
async fn until_said(raw: &mut RawClient, channel: &str, words: &str) -> Vec<Value> {
    let mut heard = Vec::new();
    loop {
        let message = raw.receive().await.expect("the host says something");
        let done = says(&message, channel, words);
        heard.push(message);
        if done {
            return heard;
        }
    }
}

/// Returns all messages up to the answer of a request that is sent now.
async fn until_answered(raw: &mut RawClient, method: &str, params: Value) -> Vec<Value> {
    let id = Uuid::new_v4().to_string();
    raw.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
    let mut heard = Vec::new();
    loop {
        let message = raw.receive().await.expect("an answer");
        let done = message["id"] == id.as_str();
        heard.push(message);
        if done {
            return heard;
        }
    }
}

const DROPPED_DISPATCH_MESSAGE: &str = "a dispatch without channel";
const IGNORED_NOTIFICATION_MESSAGE: &str = "an unknown notification";

#[tokio::test]
async fn client_receives_the_log_at_its_level_until_it_unsubscribes() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let (mut raw, hello) = client(&host, "listener", &[ROOT, "ahp-otlp://logs/loud", "ahp-otlp://logs/warn"]).await;
    assert_eq!(hello["telemetry"], json!({"logs": "ahp-otlp://logs/{level}"}));
    assert_eq!(hello["snapshots"].as_array().unwrap().len(), 1, "the log has no state: {hello}");

    provoke(&mut raw, "debug").await;
    provoke(&mut raw, "warn").await;
    let heard = until_said(&mut raw, "ahp-otlp://logs/warn", DROPPED_DISPATCH_MESSAGE).await;
    assert!(
        !heard.iter().any(|message| says(message, "ahp-otlp://logs/warn", IGNORED_NOTIFICATION_MESSAGE)),
        "{heard:#?}"
    );
    let export = &heard.last().unwrap()["params"]["payload"]["resourceLogs"][0];
    assert_eq!(
        export["resource"]["attributes"][0],
        json!({"key": "service.name", "value": {"stringValue": "hostler"}})
    );
    let line = &export["scopeLogs"][0]["logRecords"][0];
    assert_eq!((&line["severityNumber"], &line["severityText"]), (&json!(13), &json!("WARN")), "{line}");
    assert!(line["timeUnixNano"].as_str().unwrap().parse::<u64>().unwrap() > 1_700_000_000_000_000_000);

    // An unknown level is accepted and sends nothing; another subscription works beside the first.
    for channel in ["ahp-otlp://logs/loud", "ahp-otlp://logs/", "ahp-otlp://logs/debug"] {
        assert_eq!(raw.call("subscribe", json!({"channel": channel})).await, Ok(json!({})), "{channel}");
    }
    assert!(raw.call("subscribe", json!({"channel": "ahp-otlp://traces"})).await.is_err());
    provoke(&mut raw, "debug").await;
    until_said(&mut raw, "ahp-otlp://logs/debug", IGNORED_NOTIFICATION_MESSAGE).await;

    // After unsubscribe, logged lines are not received.
    let unsubscribe =
        json!({"jsonrpc": "2.0", "method": "unsubscribe", "params": {"channel": "ahp-otlp://logs/debug"}});
    raw.send(unsubscribe.to_string()).await;
    provoke(&mut raw, "debug").await;
    provoke(&mut raw, "warn").await;
    let heard = until_said(&mut raw, "ahp-otlp://logs/warn", DROPPED_DISPATCH_MESSAGE).await;
    assert!(
        !heard.iter().any(|message| says(message, "ahp-otlp://logs/debug", IGNORED_NOTIFICATION_MESSAGE)),
        "{heard:#?}"
    );
    // Subscribes again.
    assert_eq!(raw.call("subscribe", json!({"channel": "ahp-otlp://logs/debug"})).await, Ok(json!({})));
    provoke(&mut raw, "debug").await;
    until_said(&mut raw, "ahp-otlp://logs/debug", IGNORED_NOTIFICATION_MESSAGE).await;
    let log = host.stop().await;
    assert!(log.contains("WARN") && !log.contains("DEBUG"), "stderr has its own level: {log}");
}

#[tokio::test]
async fn reconnecting_client_receives_the_log_again_and_others_do_not() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let (raw, hello) = client(&host, "returning", &[ROOT, "ahp-otlp://logs/warn"]).await;
    let (mut other, _) = client(&host, "other", &[ROOT]).await;
    drop(raw);
    let mut raw = RawClient::connect(&host.url()).await;
    let channels = json!([ROOT, "ahp-otlp://logs/WARN", "ahp-otlp://logs/warn", "ahp-otlp://logs/loud"]);
    let back = json!({"clientId": "returning", "lastSeenServerSeq": hello["serverSeq"], "subscriptions": channels});
    let back = raw.call("reconnect", back).await.unwrap();
    assert_eq!(back["missing"], json!([]), "{back}");
    provoke(&mut other, "warn").await;
    let heard = until_said(&mut raw, "ahp-otlp://logs/warn", DROPPED_DISPATCH_MESSAGE).await;
    assert!(heard.iter().all(|message| message["params"]["channel"] != "ahp-otlp://logs/WARN"), "{heard:#?}");
    let heard = until_answered(&mut other, "ping", json!({})).await;
    assert!(heard.iter().all(|message| message["method"] != "otlp/exportLogs"), "{heard:#?}");
    host.stop().await;
}

#[tokio::test]
async fn log_export_is_not_logged_and_contains_no_user_text() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let (mut raw, _) = client(&host, "curious", &[ROOT, "ahp-otlp://logs/trace"]).await;
    let words = format!("my-own-words-{}", Uuid::new_v4());
    let session = format!("claude:/{}", Uuid::new_v4());
    let directory = format!("file://{}", home.work().display());
    let mut heard =
        until_answered(&mut raw, "createSession", json!({"channel": session, "workingDirectories": [directory]})).await;
    let subscribed = until_answered(&mut raw, "subscribe", json!({"channel": session})).await;
    let chat = subscribed.last().unwrap()["result"]["snapshot"]["state"]["defaultChat"].as_str().unwrap().to_owned();
    heard.extend(subscribed);
    heard.extend(until_answered(&mut raw, "subscribe", json!({"channel": chat})).await);
    raw.send_message(&chat, &words).await;
    loop {
        let message = raw.receive().await.unwrap();
        let over = message["params"]["action"]["type"] == "chat/turnComplete";
        heard.push(message);
        if over {
            break;
        }
    }
    provoke(&mut raw, "warn").await;
    heard.extend(until_said(&mut raw, "ahp-otlp://logs/trace", DROPPED_DISPATCH_MESSAGE).await);
    let exports: Vec<String> =
        heard.iter().filter(|message| message["method"] == "otlp/exportLogs").map(Value::to_string).collect();
    assert!(!exports.is_empty());
    for secret in [words.as_str(), host.token()] {
        assert!(!exports.iter().any(|export| export.contains(secret)), "{secret} is in {exports:#?}");
    }
    // If sending logs were logged, each export would cause another one forever: there would be some between many
    // requests and answers.
    let mut between = Vec::new();
    for _ in 0..200 {
        between.extend(until_answered(&mut raw, "ping", json!({})).await);
    }
    let exports = between.iter().filter(|message| message["method"] == "otlp/exportLogs").count();
    assert!(exports < 20, "{between:#?}");
    host.stop().await;
}
