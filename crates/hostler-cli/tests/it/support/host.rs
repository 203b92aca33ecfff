//! Scripted host that speaks AHP over a real WebSocket.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use futures::{SinkExt as _, StreamExt as _};
use hostler_cli::{
    AgentDiagnostics, GatewayOptions, HostDiagnostics, HostLauncher, HostOptions, LaunchError, RunningHost, Signal,
};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

/// Step of the fake host after it receives a message.
#[derive(Clone)]
pub(crate) enum HostScriptStep {
    /// An action on the chat; `turnId` is filled in.
    Chat(Value),
    /// An action on the session.
    Session(Value),
    /// Returns the client's action as rejected. Nothing follows.
    Reject(&'static str),
    /// Sends a signal to the command, like Ctrl-C at this moment.
    Signal(mpsc::Sender<Signal>, Signal),
    /// Waits until the client cancels, and reports the turn as cancelled.
    WaitForCancel,
    /// Waits until the client has sent a cancel, and ignores it.
    IgnoreCancel,
    /// Waits for the client's next action and broadcasts it.
    EchoNextAction,
    /// Signals the first semaphore, waits for the second.
    Synchronize(Arc<Semaphore>, Arc<Semaphore>),
    /// Sends a request to the client.
    SendRequest(&'static str),
    /// Drops the connection.
    HangUp,
}

/// Returns a response with these deltas.
pub(crate) fn answer_steps(deltas: &[&str]) -> Vec<HostScriptStep> {
    let mut steps = vec![
        HostScriptStep::Session(json!({ "type": "session/ready" })),
        HostScriptStep::Chat(
            json!({ "type": "chat/responsePart", "part": { "kind": "markdown", "id": "m1", "content": "" } }),
        ),
    ];
    steps.extend(
        deltas
            .iter()
            .map(|delta| HostScriptStep::Chat(json!({ "type": "chat/delta", "partId": "m1", "content": delta }))),
    );
    steps
}

pub(crate) fn turn_complete() -> HostScriptStep {
    HostScriptStep::Chat(json!({ "type": "chat/turnComplete", "duration": 12 }))
}

pub(crate) fn turn_error(kind: &str, message: &str) -> HostScriptStep {
    let error =
        json!({ "errorType": kind, "message": message, "_meta": { "hostler": { "stderr": "line of stderr\n" } } });
    HostScriptStep::Chat(json!({ "type": "chat/error", "duration": 12, "part": { "kind": "error", "error": error } }))
}

/// Launches scripted hosts and records calls.
#[derive(Clone)]
pub(crate) struct FakeHostLauncher {
    script: Arc<Vec<HostScriptStep>>,
    pub(crate) recorded: Arc<RecordedCalls>,
    sessions: Arc<Vec<Value>>,
    turns: Value,
    attachment_plan: Option<Value>,
    search_result: Value,
    has_running_turn: bool,
    failure: Option<LaunchError>,
    never_stops: bool,
}

/// Page size of the fake's session list, whatever the client requests.
const SESSION_PAGE_SIZE: usize = 2;
/// Older turns per page.
const TURN_PAGE_SIZE: usize = 30;

/// Calls that reached the fake hosts.
#[derive(Default)]
pub(crate) struct RecordedCalls {
    pub(crate) options: Mutex<Vec<HostOptions>>,
    pub(crate) frames: Mutex<Vec<Value>>,
    pub(crate) shut_down: Mutex<usize>,
    pub(crate) configured: watch::Sender<Vec<GatewayOptions>>,
}

impl RecordedCalls {
    /// Returns the params of all frames of a method.
    pub(crate) fn params(&self, method: &str) -> Vec<Value> {
        let frames = self.frames.lock().unwrap();
        frames.iter().filter(|frame| frame["method"] == method).map(|frame| frame["params"].clone()).collect()
    }

    pub(crate) fn actions(&self) -> Vec<String> {
        self.params("dispatchAction")
            .iter()
            .map(|params| params["action"]["type"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl FakeHostLauncher {
    pub(crate) fn new(script: impl IntoIterator<Item = HostScriptStep>) -> Self {
        let script = Arc::new(script.into_iter().collect());
        Self {
            script,
            recorded: Arc::default(),
            sessions: Arc::default(),
            turns: json!([]),
            attachment_plan: None,
            search_result: Value::Null,
            has_running_turn: false,
            failure: None,
            never_stops: false,
        }
    }

    /// Offers these sessions, with these turns in the chat of each.
    pub(crate) fn with_sessions(self, sessions: Vec<Value>, turns: Value) -> Self {
        Self { sessions: Arc::new(sessions), turns, ..self }
    }

    /// Sets the answer to attachment plan requests; without it, the method is unknown.
    pub(crate) fn with_attachment_plan(self, plan: Value) -> Self {
        Self { attachment_plan: Some(plan), ..self }
    }

    /// Sets the answer to every search.
    pub(crate) fn with_search_result(self, found: Value) -> Self {
        Self { search_result: found, ..self }
    }

    /// Reports a running turn in each chat.
    pub(crate) fn with_running_turn(self) -> Self {
        Self { has_running_turn: true, ..self }
    }

    /// Fails to start.
    pub(crate) fn failing_to_start(failure: LaunchError) -> Self {
        Self { failure: Some(failure), ..Self::new([]) }
    }

    /// Never stops.
    pub(crate) fn never_stopping() -> Self {
        Self { never_stops: true, ..Self::new([]) }
    }
}

impl HostLauncher for FakeHostLauncher {
    fn launch_host(&self, options: HostOptions) -> BoxFuture<'static, Result<Box<dyn RunningHost>, LaunchError>> {
        let this = self.clone();
        Box::pin(async move {
            this.recorded.options.lock().unwrap().push(options.clone());
            if let Some(failure) = this.failure {
                return Err(failure);
            }
            let listener = TcpListener::bind(options.listen).await.unwrap();
            let addr = listener.local_addr().unwrap();
            let shared = Arc::new(FakeHostState {
                script: this.script,
                seen: this.recorded,
                sessions: this.sessions,
                turns: this.turns,
                plan: this.attachment_plan,
                found: this.search_result,
                busy: this.has_running_turn,
                clients: watch::channel(0).0,
                diagnostics: Mutex::default(),
                token: options.token.map(|token| token.expose_secret().to_owned()),
            });
            let mut tasks = JoinSet::new();
            tasks.spawn(accept(listener, Arc::clone(&shared)));
            let host = FakeHost { addr, shared, stubborn: this.never_stops, tasks: Mutex::new(tasks) };
            Ok(Box::new(host) as Box<dyn RunningHost>)
        })
    }
}

struct FakeHostState {
    script: Arc<Vec<HostScriptStep>>,
    seen: Arc<RecordedCalls>,
    sessions: Arc<Vec<Value>>,
    turns: Value,
    plan: Option<Value>,
    found: Value,
    busy: bool,
    clients: watch::Sender<usize>,
    diagnostics: Mutex<HostDiagnostics>,
    token: Option<String>,
}

struct FakeHost {
    addr: SocketAddr,
    shared: Arc<FakeHostState>,
    stubborn: bool,
    tasks: Mutex<JoinSet<()>>,
}

impl RunningHost for FakeHost {
    fn reconfigure(&self, options: GatewayOptions) -> Result<(), LaunchError> {
        self.shared.seen.configured.send_modify(|all| all.push(options));
        Ok(())
    }

    fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.stubborn {
                std::future::pending::<()>().await;
            }
            *self.shared.seen.shut_down.lock().unwrap() += 1;
            self.tasks.lock().unwrap().abort_all();
        })
    }

    fn client_count(&self) -> usize {
        *self.shared.clients.borrow()
    }

    fn client_count_changed(&self) -> BoxFuture<'_, ()> {
        let mut clients = self.shared.clients.subscribe();
        Box::pin(async move {
            let _ended = clients.changed().await;
        })
    }

    fn diagnostics(&self) -> HostDiagnostics {
        self.shared.diagnostics.lock().unwrap().clone()
    }
}

async fn accept(listener: TcpListener, shared: Arc<FakeHostState>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let token = shared.token.clone();
            #[expect(clippy::result_large_err, reason = "the library's signature")]
            let check = move |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
                let expected = token.map(|token| format!("tkn={token}"));
                if request.uri().query() == expected.as_deref() {
                    return Ok(response);
                }
                let mut refusal = ErrorResponse::new(None);
                *refusal.status_mut() = tokio_tungstenite::tungstenite::http::StatusCode::FORBIDDEN;
                Err(refusal)
            };
            if let Ok(socket) = tokio_tungstenite::accept_hdr_async(stream, check).await {
                shared.clients.send_modify(|count| *count += 1);
                let mut peer =
                    FakeHostConnection { socket, shared: Arc::clone(&shared), seq: 100, client: String::new() };
                while let Some(frame) = peer.read().await {
                    if !peer.answer(frame).await {
                        break;
                    }
                }
                shared.clients.send_modify(|count| *count -= 1);
            }
        });
    }
}

