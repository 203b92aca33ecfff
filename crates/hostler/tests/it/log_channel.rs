//! Clients receive the host's log, at the subscribed level and while subscribed.

use crate::common::{HostProcess, TestHome};
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
fn exports(message: &Value, channel: &str, text: &str) -> bool {
    if message["method"] != "otlp/exportLogs" || message["params"]["channel"] != channel {
        return false;
    }
    let scopes = message["params"]["payload"]["resourceLogs"][0]["scopeLogs"].as_array().unwrap().iter();
    let mut lines = scopes.flat_map(|scope| scope["logRecords"].as_array().unwrap());
    lines.any(|line| line["body"]["stringValue"].as_str().unwrap().contains(text))
}

/// Reads up to the export with a text; returns all messages on the way.
async fn receive_until_exported(raw: &mut RawClient, channel: &str, text: &str) -> Vec<Value> {
    let mut received = Vec::new();
    loop {
        let message = raw.receive().await.expect("a message of the host");
        let done = exports(&message, channel, text);
        received.push(message);
        if done {
            return received;
        }
    }
}

/// Returns all messages up to the answer of a request that is sent now.
async fn until_answered(raw: &mut RawClient, method: &str, params: Value) -> Vec<Value> {
    let id = Uuid::new_v4().to_string();
    raw.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
    let mut received = Vec::new();
    loop {
        let message = raw.receive().await.expect("an answer");
        let done = message["id"] == id.as_str();
        received.push(message);
        if done {
            return received;
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
    let received = receive_until_exported(&mut raw, "ahp-otlp://logs/warn", DROPPED_DISPATCH_MESSAGE).await;
    assert!(
        !received.iter().any(|message| exports(message, "ahp-otlp://logs/warn", IGNORED_NOTIFICATION_MESSAGE)),
        "{received:#?}"
    );
    let export = &received.last().unwrap()["params"]["payload"]["resourceLogs"][0];
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
    receive_until_exported(&mut raw, "ahp-otlp://logs/debug", IGNORED_NOTIFICATION_MESSAGE).await;

    // After unsubscribe, logged lines are not received.
    let unsubscribe =
        json!({"jsonrpc": "2.0", "method": "unsubscribe", "params": {"channel": "ahp-otlp://logs/debug"}});
    raw.send(unsubscribe.to_string()).await;
    provoke(&mut raw, "debug").await;
    provoke(&mut raw, "warn").await;
    let received = receive_until_exported(&mut raw, "ahp-otlp://logs/warn", DROPPED_DISPATCH_MESSAGE).await;
    assert!(
        !received.iter().any(|message| exports(message, "ahp-otlp://logs/debug", IGNORED_NOTIFICATION_MESSAGE)),
        "{received:#?}"
    );
    // Subscribes again.
    assert_eq!(raw.call("subscribe", json!({"channel": "ahp-otlp://logs/debug"})).await, Ok(json!({})));
    provoke(&mut raw, "debug").await;
    receive_until_exported(&mut raw, "ahp-otlp://logs/debug", IGNORED_NOTIFICATION_MESSAGE).await;
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
    let received = receive_until_exported(&mut raw, "ahp-otlp://logs/warn", DROPPED_DISPATCH_MESSAGE).await;
    assert!(received.iter().all(|message| message["params"]["channel"] != "ahp-otlp://logs/WARN"), "{received:#?}");
    let received = until_answered(&mut other, "ping", json!({})).await;
    assert!(received.iter().all(|message| message["method"] != "otlp/exportLogs"), "{received:#?}");
    host.stop().await;
}

#[tokio::test]
async fn log_export_is_not_logged_and_contains_no_user_text() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let (mut raw, _) = client(&host, "curious", &[ROOT, "ahp-otlp://logs/trace"]).await;
    let prompt = format!("my-own-prompt-{}", Uuid::new_v4());
    let session = format!("claude:/{}", Uuid::new_v4());
    let directory = format!("file://{}", home.work().display());
    let mut received =
        until_answered(&mut raw, "createSession", json!({"channel": session, "workingDirectories": [directory]})).await;
    let subscribed = until_answered(&mut raw, "subscribe", json!({"channel": session})).await;
    let chat = subscribed.last().unwrap()["result"]["snapshot"]["state"]["defaultChat"].as_str().unwrap().to_owned();
    received.extend(subscribed);
    received.extend(until_answered(&mut raw, "subscribe", json!({"channel": chat})).await);
    raw.send_message(&chat, &prompt).await;
    loop {
        let message = raw.receive().await.unwrap();
        let over = message["params"]["action"]["type"] == "chat/turnComplete";
        received.push(message);
        if over {
            break;
        }
    }
    provoke(&mut raw, "warn").await;
    received.extend(receive_until_exported(&mut raw, "ahp-otlp://logs/trace", DROPPED_DISPATCH_MESSAGE).await);
    let exports: Vec<String> =
        received.iter().filter(|message| message["method"] == "otlp/exportLogs").map(Value::to_string).collect();
    assert!(!exports.is_empty());
    for secret in [prompt.as_str(), host.token()] {
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
