//! The `copilot` upstream against a mock of GitHub and Copilot.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{self, Either};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use hostler_gateway::{Upstream, UpstreamError, UpstreamRequest, UpstreamResponseBody, UpstreamTimeouts};
use hostler_gateway_copilot::{CopilotConfig, CopilotConfigError, CopilotMode, CopilotUpstream};
use serde_json::{Value, json};

use crate::log_capture::Log;
use crate::mock_copilot::{EXCHANGE, GITHUB_TOKEN, MESSAGES, MODELS, MockCopilot, RotatingTokens, USER, key};
use crate::support::{Fixture, error, events, names, request};

fn call(text: &str) -> UpstreamRequest {
    UpstreamRequest {
        body: json!({"model": "claude-sonnet-4.5", "messages": [text]}).to_string().into(),
        model: "claude-sonnet-4.5".to_owned(),
        stream: false,
        version: None,
        betas: Vec::new(),
        beta_endpoint: false,
    }
}

async fn ask(upstream: &CopilotUpstream) -> Result<Bytes, UpstreamError> {
    match upstream.messages(call("hi")).await?.body {
        UpstreamResponseBody::Whole(body) => Ok(body),
        UpstreamResponseBody::Events(_) => panic!("no stream was asked for"),
    }
}

/// The status and message of a call that must fail with an error response.
async fn refusal(upstream: &CopilotUpstream) -> (u16, String) {
    match ask(upstream).await {
        Err(UpstreamError::ErrorResponse(refusal)) => {
            (refusal.status.as_u16(), String::from_utf8(refusal.body.to_vec()).unwrap())
        }
        other => panic!("not a refusal: {other:?}"),
    }
}

/// Makes calls until Copilot is called with a key.
async fn ask_until(stand_in: &MockCopilot, upstream: &CopilotUpstream, key: &str) {
    while !stand_in.bearers(MESSAGES).iter().any(|bearer| bearer == key) {
        ask(upstream).await.unwrap();
    }
}

#[tokio::test]
async fn fifty_concurrent_first_calls_share_one_exchange() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    stand_in.hold(EXCHANGE);
    let mut calls: FuturesUnordered<_> = (0..50).map(|_| ask(&upstream)).collect();
    // All fifty calls have started before the exchange can end.
    let begun = future::select(calls.next(), stand_in.arrived(EXCHANGE, 1).boxed());
    assert!(matches!(begun.await, Either::Right(_)));
    stand_in.release();
    while let Some(answer) = calls.next().await {
        answer.unwrap();
    }
    assert_eq!(stand_in.bearers(EXCHANGE), [GITHUB_TOKEN]);
    assert_eq!(stand_in.bearers(MESSAGES), vec![key(1); 50]);
    assert_eq!(stand_in.count(USER), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_wave_of_concurrent_calls_shares_one_exchange() {
    let stand_in = MockCopilot::start().await;
    let upstream = Arc::new(stand_in.upstream());
    for wave in 1..=5 {
        let calls = (0..50).map(|_| {
            let upstream = Arc::clone(&upstream);
            tokio::spawn(async move { ask(&upstream).await })
        });
        for answer in future::join_all(calls).await {
            answer.unwrap().unwrap();
        }
        assert_eq!(stand_in.count(EXCHANGE), wave);
        stand_in.revoke();
    }
}

#[tokio::test]
async fn cancelling_forty_nine_calls_does_not_affect_the_last_one() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    stand_in.hold(EXCHANGE);
    let mut calls: Vec<_> = (0..50).map(|_| ask(&upstream).boxed()).collect();
    for call in &mut calls {
        assert!(call.now_or_never().is_none());
    }
    stand_in.arrived(EXCHANGE, 1).await;
    let last = calls.pop().unwrap();
    // The call that started the exchange is among them.
    drop(calls);
    stand_in.release();
    last.await.unwrap();
    assert_eq!(stand_in.count(EXCHANGE), 1);
    assert_eq!(stand_in.bearers(MESSAGES), [key(1)]);
}

