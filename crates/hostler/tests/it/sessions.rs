//! `hostler sessions` and `hostler run --session` as people and scripts use them: the real binary, the real agent,
//! the scripted model; with and without a running host.

use std::sync::{Arc, Mutex};

use crate::common::{TEST_TIMEOUT, TestHome, run_to_end, text};
use ahp_types::state::SessionStatus;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use hostler_gateway::{Upstream as _, UpstreamRequest, UpstreamResponseBody};
use hostler_gateway_scripted::ScriptedUpstream;
use serde_json::Value;

/// Runs a command that must end with an exit code; returns stdout and stderr.
async fn expect(code: i32, home: &TestHome, args: &[&str]) -> (String, String) {
    let mut command = home.hostler_command(args);
    command.env("HOSTLER_UPSTREAM", "scripted").env("HOSTLER_CLAUDE", "native");
    let output = run_to_end(command).await;
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    (out, err)
}

async fn listed(home: &TestHome, more: &[&str]) -> Vec<Value> {
    let (out, _) = expect(0, home, &[&["sessions", "list", "--json"], more].concat()).await;
    serde_json::from_str(&out).unwrap()
}

/// Waits until the list matches: a running host updates its list a moment later.
async fn until_listed(home: &TestHome, more: &[&str], wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let wait = async {
        loop {
            let sessions = listed(home, more).await;
            if wanted(&sessions) {
                return sessions;
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, wait).await.expect("the list changes")
}

fn is_idle(session: &Value) -> bool {
    session["status"].as_u64().unwrap() & u64::from(SessionStatus::InProgress.bits()) == 0
}

async fn shown(home: &TestHome, session: &str) -> Value {
    let (out, _) = expect(0, home, &["sessions", "show", session, "--json"]).await;
    serde_json::from_str(&out).unwrap()
}

fn id(session: &Value) -> String {
    session["resource"].as_str().unwrap().strip_prefix("claude:/").unwrap().to_owned()
}

/// Runs the life cycle of a session, every step as a separate command.
async fn run_session_life_cycle(home: &TestHome) {
    assert!(listed(home, &["--all"]).await.is_empty());
    expect(0, home, &["run", "!say the first answer"]).await;
    let first = id(&until_listed(home, &[], |all| is_idle(&all[0])).await[0]);
    let start: String = first.chars().take(8).collect();

    let (out, _) = expect(0, home, &["sessions", "list"]).await;
    let row = out.lines().nth(1).unwrap();
    assert!(row.starts_with(&start) && row.contains("idle") && row.contains("!say the first answer"), "{out}");
    assert!(row.contains("/work"), "the folder is named: {out}");
    let (out, _) = expect(0, home, &["sessions", "show", &start]).await;
    assert!(out.contains("> !say the first answer\nthe first answer\n") && out.contains("tokens in"), "{out}");

    expect(0, home, &["sessions", "rename", &start, "A better title"]).await;
    until_listed(home, &[], |all| all[0]["title"] == "A better title").await;

    expect(0, home, &["sessions", "archive", &start]).await;
    until_listed(home, &[], <[Value]>::is_empty).await;
    assert_eq!(listed(home, &["--all"]).await.len(), 1);
    expect(0, home, &["sessions", "archive", "--undo", &start]).await;
    until_listed(home, &[], |all| all.len() == 1).await;

    let (out, err) = expect(0, home, &["run", "--session", &start, "!say the second answer"]).await;
    assert_eq!((out.as_str(), err.as_str()), ("the second answer", ""));
    let (out, _) = expect(0, home, &["sessions", "show", &first]).await;
    let second = out.split_once("\nTurn 2").unwrap().1;
    assert!(second.contains("> !say the second answer\nthe second answer\n"), "{out}");
    assert_eq!(shown(home, &start).await["chat"]["turns"].as_array().unwrap().len(), 2);
    assert_eq!(listed(home, &[]).await.len(), 1, "no session was made for it");
    assert_eq!(listed(home, &[]).await[0]["title"], "A better title");

    expect(0, home, &["run", "!say another"]).await;
    let sessions = until_listed(home, &[], |all| all.iter().all(is_idle)).await;
    assert_eq!((sessions.len(), id(&sessions[1])), (2, first.clone()), "the newest comes first");
    let newest = listed(home, &["--limit", "1"]).await;
    assert_eq!((newest.len(), id(&newest[0])), (1, id(&sessions[0])));

    let (_, err) = expect(2, home, &["sessions", "delete", &start]).await;
    assert!(err.contains("--yes"), "{err}");
    expect(0, home, &["sessions", "delete", "--yes", &start]).await;
    expect(1, home, &["sessions", "show", &start]).await;
    assert_eq!(listed(home, &["--all"]).await.len(), 1);
}

#[tokio::test]
async fn sessions_persist_between_commands_without_a_running_host() {
    let home = TestHome::new();
    run_session_life_cycle(&home).await;
    assert!(!home.path("state").join("hostler").join("endpoint.json").exists());
    assert!(home.locks().is_empty(), "{:?}", home.locks());
}

#[tokio::test]
async fn commands_use_the_sessions_of_the_running_host() {
    let home = TestHome::new();
    let host = home.serve("native").await;
    run_session_life_cycle(&home).await;
    assert_eq!(host.agents().len(), 1, "the deleted session's agent is gone: {:#?}", host.agents());
    host.stop().await;
}

/// Received model requests.
type ReceivedRequests = Arc<Mutex<Vec<String>>>;

/// Starts an upstream that plays scripts and records its requests.
async fn upstream() -> (String, ReceivedRequests, ScriptedServerTask) {
    async fn messages(State(asked): State<ReceivedRequests>, body: Bytes) -> Response {
        asked.lock().unwrap().push(text(&body));
        let json: Value = serde_json::from_slice(&body).unwrap();
        let model = json["model"].as_str().unwrap().to_owned();
        let stream = json["stream"].as_bool().unwrap_or_default();
        let call = UpstreamRequest { model, stream, body, version: None, betas: Vec::new(), beta_endpoint: false };
        match ScriptedUpstream.messages(call).await.unwrap().body {
            UpstreamResponseBody::Whole(body) => ([("content-type", "application/json")], body).into_response(),
            UpstreamResponseBody::Events(events) => {
                ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
            }
        }
    }
    let asked = ReceivedRequests::default();
    let app = Router::new().route("/v1/messages", post(messages)).with_state(Arc::clone(&asked));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, asked, ScriptedServerTask(task))
}

/// Running server. It ends with its value.
struct ScriptedServerTask(tokio::task::JoinHandle<()>);

impl Drop for ScriptedServerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test]
async fn continued_conversation_has_its_context() {
    let home = TestHome::new();
    let (url, asked, _server) = upstream().await;
    let run = async |args: &[&str]| {
        let mut command = home.hostler_command(args);
        command.envs([("HOSTLER_UPSTREAM", "anthropic"), ("HOSTLER_UPSTREAM_URL", &url), ("HOSTLER_CLAUDE", "native")]);
        command.env("HOSTLER_UPSTREAM_KEY", "a-key");
        let output = run_to_end(command).await;
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    };
    run(&["run", "something to remember: marzipan"]).await;
    let session = id(&listed(&home, &[]).await[0]);
    run(&["run", "--session", &session, "!say yes"]).await;
    let asked = asked.lock().unwrap().clone();
    let second: Vec<_> = asked.iter().filter(|body| body.contains("!say yes")).collect();
    assert!(second.iter().any(|body| body.contains("marzipan")), "{asked:#?}");
}
