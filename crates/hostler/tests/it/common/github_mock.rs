//! GitHub and Copilot on loopback: known tokens are exchanged for keys, and a key gives access to the scripted
//! model.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use hostler_gateway::UpstreamRequest;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::scripted_upstream::answer;

/// Running mock. It ends with its value.
pub struct GitHubMock {
    pub url: String,
    memory: Arc<GitHubMockState>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct GitHubMockState {
    /// Valid GitHub tokens.
    tokens: Mutex<HashSet<String>>,
    /// Issued keys, each with its token.
    keys: Mutex<HashMap<String, String>>,
    /// Tokens of the model requests, in order.
    asked: Mutex<Vec<String>>,
    url: Mutex<String>,
}

impl GitHubMock {
    pub async fn start(tokens: &[&str]) -> Self {
        let memory: Arc<GitHubMockState> = Arc::default();
        memory.tokens.lock().unwrap().extend(tokens.iter().map(|token| (*token).to_owned()));
        let app = Router::new()
            .route("/api/copilot_internal/v2/token", get(exchange))
            .route("/copilot/models", get(models))
            .route("/copilot/v1/messages", post(messages));
        let app = app.layer(DefaultBodyLimit::disable()).with_state(Arc::clone(&memory));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        memory.url.lock().unwrap().clone_from(&url);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, memory, task }
    }

    /// Returns the resource that clients sign in to.
    pub fn resource(&self) -> String {
        format!("{}/api", self.url)
    }

    /// Returns the configuration of an upstream that uses this mock.
    pub fn upstream_config(&self, name: &str) -> String {
        let url = &self.url;
        format!("[upstreams.{name}]\nkind = 'copilot'\ngithub-url = '{url}'\ngithub-api-url = '{url}/api'\n")
    }

    /// Revokes a token and all keys that were issued for it.
    pub fn revoke(&self, token: &str) {
        self.memory.tokens.lock().unwrap().remove(token);
        self.memory.keys.lock().unwrap().retain(|_, issued_for| issued_for != token);
    }

    /// Returns the tokens of the model requests, in order.
    pub fn model_request_tokens(&self) -> Vec<String> {
        self.memory.asked.lock().unwrap().clone()
    }
}

impl Drop for GitHubMock {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn bearer(headers: &HeaderMap) -> String {
    let value = headers.get("authorization").map(|value| value.to_str().unwrap());
    value.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned()
}

fn refused() -> Response {
    // Some servers quote the rejected value; it must not be passed on.
    (StatusCode::UNAUTHORIZED, r#"{"message":"Bad credentials"}"#).into_response()
}

async fn exchange(State(memory): State<Arc<GitHubMockState>>, headers: HeaderMap) -> Response {
    let token = bearer(&headers);
    if !memory.tokens.lock().unwrap().contains(&token) {
        return refused();
    }
    let mut keys = memory.keys.lock().unwrap();
    let key = format!("tid=issued-{}-for-this-test", keys.len());
    keys.insert(key.clone(), token);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let api = format!("{}/copilot", memory.url.lock().unwrap());
    let issued = json!({"token": key, "expires_at": now + 1800, "refresh_in": 1500, "endpoints": {"api": api}});
    axum::Json(issued).into_response()
}

async fn models(State(memory): State<Arc<GitHubMockState>>, headers: HeaderMap) -> Response {
    if !memory.keys.lock().unwrap().contains_key(&bearer(&headers)) {
        return refused();
    }
    let model =
        |id: &str| json!({"id": id, "name": id, "vendor": "Anthropic", "supported_endpoints": ["/v1/messages"]});
    axum::Json(json!({"data": [model("claude-sonnet-4.5"), model("claude-haiku-4.5")]})).into_response()
}

async fn messages(State(memory): State<Arc<GitHubMockState>>, headers: HeaderMap, body: Bytes) -> Response {
    let token = memory.keys.lock().unwrap().get(&bearer(&headers)).cloned();
    let Some(token) = token else { return refused() };
    memory.asked.lock().unwrap().push(token);
    let request: Value = serde_json::from_slice(&body).unwrap();
    let call = UpstreamRequest {
        model: request["model"].as_str().unwrap_or_default().to_owned(),
        stream: request["stream"].as_bool().unwrap_or_default(),
        body,
        version: None,
        betas: Vec::new(),
        beta_endpoint: false,
    };
    answer(call, bearer(&headers)).await.unwrap_or_else(|(status, body)| (status, body).into_response())
}
