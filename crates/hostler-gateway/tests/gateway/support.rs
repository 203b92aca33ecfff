//! Shared by the tests: a gateway with a client, and an upstream whose responses the test controls.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use hostler_gateway::{
    AnthropicConfig, AnthropicUpstream, FixedCredential, Gateway, GatewayConfig, Lease, Registration, RequestLog,
    Upstream, Upstreams,
};
use hostler_gateway_scripted::ScriptedUpstream;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

pub(crate) const KEY: &str = "sk-planted-0123456789";

/// A running gateway, a registered caller and an HTTP client.
pub(crate) struct Fixture {
    pub(crate) gateway: Gateway,
    pub(crate) registration: Registration,
    pub(crate) log: Arc<RequestLog>,
    pub(crate) client: reqwest::Client,
    /// Replaces the bearer of the registered caller.
    other_bearer: Option<String>,
}

impl Fixture {
    pub(crate) async fn scripted() -> Self {
        Self::with(Arc::new(ScriptedUpstream)).await
    }

    pub(crate) async fn anthropic(upstream: &TestUpstream) -> Self {
        Self::with(Arc::new(AnthropicUpstream::new(upstream.config()))).await
    }

    pub(crate) async fn with(upstream: Arc<dyn Upstream>) -> Self {
        Self::of(Upstreams::single(upstream)).await
    }

    pub(crate) async fn of(upstreams: Upstreams) -> Self {
        Self::start(GatewayConfig::new(upstreams)).await
    }

    /// A gateway with an unregistered caller, who reaches all upstreams.
    pub(crate) async fn unregistered(upstreams: Upstreams) -> Self {
        let config = GatewayConfig { accept_unregistered: true, ..GatewayConfig::new(upstreams) };
        let fixture = Self::start(config).await;
        let bearer = format!("{}.unregistered", fixture.gateway.nonce().expose_secret());
        Self { other_bearer: Some(bearer), ..fixture }
    }

    async fn start(config: GatewayConfig) -> Self {
        let log = Arc::new(RequestLog::with_capacity(8));
        let config = GatewayConfig { observer: Some(log.clone()), ..config };
        let gateway = Gateway::start(config).await.unwrap();
        let registration = gateway.register(lease());
        Self { gateway, registration, log, client: client(), other_bearer: None }
    }

    pub(crate) fn bearer(&self) -> &str {
        self.other_bearer.as_deref().unwrap_or_else(|| self.registration.bearer().expose_secret())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.gateway.base_url())
    }

    /// Sends an authenticated `POST /v1/messages`.
    pub(crate) async fn post(&self, body: impl Into<reqwest::Body>) -> reqwest::Response {
        self.client.post(self.url("/v1/messages")).bearer_auth(self.bearer()).body(body).send().await.unwrap()
    }

    /// Requests a stream.
    pub(crate) async fn stream(&self, text: &str) -> reqwest::Response {
        self.post(request(text, true)).await
    }

    /// Requests a complete message.
    pub(crate) async fn whole(&self, text: &str) -> reqwest::Response {
        self.post(request(text, false)).await
    }
}

pub(crate) fn lease() -> Lease {
    Lease { session: "claude:/one".to_owned(), chat: "default".to_owned(), upstream: None }
}

pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) fn request(text: &str, stream: bool) -> String {
    let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
    json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": [message], "stream": stream}).to_string()
}

/// The status, type and message of a response that must be an error envelope.
pub(crate) async fn error(response: reqwest::Response) -> (u16, String, String) {
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    assert_eq!(body["type"], "error", "{body}");
    (status, string(&body["error"]["type"]), string(&body["error"]["message"]))
}

