//! The device flow against a mock of GitHub, with a clock that does not wait.

use futures::FutureExt;
use futures::future;
use hostler_gateway_copilot::{DeviceCode, DeviceLoginConfig, DeviceLoginError, WallClock, device_login_with_clock};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::mock_copilot::{ACCESS_TOKEN, DEVICE_CODE, MockCopilot, TestClock};

fn code(interval: Value) -> String {
    json!({"device_code": "planted-device-code", "user_code": "WDJB-MJHT", "expires_in": 900, "interval": interval,
        "verification_uri": "https://github.com/login/device"})
    .to_string()
}

fn no(error: &str) -> (u16, String) {
    (200, json!({"error": error, "error_description": "x"}).to_string())
}

fn yes() -> (u16, String) {
    (200, json!({"access_token": "gho-planted", "token_type": "bearer", "scope": "read:user"}).to_string())
}

async fn sign_in(
    stand_in: &MockCopilot,
    clock: &dyn WallClock,
) -> (Result<String, DeviceLoginError>, Option<DeviceCode>) {
    let mut shown = None;
    let token = device_login_with_clock(clock, &stand_in.login_config(), |code| shown = Some(code.clone())).await;
    (token.map(|token| token.expose_secret().to_owned()), shown)
}

#[tokio::test]
async fn the_code_is_shown_and_the_token_is_returned_after_it_was_entered() {
    let stand_in = MockCopilot::start().await;
    stand_in.answer(DEVICE_CODE, 200, code(json!(5)));
    stand_in.answers(ACCESS_TOKEN, [no("authorization_pending"), yes()]);
    let clock = TestClock::new();
    let (token, shown) = sign_in(&stand_in, &*clock).await;
    assert_eq!(token.unwrap(), "gho-planted");
    let shown = shown.unwrap();
    assert_eq!(shown.user_code, "WDJB-MJHT");
    assert_eq!(shown.verification_url.as_str(), "https://github.com/login/device");
    assert_eq!(shown.expires_in.as_secs(), 900);

    let [begun] = stand_in.received(DEVICE_CODE).try_into().unwrap();
    assert_eq!(begun.body, "client_id=planted-client&scope=read%3Auser");
    assert_eq!(begun.headers["accept"], "application/json");
    assert_eq!(begun.headers["content-type"], "application/x-www-form-urlencoded");
    for polled in stand_in.received(ACCESS_TOKEN) {
        assert_eq!(
            polled.body,
            "client_id=planted-client&device_code=planted-device-code\
             &grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code"
        );
    }
}

#[tokio::test]
async fn poll_responses_determine_the_result_and_the_intervals() {
    let html = || (502, "<html>".to_owned());
    let refused = |code: &str| Err(DeviceLoginError::Rejected { code: code.to_owned() });
    for (interval, answers, expected, slept) in [
        (json!(5), vec![yes()], Ok("gho-planted"), vec![5]),
        (json!(null), vec![yes()], Ok("gho-planted"), vec![5]),
        (
            json!(7),
            vec![no("authorization_pending"), no("authorization_pending"), yes()],
            Ok("gho-planted"),
            vec![7, 7, 7],
        ),
        (json!(5), vec![no("slow_down"), no("authorization_pending"), yes()], Ok("gho-planted"), vec![5, 10, 10]),
        (
            json!(5),
            vec![(200, json!({"error": "slow_down", "interval": 20}).to_string()), yes()],
            Ok("gho-planted"),
            vec![5, 20],
        ),
        // An error status with the same content has the same effect, and a temporary failure does not end the polling.
        (json!(5), vec![(400, no("authorization_pending").1), html(), yes()], Ok("gho-planted"), vec![5, 5, 10]),
        (json!(5), vec![no("access_denied")], Err(DeviceLoginError::Denied), vec![5]),
        (json!(5), vec![no("authorization_pending"), no("expired_token")], Err(DeviceLoginError::Expired), vec![5, 5]),
        (json!(5), vec![no("incorrect_device_code")], refused("incorrect_device_code"), vec![5]),
        (json!(5), vec![(404, "<html>".to_owned())], refused("404 Not Found"), vec![5]),
        // The code expires after 900 s: this last pause exceeds it.
        (json!(60), vec![no("authorization_pending")], Err(DeviceLoginError::Expired), vec![60; 15]),
    ] {
        let stand_in = MockCopilot::start().await;
        let polls = answers.clone();
        stand_in.answer(DEVICE_CODE, 200, code(interval.clone()));
        stand_in.answers(ACCESS_TOKEN, answers);
        let clock = TestClock::new();
        let (token, _) = sign_in(&stand_in, &*clock).await;
        assert_eq!(token.as_deref(), expected.as_ref().copied(), "{interval} {polls:?}");
        assert_eq!(clock.slept(), slept, "{interval} {polls:?}");
    }
}

