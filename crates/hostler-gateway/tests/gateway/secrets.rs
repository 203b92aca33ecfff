//! The upstream's key and the bearer do not appear in responses, logs or debug output.

use std::sync::Arc;

use hostler_gateway::{AnthropicUpstream, GatewayConfig, Upstreams};
use serde_json::json;

use crate::log_capture::Log;
use crate::support::{Fixture, KEY, Reply, TestUpstream, event, short_message};

#[tokio::test]
async fn secrets_and_prompts_are_in_no_response_no_log_and_no_debug_output() {
    // All tasks run on one thread, so this log captures everything.
    let (log, _guard) = Log::begin();

    let quoting = format!(r#"{{"type":"error","error":{{"type":"authentication_error","message":"bad key {KEY}"}}}}"#);
    let quoting_event = || {
        let error = json!({"type": "api_error", "message": format!("worse key {KEY}")});
        event("error", json!({"type": "error", "error": error}))
    };
    let (chunks, breaking) = Reply::stream();
    let upstream = TestUpstream::start([
        Reply::events(short_message()),
        Reply::Whole(401, &[], quoting),
        Reply::Whole(500, &[], format!("bad key {KEY}")),
        Reply::events(vec![quoting_event()]),
        Reply::events(vec![short_message().swap_remove(0), quoting_event()]),
        breaking,
    ])
    .await;
    let fixture = Fixture::anthropic(&upstream).await;
    let mut shown = String::new();
    for _ in 0..5 {
        let response = fixture.stream("planted-prompt").await;
        shown.push_str(&format!("{:?}", response.headers()));
        shown.push_str(&response.text().await.unwrap());
    }
    chunks.send(Ok(short_message().swap_remove(0))).await.unwrap();
    chunks.send(Err(std::io::Error::other("cut"))).await.unwrap();
    shown.push_str(&fixture.stream("planted-prompt").await.text().await.unwrap());

    let own_upstream = AnthropicUpstream::new(upstream.config());
    shown.push_str(&format!(
        "{:?} {:?} {:?} {own_upstream:?}",
        fixture.gateway,
        fixture.registration,
        upstream.config()
    ));
    shown.push_str(&format!("{:?}", upstream.config().credential));
    shown.push_str(&format!("{:?} {:?}", fixture.log, GatewayConfig::new(Upstreams::single(Arc::new(own_upstream)))));
    fixture.gateway.stop().await;

    let logged = log.text();
    assert!(logged.contains("upstream request failed"), "the log was captured");
    assert!(shown.contains("bad key [redacted]"), "the quoted key was replaced");
    assert_eq!(shown.matches("worse key [redacted]").count(), 2, "in streams as well, at their start and later");
    let (nonce, _) = fixture.bearer().split_once('.').unwrap();
    for (name, place) in [("log", &logged), ("answers", &shown)] {
        for secret in [KEY, nonce, "planted-prompt"] {
            assert!(!place.contains(secret), "{secret} is in the {name}");
        }
    }
}