#[tokio::test]
async fn an_exchange_without_waiting_callers_serves_later_ones() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    stand_in.hold(EXCHANGE);
    {
        let leaving = std::pin::pin!(ask(&upstream));
        future::select(leaving, stand_in.arrived(EXCHANGE, 1).boxed()).await;
    }
    stand_in.release();
    ask(&upstream).await.unwrap();
    assert_eq!(stand_in.count(EXCHANGE), 1);
}

#[tokio::test]
async fn an_exchange_ends_with_its_upstream() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    stand_in.hold(EXCHANGE);
    {
        let leaving = std::pin::pin!(ask(&upstream));
        future::select(leaving, stand_in.arrived(EXCHANGE, 1).boxed()).await;
    }
    assert_eq!(stand_in.clock_holders(), 2);
    drop(upstream);
    // All tasks of this test run on one thread: an aborted task is gone after its next turn.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stand_in.clock_holders(), 0);
    stand_in.hung_up().await;
}

#[tokio::test]
async fn an_exchange_ends_with_the_gateway() {
    let stand_in = MockCopilot::start().await;
    stand_in.hold(EXCHANGE);
    let fixture = Fixture::with(Arc::new(stand_in.upstream())).await;
    let (response, ()) = tokio::join!(fixture.stream("hi"), async {
        stand_in.arrived(EXCHANGE, 1).await;
        fixture.gateway.stop().await;
    });
    assert_eq!(response.status(), 503);
    drop(fixture);
    stand_in.hung_up().await;
}

#[tokio::test]
async fn fifty_rejections_of_one_key_cause_one_new_exchange() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    ask(&upstream).await.unwrap();
    stand_in.hold(MESSAGES);
    let mut calls: FuturesUnordered<_> = (0..50).map(|_| ask(&upstream)).collect();
    future::select(calls.next(), stand_in.arrived(MESSAGES, 51).boxed()).await;
    stand_in.revoke();
    stand_in.release();
    while let Some(answer) = calls.next().await {
        answer.unwrap();
    }
    assert_eq!(stand_in.count(EXCHANGE), 2);
    let bearers = stand_in.bearers(MESSAGES);
    assert_eq!(bearers.iter().filter(|bearer| **bearer == key(1)).count(), 51);
    assert_eq!(bearers.iter().filter(|bearer| **bearer == key(2)).count(), 50);
}

#[tokio::test]
async fn a_late_rejection_of_an_old_key_does_not_discard_the_new_one() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    ask(&upstream).await.unwrap();
    stand_in.hold("the late one");
    let mut late = upstream.messages(call("the late one"));
    future::select(&mut late, stand_in.arrived(MESSAGES, 2).boxed()).await;
    stand_in.revoke();
    ask(&upstream).await.unwrap();
    assert_eq!(stand_in.count(EXCHANGE), 2);
    stand_in.release();
    late.await.unwrap();
    ask(&upstream).await.unwrap();
    assert_eq!(stand_in.count(EXCHANGE), 2);
    assert_eq!(stand_in.bearers(MESSAGES), [key(1), key(1), key(1), key(2), key(2), key(2)]);
}

#[tokio::test]
async fn a_rejection_that_persists_with_a_new_key_is_returned() {
    let body = json!({"type": "error", "error": {"type": "permission_error", "message": "not this model"}}).to_string();
    for status in [401, 403] {
        let stand_in = MockCopilot::start().await;
        let upstream = stand_in.upstream();
        stand_in.answer(MESSAGES, status, &body);
        assert_eq!(refusal(&upstream).await, (status, body.clone()));
        assert_eq!(stand_in.bearers(MESSAGES), [key(1), key(2)]);
        assert_eq!(stand_in.count(EXCHANGE), 2);
    }
}

#[tokio::test]
async fn other_errors_do_not_discard_the_key() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    for status in [400, 404, 413, 429, 500] {
        stand_in.answer(MESSAGES, status, "{}");
        assert_eq!(refusal(&upstream).await.0, status);
    }
    assert_eq!(stand_in.count(MESSAGES), 5);
    assert_eq!(stand_in.count(EXCHANGE), 1);
}

