//! A mock of GitHub and Copilot on loopback: it issues keys that expire, checks them, and records requests.

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{self, BoxFuture};
use hostler_gateway::{CredentialError, CredentialSource};
use hostler_gateway_copilot::{CopilotConfig, CopilotUpstream, DeviceLoginConfig, WallClock};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use url::Url;

use crate::support::{Received, event, short_message};

pub(crate) const EXCHANGE: &str = "/github/copilot_internal/v2/token";
pub(crate) const USER: &str = "/github/copilot_internal/user";
pub(crate) const MESSAGES: &str = "/capi/v1/messages";
pub(crate) const MODELS: &str = "/capi/models";
pub(crate) const DEVICE_CODE: &str = "/web/login/device/code";
pub(crate) const ACCESS_TOKEN: &str = "/web/login/oauth/access_token";
pub(crate) const GITHUB_TOKEN: &str = "gho-planted-github-token";

/// A clock that the test moves. Sleeping advances it without waiting.
pub(crate) struct TestClock {
    now: Mutex<SystemTime>,
    slept: Mutex<Vec<Duration>>,
    stands_still: bool,
}

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::starting(false))
    }

    /// A clock on which no sleep ever ends.
    pub(crate) fn standing_still() -> Arc<Self> {
        Arc::new(Self::starting(true))
    }

    fn starting(stands_still: bool) -> Self {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        Self { now: Mutex::new(now), slept: Mutex::default(), stands_still }
    }

    pub(crate) fn pass(&self, seconds: u64) {
        *self.now.lock().unwrap() += Duration::from_secs(seconds);
    }

    pub(crate) fn slept(&self) -> Vec<u64> {
        self.slept.lock().unwrap().iter().map(Duration::as_secs).collect()
    }
}

impl WallClock for TestClock {
    fn now(&self) -> SystemTime {
        *self.now.lock().unwrap()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        if self.stands_still {
            return future::pending().boxed();
        }
        self.slept.lock().unwrap().push(time);
        *self.now.lock().unwrap() += time;
        future::ready(()).boxed()
    }
}

