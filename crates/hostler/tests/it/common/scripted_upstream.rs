//! Provider's server on loopback: plays scripts, records requests, and quotes its callers' keys in errors.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures::StreamExt as _;
use hostler_gateway::{Upstream as _, UpstreamError, UpstreamRequest, UpstreamResponseBody};
use hostler_gateway_scripted::ScriptedUpstream;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Placeholder in a script for the caller's key.
pub const KEY_PLACEHOLDER: &str = "%KEY%";

const JSON: (&str, &str) = ("content-type", "application/json");

/// Running server. It ends with its value.
pub struct ScriptedUpstreamServer {
    pub url: String,
    memory: Arc<ScriptedServerState>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct ScriptedServerState {
    requests: Mutex<Vec<RecordedRequest>>,
    /// Prompts, and the scripts that replace them.
    prompt_scripts: Mutex<Vec<(String, String)>>,
    /// Content that is rejected, and the error.
    rejected: Mutex<Option<(String, StatusCode, String)>>,
}

impl ScriptedServerState {
    /// Returns the rejection of a request with rejected content.
    fn refusal(&self, body: &Value) -> Option<Response> {
        let refused = self.rejected.lock().unwrap();
        let (part, status, message) = refused.as_ref()?;
        body["messages"].to_string().contains(part).then(|| {
            let error = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": message } });
            (*status, [JSON], error.to_string()).into_response()
        })
    }

    /// Returns the body with prompts replaced by scripts.
    fn with_mapped_scripts(&self, body: Bytes) -> Bytes {
        let meanings = self.prompt_scripts.lock().unwrap();
        match std::str::from_utf8(&body) {
            Ok(text) if !meanings.is_empty() => {
                let bare = |prompt: &str| {
                    let quoted = Value::from(prompt).to_string();
                    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap().to_owned()
                };
                let text = meanings
                    .iter()
                    .fold(text.to_owned(), |text, (prompt, script)| text.replace(&bare(prompt), &bare(script)));
                Bytes::from(text)
            }
            _ => body,
        }
    }
}

/// Recorded parts of a request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub headers: HeaderMap,
    pub max_tokens: Option<i64>,
    pub body: Value,
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl ScriptedUpstreamServer {
    pub async fn start() -> Self {
        let memory = Arc::default();
        let app = Router::new().route("/v1/messages", post(messages));
        let app = app.layer(DefaultBodyLimit::disable()).with_state(Arc::clone(&memory));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, memory, task }
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.memory.requests.lock().unwrap().clone()
    }

    /// Rejects requests whose messages contain this from now on.
    pub fn reject_requests_containing(&self, part: &str, status: u16, message: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        *self.memory.rejected.lock().unwrap() = Some((part.to_owned(), status, message.to_owned()));
    }

    /// Maps a prompt to a script from now on, or removes the mapping.
    pub fn map_prompt_to_script(&self, prompt: &str, script: Option<&str>) {
        let mut meanings = self.memory.prompt_scripts.lock().unwrap();
        meanings.retain(|(known, _)| known != prompt);
        meanings.extend(script.map(|script| (prompt.to_owned(), script.to_owned())));
    }
}

impl Drop for ScriptedUpstreamServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn messages(State(memory): State<Arc<ScriptedServerState>>, headers: HeaderMap, body: Bytes) -> Response {
    let json: Value = serde_json::from_slice(&body).unwrap();
    let body = memory.with_mapped_scripts(scripts_in_notifications(body));
    let call = UpstreamRequest {
        model: json["model"].as_str().unwrap_or_default().to_owned(),
        stream: json["stream"].as_bool().unwrap_or_default(),
        body,
        version: None,
        betas: Vec::new(),
        beta_endpoint: false,
    };
    let request = RecordedRequest { headers, max_tokens: json["max_tokens"].as_i64(), body: json };
    let key = request.header("x-api-key").unwrap_or_default().to_owned();
    let refusal = memory.refusal(&request.body);
    memory.requests.lock().unwrap().push(request);
    if let Some(refusal) = refusal {
        return refusal;
    }
    answer(call, key).await.unwrap_or_else(|(status, body)| (status, [JSON], body).into_response())
}

/// Some builds wrap the reason of a turn into a reminder, which the scripted model does not read. Extracts a script
/// from it.
fn scripts_in_notifications(body: Bytes) -> Bytes {
    match std::str::from_utf8(&body) {
        Ok(text) if text.contains("<task-notification>") => {
            let tags = ["<system-reminder>\\n[SYSTEM NOTIFICATION", "</task-notification>\\n</system-reminder>"];
            let bare = text.replace(tags[0], "[SYSTEM NOTIFICATION").replace(tags[1], "</task-notification>");
            Bytes::from(bare)
        }
        _ => body,
    }
}

pub async fn answer(call: UpstreamRequest, key: String) -> Result<Response, (StatusCode, Bytes)> {
    let quote = move |bytes: Bytes| match std::str::from_utf8(&bytes) {
        Ok(text) if text.contains(KEY_PLACEHOLDER) => Bytes::from(text.replace(KEY_PLACEHOLDER, &key)),
        _ => bytes,
    };
    let refused = |error| match error {
        UpstreamError::ErrorResponse(refusal) => (refusal.status, quote(refusal.body)),
        error => (StatusCode::BAD_GATEWAY, error.to_string().into()),
    };
    match ScriptedUpstream.messages(call).await.map_err(&refused)?.body {
        UpstreamResponseBody::Whole(body) => Ok(([JSON], quote(body)).into_response()),
        UpstreamResponseBody::Events(events) => {
            // A script that starts with an error is rejected by status.
            let mut events = events.peekable();
            if let Some(Err(error)) = Pin::new(&mut events).next_if(Result::is_err).await {
                return Err(refused(error));
            }
            let events = events.map(move |chunk| chunk.map(&quote));
            Ok(([("content-type", "text/event-stream")], Body::from_stream(events)).into_response())
        }
    }
}