#[tokio::test]
async fn copilots_error_messages_reach_the_client() {
    let stand_in = MockCopilot::start().await;
    let fixture = Fixture::with(Arc::new(stand_in.upstream())).await;
    stand_in.answer(MESSAGES, 400, "bad request: unknown Editor-Version header\n");
    let received = error(fixture.stream("hi").await).await;
    let message =
        "Upstream request failed: Copilot returned status 400 Bad Request: bad request: unknown Editor-Version header.";
    assert_eq!(received, (400, "invalid_request_error".to_owned(), message.to_owned()));
}

#[tokio::test]
async fn github_without_a_response_becomes_504() {
    let stand_in = MockCopilot::start().await;
    stand_in.hold(EXCHANGE);
    let timeouts = UpstreamTimeouts { read: Duration::from_millis(20), ..UpstreamTimeouts::default() };
    let fixture = Fixture::with(Arc::new(stand_in.upstream_of(CopilotConfig { timeouts, ..stand_in.config() }))).await;
    let (status, kind, _) = error(fixture.stream("hi").await).await;
    assert_eq!((status, kind.as_str()), (504, "timeout_error"));
}

#[tokio::test]
async fn a_key_is_renewed_before_it_expires_without_delaying_calls() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    ask(&upstream).await.unwrap();
    stand_in.clock().pass(1_499);
    ask(&upstream).await.unwrap();
    assert_eq!(stand_in.count(EXCHANGE), 1);
    stand_in.clock().pass(1);
    stand_in.hold(EXCHANGE);
    ask(&upstream).await.unwrap();
    ask(&upstream).await.unwrap();
    assert_eq!(stand_in.bearers(MESSAGES), vec![key(1); 4]);
    stand_in.arrived(EXCHANGE, 2).await;
    stand_in.release();
    ask_until(&stand_in, &upstream, &key(2)).await;
    assert_eq!(stand_in.count(EXCHANGE), 2);
}

#[tokio::test]
async fn an_expired_key_is_not_used() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    ask(&upstream).await.unwrap();
    stand_in.clock().pass(1_800);
    ask(&upstream).await.unwrap();
    assert_eq!(stand_in.bearers(MESSAGES), [key(1), key(2)]);
    stand_in.clock().pass(1_800);
    stand_in.answer(EXCHANGE, 500, "");
    let (status, message) = refusal(&upstream).await;
    assert_eq!(status, 500);
    assert!(message.contains("GitHub returned status 500"), "{message}");
    assert_eq!(stand_in.count(MESSAGES), 2);
}

#[tokio::test]
async fn a_failed_renewal_retains_the_key_and_is_not_repeated_at_once() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    ask(&upstream).await.unwrap();
    stand_in.clock().pass(1_500);
    stand_in.answer(EXCHANGE, 500, "");
    for _ in 0..5 {
        ask(&upstream).await.unwrap();
        stand_in.arrived(EXCHANGE, 2).await;
    }
    assert_eq!(stand_in.bearers(MESSAGES), vec![key(1); 6]);
    assert_eq!(stand_in.count(EXCHANGE), 2);
    stand_in.recover(EXCHANGE);
    // Whether the failure is observed before or after the clock moved, the pause is over now or one call later.
    while stand_in.count(EXCHANGE) < 3 {
        stand_in.clock().pass(31);
        ask(&upstream).await.unwrap();
    }
    ask_until(&stand_in, &upstream, &key(2)).await;
    assert_eq!(stand_in.count(EXCHANGE), 3);
}

#[tokio::test]
async fn a_temporary_failure_of_the_exchange_is_retried() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    let issued = json!({"token": "a key", "expires_at": 1_900_000_000, "refresh_in": 1_500});
    stand_in.answers(EXCHANGE, [(503, String::new()), (200, issued.to_string())]);
    stand_in.accept("a key");
    ask(&upstream).await.unwrap();
    assert_eq!(stand_in.count(EXCHANGE), 2);
    // That response contains no address, so it is discovered.
    assert_eq!(stand_in.bearers(USER), [GITHUB_TOKEN]);
    assert_eq!(stand_in.bearers(MESSAGES), ["a key"]);
}