pub(crate) fn string(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

/// Reads a stream to its end.
pub(crate) async fn events(response: reqwest::Response) -> Vec<(String, Value)> {
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    parse(&response.text().await.unwrap())
}

pub(crate) fn parse(stream: &str) -> Vec<(String, Value)> {
    assert!(stream.is_empty() || stream.ends_with("\n\n"), "half an event at the end: {stream:?}");
    stream
        .split_terminator("\n\n")
        .map(|event| {
            let (name, data) = event.split_once('\n').unwrap();
            let name = name.strip_prefix("event: ").unwrap().to_owned();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(data["type"], *name);
            (name, data)
        })
        .collect()
}

pub(crate) fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

/// Encodes an event.
pub(crate) fn event(name: &str, data: Value) -> Bytes {
    let mut data = data;
    data["type"] = name.into();
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// The events of a short message.
pub(crate) fn short_message() -> Vec<Bytes> {
    vec![
        event(
            "message_start",
            json!({"message": {"id": "m", "usage": {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}}}),
        ),
        event("something_new", json!({"index": 0})),
        event("message_delta", json!({"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 11}})),
        event("message_stop", json!({})),
    ]
}

/// The upstream's response to one request.
pub(crate) enum Reply {
    /// A complete response.
    Whole(u16, &'static [(&'static str, &'static str)], String),
    /// An event stream, with chunks sent by the test; an error closes the connection.
    Stream(mpsc::Receiver<std::io::Result<Bytes>>),
    /// No response at all.
    Silence,
}

impl Reply {
    pub(crate) fn stream() -> (mpsc::Sender<std::io::Result<Bytes>>, Self) {
        let (sender, receiver) = mpsc::channel(16);
        (sender, Self::Stream(receiver))
    }

    /// A stream whose chunks are all available.
    pub(crate) fn events(chunks: Vec<Bytes>) -> Self {
        let (sender, reply) = Self::stream();
        chunks.into_iter().for_each(|chunk| sender.try_send(Ok(chunk)).unwrap());
        reply
    }
}

/// A request as the upstream received it.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A Messages API server that answers with the given replies, in order.
pub(crate) struct TestUpstream {
    pub(crate) url: url::Url,
    shared: Arc<UpstreamState>,
    task: JoinHandle<()>,
}

struct UpstreamState {
    replies: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<Received>>,
    arrived: watch::Sender<usize>,
    hung_up: watch::Sender<usize>,
}

impl TestUpstream {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/base/", listener.local_addr().unwrap()).parse().unwrap();
        let shared = Arc::new(UpstreamState {
            replies: Mutex::new(replies.into_iter().collect()),
            received: Mutex::default(),
            arrived: watch::Sender::new(0),
            hung_up: watch::Sender::new(0),
        });
        let task = tokio::spawn(serve(listener, shared.clone()));
        Self { url, shared, task }
    }

    pub(crate) fn config(&self) -> AnthropicConfig {
        AnthropicConfig {
            credential: Arc::new(FixedCredential(Some(KEY.into()))),
            ..AnthropicConfig::new(self.url.clone())
        }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Returns once this many requests have arrived.
    pub(crate) async fn arrived(&self, count: usize) {
        self.shared.arrived.subscribe().wait_for(|arrived| *arrived >= count).await.unwrap();
    }

    /// Returns once a caller has disconnected during a response.
    pub(crate) async fn hung_up(&self) {
        self.shared.hung_up.subscribe().wait_for(|count| *count > 0).await.unwrap();
    }
}

impl Drop for TestUpstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<UpstreamState>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| reply(shared.clone(), request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn reply(
    shared: Arc<UpstreamState>,
    request: http::Request<Incoming>,
) -> Result<Response<StreamBody<Chunks>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    shared.received.lock().unwrap().push(Received { path: parts.uri.to_string(), headers: parts.headers, body });
    let mut unfinished = Unfinished { hung_up: Some(shared.hung_up.clone()) };
    shared.arrived.send_modify(|arrived| *arrived += 1);
    let reply = shared.replies.lock().unwrap().pop_front();
    let (status, headers, receiver): (_, &[(&str, &str)], _) = match reply {
        Some(Reply::Silence) => std::future::pending().await,
        Some(Reply::Stream(receiver)) => (200, &[("content-type", "text/event-stream; charset=utf-8")], receiver),
        Some(Reply::Whole(status, headers, text)) => {
            unfinished.hung_up = None;
            let (sender, receiver) = mpsc::channel(1);
            sender.try_send(Ok(text.into())).unwrap();
            (status, headers, receiver)
        }
        None => panic!("the test gave the upstream too few replies"),
    };
    let mut response = Response::new(StreamBody::new(Chunks { receiver, unfinished }));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    Ok(response)
}

/// The chunks of a response; reports when it is dropped before its end.
struct Chunks {
    receiver: mpsc::Receiver<std::io::Result<Bytes>>,
    unfinished: Unfinished,
}

impl Stream for Chunks {
    type Item = std::io::Result<Frame<Bytes>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.receiver.poll_recv(cx).map(|next| next.map(|chunk| chunk.map(Frame::data)));
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.unfinished.hung_up = None;
        }
        next
    }
}

struct Unfinished {
    hung_up: Option<watch::Sender<usize>>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(hung_up) = &self.hung_up {
            hung_up.send_modify(|count| *count += 1);
        }
    }
}