#[tokio::test]
async fn responses_to_the_code_request_are_validated() {
    let with = |field: &str, value: &str| {
        let mut answer: Value = serde_json::from_str(&code(json!(5))).unwrap();
        answer[field] = value.into();
        (200, answer.to_string())
    };
    let not = |what| DeviceLoginError::InvalidResponse { what };
    for (answer, expected) in [
        ((404, "{}".to_owned()), DeviceLoginError::UnknownClient { client_id: "planted-client".to_owned() }),
        (no("device_flow_disabled"), DeviceLoginError::Rejected { code: "device_flow_disabled".to_owned() }),
        ((400, no("unauthorized_client").1), DeviceLoginError::Rejected { code: "unauthorized_client".to_owned() }),
        ((500, "<html>".to_owned()), DeviceLoginError::Rejected { code: "500 Internal Server Error".to_owned() }),
        ((200, "<html>".to_owned()), not("the code")),
        (with("user_code", ""), not("the code")),
        (with("user_code", "\u{1b}[2J"), not("the code")),
        (with("user_code", &"x".repeat(100)), not("the code")),
        (with("verification_uri", "javascript:alert(1)"), not("the verification URL")),
        (with("verification_uri", "nowhere"), not("the verification URL")),
    ] {
        let stand_in = MockCopilot::start().await;
        let shown = format!("{answer:?}");
        stand_in.answer(DEVICE_CODE, answer.0, answer.1);
        let (token, code) = sign_in(&stand_in, &*TestClock::new()).await;
        assert_eq!(token.unwrap_err(), expected, "{shown}");
        assert_eq!(code, None, "{shown}");
    }
}

#[tokio::test]
async fn without_a_client_id_sign_in_fails_without_a_call() {
    let stand_in = MockCopilot::start().await;
    for client_id in [None, Some(String::new())] {
        let config = DeviceLoginConfig { client_id, ..stand_in.login_config() };
        let refused =
            device_login_with_clock(&*TestClock::new(), &config, |_| panic!("there is no code")).await.unwrap_err();
        assert_eq!(refused, DeviceLoginError::NoClientId);
        assert!(refused.to_string().contains("set client-id of the copilot upstream"), "{refused}");
    }
    assert_eq!(stand_in.count(DEVICE_CODE), 0);
}

#[tokio::test]
async fn dropping_the_future_cancels_the_sign_in() {
    let stand_in = MockCopilot::start().await;
    stand_in.answer(DEVICE_CODE, 200, code(json!(5)));
    // While the code is being entered.
    let clock = TestClock::standing_still();
    let (shown, mut is_shown) = tokio::sync::watch::channel(false);
    {
        let config = stand_in.login_config();
        let signing_in = device_login_with_clock(&*clock, &config, move |_| {
            shown.send_replace(true);
        });
        let shown = is_shown.wait_for(|shown| *shown);
        future::select(signing_in.boxed(), shown.boxed()).await;
    }
    assert_eq!(stand_in.count(ACCESS_TOKEN), 0);
    // While GitHub is being polled.
    stand_in.hold(ACCESS_TOKEN);
    {
        let clock = TestClock::new();
        let config = stand_in.login_config();
        let signing_in = device_login_with_clock(&*clock, &config, |_| {});
        future::select(signing_in.boxed(), stand_in.arrived(ACCESS_TOKEN, 1).boxed()).await;
    }
    stand_in.hung_up().await;
}

#[tokio::test]
async fn an_unreachable_github_is_an_error() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let url = format!("http://user:planted-password@{gone}").parse().unwrap();
    let config = DeviceLoginConfig::new(url, Some("c".to_owned()));
    assert!(!format!("{config:?}").contains("planted"));
    let error = device_login_with_clock(&*TestClock::new(), &config, |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("failed to request a code") && !error.contains("planted"), "{error}");
}