#[tokio::test]
async fn the_github_token_is_the_key_in_token_mode() {
    let stand_in = MockCopilot::start().await;
    let tokens = RotatingTokens::new([GITHUB_TOKEN, "gho-another"]);
    let upstream =
        stand_in.upstream_of(CopilotConfig { mode: CopilotMode::Token, ..stand_in.config_with(tokens.clone()) });
    for _ in 0..3 {
        ask(&upstream).await.unwrap();
    }
    let [user] = stand_in.received(USER).try_into().unwrap();
    assert_eq!(user.headers["authorization"], format!("Bearer {GITHUB_TOKEN}"));
    assert_eq!(user.headers["x-github-api-version"], "2025-04-01");
    assert_eq!(stand_in.count(EXCHANGE), 0);
    assert_eq!(stand_in.bearers(MESSAGES), [GITHUB_TOKEN; 3]);

    // A rejection discards the address: the token may be valid elsewhere.
    stand_in.revoke();
    ask(&upstream).await.unwrap();
    assert_eq!((tokens.left(), stand_in.count(USER)), (2, 2));
    assert_eq!(stand_in.bearers(MESSAGES), [GITHUB_TOKEN; 5]);

    // If it is not, the source provides another one.
    let refused = || (401, "{}".to_owned());
    stand_in.answers(MESSAGES, [refused(), refused(), (200, "{}".to_owned())]);
    ask(&upstream).await.unwrap();
    assert_eq!(tokens.left(), 1);
    assert_eq!(stand_in.bearers(USER), [GITHUB_TOKEN, GITHUB_TOKEN, GITHUB_TOKEN, "gho-another"]);
    assert_eq!(stand_in.bearers(MESSAGES).last().unwrap(), "gho-another");
}

#[tokio::test]
async fn a_forbidden_call_does_not_reject_the_token() {
    let stand_in = MockCopilot::start().await;
    let tokens = RotatingTokens::new([GITHUB_TOKEN, "gho-another"]);
    let upstream =
        stand_in.upstream_of(CopilotConfig { mode: CopilotMode::Token, ..stand_in.config_with(tokens.clone()) });
    stand_in.answer(MESSAGES, 403, "{}");
    for _ in 0..3 {
        assert_eq!(refusal(&upstream).await.0, 403);
    }
    assert_eq!(tokens.left(), 2);
    assert_eq!(stand_in.bearers(MESSAGES), [GITHUB_TOKEN; 6]);
}

#[tokio::test]
async fn a_discovered_address_is_used_for_half_an_hour_and_discarded_on_a_rejection() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream_of(CopilotConfig { mode: CopilotMode::Token, ..stand_in.config() });
    for (pass, discoveries) in [(0, 1), (1_499, 1), (301, 2), (0, 2), (1_800, 3)] {
        stand_in.clock().pass(pass);
        ask(&upstream).await.unwrap();
        assert_eq!(stand_in.count(USER), discoveries);
    }
    for (status, discoveries) in [(401, 4), (403, 5)] {
        let refused = (status, "{}".to_owned());
        let accepted = (200, "{}".to_owned());
        stand_in.answers(MESSAGES, [refused, accepted]);
        ask(&upstream).await.unwrap();
        assert_eq!(stand_in.count(USER), discoveries);
    }
}

#[tokio::test]
async fn without_an_exchange_the_github_token_is_the_key() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    stand_in.answer(EXCHANGE, 404, json!({"message": "Not Found"}));
    ask(&upstream).await.unwrap();
    ask(&upstream).await.unwrap();
    assert_eq!((stand_in.count(EXCHANGE), stand_in.count(USER)), (1, 1));
    assert_eq!(stand_in.bearers(MESSAGES), [GITHUB_TOKEN; 2]);
}