/// A source of GitHub tokens; a rejected token is replaced by the next one.
#[derive(Debug)]
pub(crate) struct RotatingTokens(Mutex<VecDeque<&'static str>>);

impl RotatingTokens {
    pub(crate) fn new(tokens: impl IntoIterator<Item = &'static str>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(tokens.into_iter().collect())))
    }

    pub(crate) fn left(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Switches to the next token, as if another process had signed in.
    pub(crate) fn rotate(&self) {
        self.0.lock().unwrap().pop_front();
    }
}

impl CredentialSource for RotatingTokens {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        Ok(self.0.lock().unwrap().front().map(|token| SecretString::from(*token)))
    }

    fn mark_rejected(&self, _secret: &SecretString) {
        let mut tokens = self.0.lock().unwrap();
        if tokens.len() > 1 {
            tokens.pop_front();
        }
    }
}

pub(crate) struct MockCopilot {
    root: Url,
    world: Arc<MockCopilotShared>,
    task: JoinHandle<()>,
}

struct MockCopilotShared {
    clock: Arc<TestClock>,
    root: Url,
    state: Mutex<State>,
    /// Requests whose path or body contains this text wait until it changes.
    held: watch::Sender<Option<&'static str>>,
    arrived: watch::Sender<()>,
    hung_up: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    issued: usize,
    valid: HashSet<String>,
    /// Responses that replace the default, by path; the last one of a path repeats.
    unusual: Vec<(&'static str, VecDeque<(u16, String)>)>,
}

impl MockCopilot {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let root: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let world = Arc::new(MockCopilotShared {
            clock: TestClock::new(),
            root: root.clone(),
            state: Mutex::default(),
            held: watch::Sender::new(None),
            arrived: watch::Sender::new(()),
            hung_up: watch::Sender::new(0),
        });
        let task = tokio::spawn(serve(listener, Arc::clone(&world)));
        Self { root, world, task }
    }

    pub(crate) fn clock(&self) -> &TestClock {
        &self.world.clock
    }

    /// Number of other owners of the clock: an upstream, and a running exchange.
    pub(crate) fn clock_holders(&self) -> usize {
        Arc::strong_count(&self.world.clock) - 1
    }

    pub(crate) fn config(&self) -> CopilotConfig {
        self.config_with(RotatingTokens::new([GITHUB_TOKEN]))
    }

    pub(crate) fn config_with(&self, tokens: Arc<RotatingTokens>) -> CopilotConfig {
        CopilotConfig::new(self.root.join("github").unwrap(), tokens)
    }

    pub(crate) fn api_url(&self) -> Url {
        self.root.join("capi").unwrap()
    }

    pub(crate) fn login_config(&self) -> DeviceLoginConfig {
        DeviceLoginConfig::new(self.root.join("web").unwrap(), Some("planted-client".to_owned()))
    }

    /// An upstream with the default configuration and the mock's clock.
    pub(crate) fn upstream(&self) -> CopilotUpstream {
        self.upstream_of(self.config())
    }

    pub(crate) fn upstream_of(&self, config: CopilotConfig) -> CopilotUpstream {
        CopilotUpstream::with_clock(config, self.world.clock.clone()).unwrap()
    }

    /// Sets the response of a path.
    pub(crate) fn answer(&self, path: &'static str, status: u16, body: impl ToString) {
        self.answers(path, [(status, body.to_string())]);
    }

    /// Sets the responses of a path, in order; the last one repeats.
    pub(crate) fn answers(&self, path: &'static str, answers: impl IntoIterator<Item = (u16, String)>) {
        let mut state = self.world.state.lock().unwrap();
        state.unusual.retain(|(other, _)| *other != path);
        state.unusual.push((path, answers.into_iter().collect()));
    }

    /// Restores the default responses of a path.
    pub(crate) fn recover(&self, path: &str) {
        self.world.state.lock().unwrap().unusual.retain(|(other, _)| *other != path);
    }

    /// Revokes all keys issued so far.
    pub(crate) fn revoke(&self) {
        self.world.state.lock().unwrap().valid.clear();
    }

    /// Accepts a key that was not issued.
    pub(crate) fn accept(&self, key: &str) {
        self.world.state.lock().unwrap().valid.insert(key.to_owned());
    }

    /// Requests whose path or body contains the text get no response until they are released.
    pub(crate) fn hold(&self, text: &'static str) {
        self.world.held.send_replace(Some(text));
    }

    pub(crate) fn release(&self) {
        self.world.held.send_replace(None);
    }

    pub(crate) fn received(&self, path: &str) -> Vec<Received> {
        let state = self.world.state.lock().unwrap();
        state.received.iter().filter(|received| received.path == path).cloned().collect()
    }

    pub(crate) fn count(&self, path: &str) -> usize {
        self.received(path).len()
    }

    /// The bearers of the requests to a path, in order.
    pub(crate) fn bearers(&self, path: &str) -> Vec<String> {
        self.received(path).iter().map(bearer).collect()
    }

    /// Returns once this many requests have arrived at a path.
    pub(crate) async fn arrived(&self, path: &str, count: usize) {
        let mut arrived = self.world.arrived.subscribe();
        while self.count(path) < count {
            arrived.changed().await.unwrap();
        }
    }

    /// Returns once a caller has disconnected without a response.
    pub(crate) async fn hung_up(&self) {
        self.world.hung_up.subscribe().wait_for(|count| *count > 0).await.unwrap();
    }
}

impl Drop for MockCopilot {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The n-th key that the exchange issues.
pub(crate) fn key(number: usize) -> String {
    format!("tid=planted{number};exp=1;sku=x:sig/{number}")
}

fn bearer(received: &Received) -> String {
    let value = received.headers.get("authorization").map(|value| value.to_str().unwrap());
    value.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned()
}

async fn serve(listener: TcpListener, world: Arc<MockCopilotShared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let world = Arc::clone(&world);
        connections.spawn(async move {
            let service = service_fn(move |request| reply(Arc::clone(&world), request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn reply(world: Arc<MockCopilotShared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let received = Received { path: parts.uri.to_string(), headers: parts.headers, body };
    let mut waiting = Waiting { hung_up: Some(world.hung_up.clone()) };
    world.state.lock().unwrap().received.push(received.clone());
    world.arrived.send_replace(());
    let text = format!("{} {}", received.path, String::from_utf8_lossy(&received.body));
    world.held.subscribe().wait_for(|held| held.is_none_or(|held| !text.contains(held))).await.unwrap();
    waiting.hung_up = None;

    let (status, body) = world.answer(&received);
    let is_stream = body.starts_with("event: ");
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status.try_into().unwrap();
    let content_type = if is_stream { "text/event-stream" } else { "application/json" };
    response.headers_mut().insert("content-type", content_type.parse().unwrap());
    Ok(response)
}

impl MockCopilotShared {
    fn answer(&self, received: &Received) -> (u16, String) {
        let mut state = self.state.lock().unwrap();
        if let Some((_, answers)) = state.unusual.iter_mut().find(|(path, _)| *path == received.path) {
            return if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }.unwrap();
        }
        match received.path.as_str() {
            EXCHANGE => {
                state.issued += 1;
                let key = key(state.issued);
                state.valid.insert(key.clone());
                let now = self.clock.now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
                let issued = json!({"token": key, "expires_at": now + 1_800, "refresh_in": 1_500,
                    "endpoints": self.endpoints(), "sku": "x"});
                (200, issued.to_string())
            }
            USER => {
                state.valid.insert(bearer(received));
                (200, json!({"login": "someone", "endpoints": self.endpoints()}).to_string())
            }
            MESSAGES | MODELS if !state.valid.contains(&bearer(received)) => {
                (401, format!("unauthorized: {} is over\n", bearer(received)))
            }
            MODELS => (200, models().to_string()),
            MESSAGES => message(&received.body),
            path => panic!("nothing should ask for {path}"),
        }
    }

    fn endpoints(&self) -> Value {
        json!({"api": self.root.join("capi").unwrap().as_str(), "telemetry": "https://example.invalid"})
    }
}

fn models() -> Value {
    let capabilities = json!({"limits": {"max_context_window_tokens": 200_000, "max_output_tokens": 64_000}});
    let all = json!(["/chat/completions", "/v1/messages"]);
    json!({"data": [
        {"id": "gpt-5", "name": "GPT-5", "vendor": "OpenAI", "supported_endpoints": all},
        {"id": "claude-sonnet-4.5", "name": "Claude Sonnet 4.5", "vendor": "Anthropic", "supported_endpoints": all,
         "capabilities": capabilities},
        {"id": "claude-haiku-3", "name": "Old", "vendor": "Anthropic", "supported_endpoints": ["/chat/completions"]},
    ]})
}

/// A message with Copilot's model id, in the requested form.
fn message(request: &[u8]) -> (u16, String) {
    let request: Value = serde_json::from_slice(request).unwrap();
    if request["stream"] != true {
        let usage = json!({"input_tokens": 3, "output_tokens": 4});
        return (200, json!({"id": "m", "type": "message", "model": request["model"], "usage": usage}).to_string());
    }
    let mut events = short_message();
    let usage = json!({"input_tokens": 7, "output_tokens": 1});
    events[0] = event("message_start", json!({"message": {"id": "m", "model": request["model"], "usage": usage}}));
    (200, String::from_utf8(events.concat()).unwrap())
}

struct Waiting {
    hung_up: Option<watch::Sender<usize>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(hung_up) = &self.hung_up {
            hung_up.send_modify(|count| *count += 1);
        }
    }
}
