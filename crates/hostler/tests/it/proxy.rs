//! `hostler proxy`: the real binary, used over HTTP by clients of the Messages API.

mod claude;
mod configuration;
mod credentials;
mod documented_examples;

use std::process::Stdio;

use crate::common::proxy_process::ProxyProcess;
use crate::common::{TestHome, run_to_end, text};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::Value;

/// Starts the proxy on the scripted model, in a separate home.
async fn scripted(home: &TestHome, args: &[&str]) -> ProxyProcess {
    ProxyProcess::start(home.hostler_command(&[&["proxy", "--upstream", "scripted"], args].concat())).await
}

#[tokio::test]
async fn proxy_prints_port_and_nonce_and_stops_on_signal_or_stdin_end() {
    let home = TestHome::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let proxy = scripted(&home, &[]).await;
        assert!(proxy.nonce.len() == 64 && proxy.nonce.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let (base_url, bearer) = (proxy.base_url(), proxy.nonce.clone());
        let log = proxy.stop_with_signal(signal).await;
        assert!(log.contains(&format!("  export ANTHROPIC_BASE_URL={base_url}\n")), "{log}");
        assert!(log.contains(&format!("  export ANTHROPIC_AUTH_TOKEN={bearer}.")), "{log}");
    }
    let mut command = home.hostler_command(&["proxy", "--upstream", "scripted", "--exit-on-stdin-eof"]);
    command.stdin(Stdio::piped());
    let mut proxy = ProxyProcess::start(command).await;
    drop(proxy.child.stdin.take());
    proxy.wait_for_exit().await;
    assert!(!home.path("state").exists(), "it needs no state");
}

#[tokio::test]
async fn running_stream_gets_an_error_when_the_proxy_stops() {
    let home = TestHome::new();
    let proxy = scripted(&home, &["--log-requests"]).await;
    let (mut response, mut seen) = proxy.start_stream("m", "!say begun\n!hang", "begun").await;
    proxy.signal(Signal::SIGTERM);
    while let Some(chunk) = response.chunk().await.unwrap() {
        seen.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(seen.contains("event: error") && !seen.contains("message_stop"), "{seen}");
    let log = proxy.wait_for_exit().await;
    assert!(log.contains(" status=200 ") && log.trim_end().ends_with(" broken-off"), "{log}");
}

#[tokio::test]
async fn proxy_answers_whole_and_streamed() {
    let home = TestHome::new();
    let proxy = scripted(&home, &[]).await;
    assert_eq!(proxy.answer_text("any-model", "hi").await, "Hello from the scripted model. You said: hi");
    let (status, stream) = proxy.send_message("any-model", "!think Hm.\n!say one two", true).await;
    assert_eq!(status, 200);
    let events: Vec<&str> = stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!((events.first(), events.last()), (Some(&"message_start"), Some(&"message_stop")), "{stream}");
    assert!(stream.contains("thinking_delta") && stream.contains("text_delta"), "{stream}");
    for status in [400, 401, 403, 404, 413, 429, 500, 529] {
        let (answered, body) = proxy.send_message("m", &format!("!error {status} No."), true).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((answered, &body["error"]["message"]), (status, &Value::from("No.")));
    }
    let (status, cut) = proxy.send_message("m", "!say one\n!cut", true).await;
    assert!(status == 200 && cut.contains("event: error") && !cut.contains("message_stop"), "{cut}");
    proxy.stop().await;
}

#[tokio::test]
async fn requests_without_the_nonce_are_rejected() {
    let home = TestHome::new();
    let proxy = scripted(&home, &["--log-requests"]).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let send = async |method: Method, path: &str, headers: &[(&str, String)]| {
        let mut request = client.request(method, proxy.base_url() + path);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.body(r#"{"model":"m","messages":[]}"#).send().await.unwrap().status().as_u16()
    };
    let bearer = |text: &str| ("authorization", format!("Bearer {text}"));
    let wrong = "0".repeat(64);
    for headers in [
        vec![],
        vec![("x-api-key", proxy.bearer())],
        vec![bearer(&format!("{wrong}.test"))],
        vec![bearer(&proxy.nonce)],
        vec![bearer(&format!("{}.", proxy.nonce))],
        vec![("authorization", proxy.bearer())],
    ] {
        for (method, path) in [(Method::POST, "/v1/messages"), (Method::GET, "/v1/models"), (Method::GET, "/nowhere")] {
            assert_eq!(send(method, path, &headers).await, 401, "{path} {headers:?}");
        }
    }
    let good = [bearer(&proxy.bearer())];
    assert_eq!(send(Method::GET, "/nowhere", &good).await, 404);
    assert_eq!(send(Method::GET, "/v1/models", &good).await, 200);
    assert_eq!(send(Method::GET, "/", &[]).await, 200);
    for path in ["/healthz", "/metrics"] {
        assert_eq!(send(Method::GET, path, &[]).await, 401, "{path} is not served unless it is asked for");
    }
    proxy.wait_for_log("status=404", 1).await;
    let log = proxy.stop().await;
    assert_eq!(log.matches(" status=401 ").count(), 20, "{log}");
    assert!(!log.contains(&wrong), "{log}");
}

#[tokio::test]
async fn requests_are_logged_and_counted_without_content() {
    let home = TestHome::new();
    let proxy = scripted(&home, &["--log-requests", "--metrics"]).await;
    proxy.answer_text("claude-sonnet-4-5", "my-own-zebra").await;
    proxy.send_message("claude-sonnet-4-5", "!error 529 other-zebra", false).await;
    proxy.wait_for_log("POST /v1/messages", 2).await;
    let get = async |path: &str| reqwest::get(proxy.base_url() + path).await.unwrap();
    assert_eq!(get("/healthz").await.status(), 200);
    let metrics = get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("hostler_gateway_requests_total"), "{metrics}");
    let nonce = proxy.nonce.clone();
    let log = proxy.stop().await;
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(" POST ")).collect();
    for (line, end) in lines.iter().zip([" answered", " refused"]) {
        assert!(line.contains(" POST /v1/messages model=claude-sonnet-4-5 upstream=scripted status="), "{line}");
        assert!(line.ends_with(end), "{line}");
    }
    assert_eq!(log.matches(&nonce).count(), 1, "the nonce is printed once, to copy");
    assert!(!log.contains("own-zebra") && !log.contains("other-zebra") && !metrics.contains("zebra"), "{log}");
}

#[tokio::test]
async fn invalid_arguments_and_used_ports_have_their_exit_codes_and_messages() {
    let home = TestHome::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (args, code, part) in [
        (&["--listen", "everywhere"][..], 2, "--listen must be an address and a port"),
        (&["--upstream", "acme"], 2, "--upstream must be one of"),
        (&["--upstream-url", "ftp://x"], 2, "--upstream-url must be an http or https URL"),
        (&["--upstream", "scripted", "--listen", &address], 1, "choose another address"),
    ] {
        let output = run_to_end(home.hostler_command(&[&["proxy"], args].concat())).await;
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!((output.status.code(), out.as_str()), (Some(code), ""), "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: {err}");
    }
}