#[tokio::test]
async fn a_configured_address_needs_no_discovery() {
    let stand_in = MockCopilot::start().await;
    let fixed = || CopilotConfig { api_url: Some(stand_in.api_url()), ..stand_in.config() };
    stand_in.accept(GITHUB_TOKEN);
    ask(&stand_in.upstream_of(CopilotConfig { mode: CopilotMode::Token, ..fixed() })).await.unwrap();
    assert_eq!((stand_in.count(EXCHANGE), stand_in.count(USER)), (0, 0));
    let exchange =
        json!({"token": "a key", "expires_at": 1_900_000_000, "endpoints": {"api": "https://example.invalid"}});
    stand_in.answer(EXCHANGE, 200, exchange);
    stand_in.accept("a key");
    ask(&stand_in.upstream_of(fixed())).await.unwrap();
    assert_eq!(stand_in.bearers(MESSAGES), [GITHUB_TOKEN, "a key"]);
}

#[tokio::test]
async fn a_new_github_token_applies_at_once() {
    let stand_in = MockCopilot::start().await;
    let tokens = RotatingTokens::new(["gho-first", GITHUB_TOKEN, "gho-another"]);
    let upstream = stand_in.upstream_of(stand_in.config_with(tokens.clone()));
    ask(&upstream).await.unwrap();
    // Even if the key of the old token is still valid.
    tokens.rotate();
    ask(&upstream).await.unwrap();
    assert_eq!(stand_in.bearers(MESSAGES), [key(1), key(2)]);
    // Even while an exchange of the old token is running, whose callers still get its key.
    stand_in.clock().pass(1_800);
    stand_in.hold(EXCHANGE);
    let mut old = std::pin::pin!(ask(&upstream));
    future::select(&mut old, stand_in.arrived(EXCHANGE, 3).boxed()).await;
    tokens.rotate();
    let mut new = std::pin::pin!(ask(&upstream));
    future::select(&mut new, stand_in.arrived(EXCHANGE, 4).boxed()).await;
    stand_in.release();
    let (old, new) = future::join(old, new).await;
    old.unwrap();
    new.unwrap();
    ask(&upstream).await.unwrap();
    assert_eq!(stand_in.bearers(EXCHANGE), ["gho-first", GITHUB_TOKEN, GITHUB_TOKEN, "gho-another"]);
}