struct FakeHostConnection {
    socket: WebSocketStream<TcpStream>,
    shared: Arc<FakeHostState>,
    seq: u64,
    client: String,
}

impl FakeHostConnection {
    async fn read(&mut self) -> Option<Value> {
        loop {
            match self.socket.next().await?.ok()? {
                Message::Text(text) => {
                    let frame: Value = serde_json::from_str(text.as_str()).unwrap();
                    self.shared.seen.frames.lock().unwrap().push(frame.clone());
                    return Some(frame);
                }
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    async fn send(&mut self, value: &Value) {
        let _gone = self.socket.send(Message::text(value.to_string())).await;
    }

    async fn answer(&mut self, frame: Value) -> bool {
        let params = &frame["params"];
        let channel = params["channel"].as_str().unwrap_or_default().to_owned();
        let result = match frame["method"].as_str().unwrap_or_default() {
            "initialize" => {
                self.client = params["clientId"].as_str().unwrap().to_owned();
                json!({ "protocolVersion": "1.0.0", "serverSeq": self.seq, "snapshots": [] })
            }
            "subscribe" => {
                let last = params["view"]["turns"].as_u64().map_or(usize::MAX, |turns| turns as usize);
                json!({ "snapshot": snapshot(&channel, self.seq, &self.shared, last) })
            }
            "fetchTurns" => {
                let turns = self.shared.turns.as_array().unwrap();
                let until: usize = params["cursor"].as_str().unwrap().parse().unwrap();
                let from = until.saturating_sub(TURN_PAGE_SIZE);
                let mut loaded = json!({ "type": "chat/turnsLoaded", "turns": turns[from..until] });
                if from > 0 {
                    loaded["turnsNextCursor"] = from.to_string().into();
                }
                self.envelope(json!({ "channel": channel, "action": loaded })).await;
                json!({})
            }
            "listSessions" => self.page(params),
            "hostler/listAudit" => self.audit(params),
            "hostler/removeImages" => json!({ "removed": if params["images"] == "all" { 2 } else { 1 } }),
            "hostler/search" => self.shared.found.clone(),
            "hostler/planAttachments" => match &self.shared.plan {
                Some(plan) => plan.clone(),
                None => {
                    let error = json!({ "code": -32601, "message": "method not found" });
                    self.send(&json!({ "jsonrpc": "2.0", "id": frame["id"], "error": error })).await;
                    return true;
                }
            },
            "dispatchAction" => {
                let action = &params["action"];
                if action["type"] == "chat/turnStarted" {
                    return self.play(&channel, action.clone(), &params["clientSeq"]).await;
                }
                self.echo(&channel, action, &params["clientSeq"]).await;
                return true;
            }
            "" => return true,
            _ => Value::Null,
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": frame["id"], "result": result })).await;
        true
    }

    fn page(&self, params: &Value) -> Value {
        let sessions = &self.shared.sessions;
        let from = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let until = sessions.len().min(from + SESSION_PAGE_SIZE);
        let mut page = json!({ "items": sessions[from..until] });
        if until < sessions.len() {
            page["nextCursor"] = until.to_string().into();
        }
        page
    }

    /// Three entries, the last one with terminal control characters.
    fn audit(&self, params: &Value) -> Value {
        let entry =
            |id: usize| json!({ "id": id, "decidedBy": "ada", "decision": "allow", "input": format!("\u{9b}{id}") });
        let from = usize::try_from(params["after"].as_i64().unwrap()).unwrap();
        let until = 3.min(from + SESSION_PAGE_SIZE);
        let mut page = json!({ "items": (from + 1..=until).map(entry).collect::<Vec<_>>() });
        if until < 3 {
            page["next"] = until.into();
        }
        page
    }

    /// Sends another client's action, then the client's own.
    async fn echo(&mut self, channel: &str, action: &Value, client_seq: &Value) {
        let origin = |client: &str| json!({ "clientId": client, "clientSeq": client_seq });
        let ours = origin(&self.client);
        self.envelope(json!({ "channel": channel, "action": action, "origin": origin("other") })).await;
        let mut echo = json!({ "channel": channel, "action": action, "origin": ours });
        if let Some(HostScriptStep::Reject(reason)) = self.shared.script.first() {
            echo["rejectionReason"] = (*reason).into();
        }
        self.envelope(echo).await;
    }

    async fn play(&mut self, chat: &str, started: Value, client_seq: &Value) -> bool {
        let session = session_of(chat);
        let origin = json!({ "clientId": self.client, "clientSeq": client_seq });
        let turn = started["turnId"].clone();
        let shared = Arc::clone(&self.shared);
        {
            let mut diagnostics = shared.diagnostics.lock().unwrap();
            diagnostics.gateway_requests += 1;
            diagnostics.agents =
                vec![AgentDiagnostics { session: session.clone(), pid: 4242, version: Some("2.1.325".into()) }];
        }
        if let Some(HostScriptStep::Reject(reason)) = shared.script.first() {
            let rejected = json!({ "channel": chat, "action": started, "origin": origin, "rejectionReason": reason,
                "_meta": { "hostler": { "code": "turnActive" } } });
            self.envelope(rejected).await;
            return true;
        }
        self.envelope(json!({ "channel": chat, "action": started, "origin": origin })).await;
        for step in shared.script.iter() {
            match step {
                HostScriptStep::Chat(action) => {
                    let mut action = action.clone();
                    action["turnId"] = turn.clone();
                    self.envelope(json!({ "channel": chat, "action": action })).await;
                }
                HostScriptStep::Session(action) => self.envelope(json!({ "channel": session, "action": action })).await,
                HostScriptStep::Signal(sender, signal) => sender.send(*signal).await.unwrap(),
                HostScriptStep::WaitForCancel | HostScriptStep::IgnoreCancel => {
                    let Some(frame) = self.read_until("dispatchAction").await else {
                        return false;
                    };
                    assert_eq!(frame["params"]["action"]["type"], "chat/turnCancelled");
                    if matches!(step, HostScriptStep::WaitForCancel) {
                        let action = frame["params"]["action"].clone();
                        self.envelope(json!({ "channel": chat, "action": action, "origin": origin })).await;
                    }
                }
                HostScriptStep::EchoNextAction => {
                    let Some(frame) = self.read_until("dispatchAction").await else {
                        return false;
                    };
                    let (action, seq) = (&frame["params"]["action"], &frame["params"]["clientSeq"]);
                    let origin = json!({ "clientId": self.client, "clientSeq": seq });
                    self.envelope(json!({ "channel": chat, "action": action, "origin": origin })).await;
                }
                HostScriptStep::Synchronize(reached, proceed) => {
                    reached.add_permits(1);
                    proceed.acquire().await.unwrap().forget();
                }
                HostScriptStep::SendRequest(method) => {
                    self.send(&json!({ "jsonrpc": "2.0", "id": "q1", "method": method, "params": {} })).await;
                    if self.read().await.is_none() {
                        return false;
                    }
                }
                HostScriptStep::Reject(_) => {}
                HostScriptStep::HangUp => return false,
            }
        }
        true
    }

    async fn read_until(&mut self, method: &str) -> Option<Value> {
        loop {
            let frame = self.read().await?;
            if frame["method"] == method {
                return Some(frame);
            }
        }
    }

    async fn envelope(&mut self, mut envelope: Value) {
        self.seq += 1;
        envelope["serverSeq"] = self.seq.into();
        self.send(&json!({ "jsonrpc": "2.0", "method": "action", "params": envelope })).await;
    }
}

/// Chats of the fake are named after their session.
fn session_of(chat: &str) -> String {
    chat.strip_prefix("ahp-chat://fake/").unwrap().to_owned()
}

fn snapshot(channel: &str, seq: u64, shared: &FakeHostState, last: usize) -> Value {
    let state = if channel.starts_with("ahp-chat:") {
        let turns = shared.turns.as_array().unwrap();
        let from = turns.len().saturating_sub(last);
        let turns = &turns[from..];
        let mut chat = json!({ "resource": channel, "title": "", "status": 1, "modifiedAt": "2026-01-01T00:00:00.000Z", "turns": turns });
        if from > 0 {
            chat["turnsNextCursor"] = from.to_string().into();
        }
        if shared.busy {
            chat["activeTurn"] = json!({ "id": "other", "startedAt": "2026-01-01T00:00:00.000Z", "responseParts": [],
                "message": { "text": "before", "origin": { "kind": "user" } } });
        }
        chat
    } else {
        json!({ "provider": "claude", "title": "", "status": 1, "lifecycle": "creating", "activeClients": [],
            "chats": [], "defaultChat": format!("ahp-chat://fake/{channel}") })
    };
    json!({ "resource": channel, "fromSeq": seq, "state": state })
}