#[tokio::test]
async fn a_rejected_github_token_is_replaced_by_another_one() {
    let stand_in = MockCopilot::start().await;
    let tokens = RotatingTokens::new(["gho-old", "gho-new"]);
    let upstream = stand_in.upstream_of(stand_in.config_with(tokens.clone()));
    let issued =
        json!({"token": "a key", "expires_at": 1_900_000_000, "endpoints": {"api": stand_in.api_url().as_str()}});
    stand_in.answers(EXCHANGE, [(401, "{}".to_owned()), (200, issued.to_string())]);
    stand_in.accept("a key");
    let answers = future::join_all((0..10).map(|_| ask(&upstream))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(stand_in.bearers(EXCHANGE), ["gho-old", "gho-new"]);
}

#[tokio::test]
async fn account_and_credential_problems_have_clear_messages() {
    let not_found = json!({"message": "Not Found"}).to_string();
    let no_access = json!({"error_details": {"message": "No access to GitHub Copilot found."}}).to_string();
    let other = json!({"token": 5}).to_string();
    let user = json!({"login": "someone"}).to_string();
    let plain = json!({"token": "k", "expires_at": 1_900_000_000, "endpoints": {"api": "ftp://a.b"}}).to_string();
    for (exchange, discovery, status, kind, expected) in [
        ((401, "{}"), None, 401, "authentication_error", "Run `hostler agents login copilot` or set GITHUB_TOKEN"),
        ((403, &*no_access), None, 403, "permission_error", "no usable Copilot subscription (GitHub"),
        ((404, &*not_found), Some((404, &*not_found)), 403, "permission_error", "no usable Copilot subscription"),
        ((404, &*not_found), Some((200, &*user)), 403, "permission_error", "no usable Copilot subscription"),
        ((429, "{}"), None, 429, "rate_limit_error", "status 429"),
        ((200, &*other), None, 502, "api_error", "has an unexpected format"),
        ((200, &*plain), None, 502, "api_error", "not an https URL"),
    ] {
        let stand_in = MockCopilot::start().await;
        stand_in.answer(EXCHANGE, exchange.0, exchange.1);
        if let Some((status, body)) = discovery {
            stand_in.answer(USER, status, body);
        }
        let fixture = Fixture::with(Arc::new(stand_in.upstream())).await;
        let (got, got_kind, message) = error(fixture.stream("hi").await).await;
        assert_eq!((got, got_kind.as_str()), (status, kind), "{exchange:?}: {message}");
        assert!(message.contains(expected), "{exchange:?}: {message}");
        assert_eq!(stand_in.count(MODELS) + stand_in.count(MESSAGES), 0);
    }
}

#[tokio::test]
async fn without_a_github_token_no_server_is_called() {
    let stand_in = MockCopilot::start().await;
    let fixture = Fixture::with(Arc::new(stand_in.upstream_of(stand_in.config_with(RotatingTokens::new([]))))).await;
    let (status, kind, message) = error(fixture.stream("hi").await).await;
    assert_eq!((status, kind.as_str()), (401, "authentication_error"));
    assert!(message.contains("Run `hostler agents login copilot` or set GITHUB_TOKEN"), "{message}");
    assert_eq!(stand_in.count(EXCHANGE), 0);
}

#[tokio::test]
async fn invalid_header_and_url_settings_are_rejected() {
    let stand_in = MockCopilot::start().await;
    let refused = |config| CopilotUpstream::new(config).unwrap_err();
    let not_a_header = |setting| CopilotConfigError::InvalidHeader { setting };
    let bad = || "a\nb".to_owned();
    let config = || stand_in.config();
    assert_eq!(refused(CopilotConfig { integration_id: Some(bad()), ..config() }), not_a_header("integration_id"));
    assert_eq!(refused(CopilotConfig { editor_version: bad(), ..config() }), not_a_header("editor_version"));
    assert_eq!(refused(CopilotConfig { api_version: bad(), ..config() }), not_a_header("api_version"));
    let mail = "mailto:a@b".parse().unwrap();
    assert_eq!(
        refused(CopilotConfig { api_url: Some(mail), ..config() }),
        CopilotConfigError::InvalidUrl { setting: "api_url" }
    );
}

#[tokio::test]
async fn model_ids_of_a_stream_are_translated_for_each_side() {
    let stand_in = MockCopilot::start().await;
    let config = CopilotConfig { integration_id: Some("an-id".to_owned()), ..stand_in.config() };
    let fixture = Fixture::with(Arc::new(stand_in.upstream_of(config))).await;
    let response = fixture
        .client
        .post(fixture.url("/v1/messages?beta=true"))
        .bearer_auth(fixture.bearer())
        .header("anthropic-version", "2023-06-01")
        .header("anthropic-beta", "claude-code-20250219,interleaved-thinking-2025-05-14,interleaved-thinking")
        .header("user-agent", "claude-cli/1")
        .body(request("hi", true))
        .send()
        .await
        .unwrap();
    let events = events(response).await;
    assert_eq!(names(&events), ["message_start", "something_new", "message_delta", "message_stop"]);
    assert_eq!(events[0].1["message"]["model"], "claude-sonnet-4-5");

    let [received] = stand_in.received(MESSAGES).try_into().unwrap();
    let body: Value = serde_json::from_slice(&received.body).unwrap();
    assert_eq!(body["model"], "claude-sonnet-4.5");
    let mut headers: Vec<(&str, &str)> =
        received.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    headers.retain(|(name, _)| !["host", "content-length", "accept"].contains(name));
    headers.sort_unstable();
    assert_eq!(
        headers,
        [
            ("anthropic-beta", "interleaved-thinking-2025-05-14"),
            ("anthropic-version", "2023-06-01"),
            ("authorization", &*format!("Bearer {}", key(1))),
            ("content-type", "application/json"),
            ("copilot-integration-id", "an-id"),
            ("editor-version", concat!("hostler/", env!("CARGO_PKG_VERSION"))),
            ("user-agent", concat!("hostler-gateway/", env!("CARGO_PKG_VERSION"))),
            ("x-github-api-version", "2025-04-01"),
        ]
    );
    let [exchange] = stand_in.received(EXCHANGE).try_into().unwrap();
    assert_eq!(exchange.headers["copilot-integration-id"], "an-id");
    assert_eq!((stand_in.count(EXCHANGE), stand_in.count(MODELS)), (1, 1));
}

#[tokio::test]
async fn without_an_integration_id_none_is_sent() {
    let stand_in = MockCopilot::start().await;
    ask(&stand_in.upstream()).await.unwrap();
    for path in [EXCHANGE, MESSAGES] {
        assert!(!stand_in.received(path)[0].headers.contains_key("copilot-integration-id"));
    }
}

#[tokio::test]
async fn only_anthropic_models_with_the_messages_api_are_offered() {
    let stand_in = MockCopilot::start().await;
    let fixture = Fixture::with(Arc::new(stand_in.upstream())).await;
    let listed = fixture.client.get(fixture.url("/v1/models")).bearer_auth(fixture.bearer()).send().await.unwrap();
    let listed: Value = serde_json::from_slice(&listed.bytes().await.unwrap()).unwrap();
    let ids: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["claude-sonnet-4-5"]);
    for model in ["gpt-5", "claude-haiku-3", "claude-opus-9"] {
        let body = json!({"model": model, "messages": []}).to_string();
        let (status, kind, _) = error(fixture.post(body).await).await;
        assert_eq!((status, kind.as_str()), (404, "not_found_error"), "{model}");
    }
    assert_eq!(stand_in.count(MESSAGES), 0);
}

#[tokio::test]
async fn the_model_list_survives_a_rejected_key_and_contains_limits() {
    let stand_in = MockCopilot::start().await;
    let upstream = stand_in.upstream();
    ask(&upstream).await.unwrap();
    stand_in.revoke();
    let [model] = upstream.models().await.unwrap().try_into().unwrap();
    assert_eq!((model.id.as_str(), model.name.as_str()), ("claude-sonnet-4.5", "Claude Sonnet 4.5"));
    assert_eq!((model.context_window, model.max_output), (Some(200_000), Some(64_000)));
    assert_eq!(stand_in.bearers(MODELS), [key(1), key(2)]);
    stand_in.answer(MODELS, 200, "[]");
    assert!(matches!(upstream.models().await, Err(UpstreamError::InvalidResponse { .. })));
}

#[tokio::test]
async fn tokens_cannot_be_counted() {
    let stand_in = MockCopilot::start().await;
    let fixture = Fixture::with(Arc::new(stand_in.upstream())).await;
    let sent = fixture.client.post(fixture.url("/v1/messages/count_tokens")).bearer_auth(fixture.bearer());
    let (status, kind, _) = error(sent.body(request("hi", false)).send().await.unwrap()).await;
    assert_eq!((status, kind.as_str()), (501, "api_error"));
}

#[tokio::test]
async fn neither_token_nor_key_is_in_a_response_a_log_or_debug_output() {
    let (log, _guard) = Log::begin();
    let stand_in = MockCopilot::start().await;
    let upstream = Arc::new(stand_in.upstream());
    ask(&upstream).await.unwrap();
    let quoting = json!({"type": "error", "error": {"type": "api_error",
        "message": format!("bad {} or {} or {GITHUB_TOKEN}", key(1), key(2))}});
    stand_in.answer(MESSAGES, 403, quoting);
    // The second attempt has a second key, and the error contains the first one, too.
    let (_, message) = refusal(&upstream).await;
    assert!(message.contains("bad [redacted] or [redacted] or [redacted]"), "{message}");
    stand_in.clock().pass(3_600);
    stand_in.answer(EXCHANGE, 403, json!({"message": format!("no, {GITHUB_TOKEN}")}));
    let (_, message) = refusal(&upstream).await;
    assert!(message.contains("no, [redacted]"), "{message}");

    let shown = format!("{upstream:?} {:?}", stand_in.config());
    assert!(shown.contains("127.0.0.1") && !shown.contains("planted"), "{shown}");
    let logged = log.text();
    assert!(
        logged.contains("acquired Copilot access") && logged.contains("failed to renew Copilot access"),
        "{logged}"
    );
    assert!(!logged.contains("planted"), "{logged}");
}
