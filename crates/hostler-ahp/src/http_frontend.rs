//! HTTP on one connection: answers requests until one is upgraded or the connection ends. Owns the deadlines and limits
//! of that phase; WebSocket messages are not its concern.
//!
//! Without an [`HttpHandler`] a connection carries one request. With one it can carry several, because a browser
//! fetches a page in many requests. Keep-alive connections are limited in number and time, and never block new
//! connections.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};

use crate::access_policy::{AccessPolicy, AccessRefusal, PeerInfo};
use crate::browser_sessions::sign_in_endpoints::{self, SignInContext};
use crate::browser_sessions::{BrowserClient, BrowserSessions};
use crate::ws::{self, FrameEncoding, handshake};

/// Maximum size of a request head.
const MAX_REQUEST_HEAD_BYTES: usize = 16 * 1024;

/// Answer to a connection over the limit.
const TOO_MANY_CONNECTIONS_MESSAGE: &str = "Too many connections. Close some, or try again later.";

/// Answer to a client that does not finish its request in time.
const REQUEST_TIMEOUT_MESSAGE: &str = "The request did not arrive in time. Try again.";

/// Maximum time for a client to close the connection after an answer that is no upgrade.
const HANG_UP_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time for a page request and its answer, including the wait for the next request.
const PAGE_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of connections that wait for another request.
const MAX_KEEP_ALIVE_CONNECTIONS: usize = 128;

/// Maximum number of requests on one connection.
const MAX_REQUESTS_PER_CONNECTION: usize = 1000;

/// Answers requests that are no WebSocket upgrade.
pub trait HttpHandler: Send + Sync {
    /// Answers a request whose `Host` is accepted. The requester is not authenticated: the answer must not contain
    /// secrets.
    fn respond(&self, request: &Parts) -> Response<Bytes>;
}

/// Whether the connection limit admits a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionAdmission {
    Admitted,
    OverLimit,
}

/// Decides on upgrades and answers all other requests.
pub(crate) struct HttpFrontend {
    access: AccessPolicy,
    http_handler: Option<Arc<dyn HttpHandler>>,
    browser_sessions: BrowserSessions,
    /// Maximum time for a client to send the head of its first request.
    head_timeout: Duration,
    keep_alive_slots: Arc<Semaphore>,
}

/// Stream that carries WebSocket frames from here on.
pub(crate) struct UpgradedStream<S> {
    pub(crate) stream: S,
    /// Bytes that the client has sent after its request head.
    pub(crate) read_ahead: Bytes,
    pub(crate) encoding: FrameEncoding,
    /// The browser session that authenticated the client, if it has no token.
    pub(crate) browser_client: Option<BrowserClient>,
}

impl HttpFrontend {
    pub(crate) fn new(
        access: AccessPolicy,
        http_handler: Option<Arc<dyn HttpHandler>>,
        browser_sessions: BrowserSessions,
        head_timeout: Duration,
    ) -> Self {
        Self {
            access,
            http_handler,
            browser_sessions,
            head_timeout,
            keep_alive_slots: Arc::new(Semaphore::new(MAX_KEEP_ALIVE_CONNECTIONS)),
        }
    }

    /// Answers requests on a connection. `None` if it ends without an upgrade.
    pub(crate) async fn serve_until_upgrade<S>(
        &self,
        stream: S,
        peer_info: PeerInfo,
        admission: ConnectionAdmission,
    ) -> Option<UpgradedStream<S>>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let http = HttpConnection {
            frontend: self,
            peer: peer_info,
            admission,
            deadline: Mutex::new(Instant::now() + self.head_timeout),
            request_count: AtomicUsize::new(0),
            keep_alive_slot: OnceLock::new(),
            upgrade: OnceLock::new(),
        };
        let service = service_fn(|request| Box::pin(async { Ok::<_, Infallible>(http.respond(request).await) }));
        let mut connection =
            http1::Builder::new().max_buf_size(MAX_REQUEST_HEAD_BYTES).serve_connection(TokioIo::new(stream), service);
        let served = http.run_until_deadline(poll_fn(|context| connection.poll_without_shutdown(context))).await;
        let http1::Parts { io, read_buf, .. } = connection.into_parts();
        let requests = http.request_count.load(Ordering::Relaxed);
        let mut stream = io.into_inner();
        match served {
            Some(Ok(())) if let Some((encoding, browser_client)) = http.upgrade.into_inner() => {
                return Some(UpgradedStream { stream, read_ahead: read_buf, encoding, browser_client });
            }
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::debug!(%error, "failed to read HTTP request"),
            None if requests > 0 => {}
            None => {
                let length = REQUEST_TIMEOUT_MESSAGE.len() + 1;
                let head =
                    "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8";
                let answer = format!("{head}\r\ncontent-length: {length}\r\n\r\n{REQUEST_TIMEOUT_MESSAGE}\n");
                // The answer fits into the socket's buffer; otherwise the client is not reading and the answer is
                // dropped.
                let _ = timeout(HANG_UP_TIMEOUT, stream.write_all(answer.as_bytes())).await;
            }
        }
        let _ = timeout(HANG_UP_TIMEOUT, ws::shut_down_and_drain(&mut stream)).await;
        None
    }
}

type HttpResponse = Response<Full<Bytes>>;

/// One connection while it speaks HTTP.
struct HttpConnection<'a> {
    frontend: &'a HttpFrontend,
    peer: PeerInfo,
    admission: ConnectionAdmission,
    /// When the connection is closed; each page request extends it.
    deadline: Mutex<Instant>,
    request_count: AtomicUsize,
    /// Permit to wait for another request.
    keep_alive_slot: OnceLock<OwnedSemaphorePermit>,
    /// Outcome of the handshake, once upgraded.
    upgrade: OnceLock<(FrameEncoding, Option<BrowserClient>)>,
}

impl HttpConnection<'_> {
    fn deadline(&self) -> Instant {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if the deadline passed first.
    async fn run_until_deadline<T>(&self, exchange: impl Future<Output = T>) -> Option<T> {
        let mut exchange = pin!(exchange);
        loop {
            let until = self.deadline();
            tokio::select! {
                biased;
                served = &mut exchange => return Some(served),
                () = sleep_until(until) => if self.deadline() <= until { return None },
            }
        }
    }

    /// Decides on a request: connection limit, page request, authentication, WebSocket handshake, in this order.
    async fn respond(&self, request: Request<Incoming>) -> HttpResponse {
        let number = self.request_count.fetch_add(1, Ordering::Relaxed) + 1;
        let HttpFrontend { access, http_handler, browser_sessions, .. } = self.frontend;
        if self.admission == ConnectionAdmission::OverLimit {
            tracing::info!("connection refused: too many connections");
            return text_response(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_CONNECTIONS_MESSAGE);
        }
        if let Some(handler) = http_handler
            && !handshake::is_upgrade_request(request.headers())
        {
            if let Err(refusal) = access.check_host(request.headers()) {
                return refusal_response(refusal);
            }
            *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + PAGE_REQUEST_TIMEOUT;
            let (head, body) = request.into_parts();
            let mut answer = if sign_in_endpoints::is_sign_in_path(head.uri.path()) {
                sign_in_endpoints::respond(browser_sessions, &self.sign_in_context(&head), &head, body).await
            } else {
                handler.respond(&head).map(Full::new)
            };
            if number >= MAX_REQUESTS_PER_CONNECTION || !self.can_keep_alive() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            return answer;
        }
        let recognize = || browser_sessions.authenticate(request.headers());
        let browser_client = match access.check_upgrade(self.peer, request.uri(), request.headers(), recognize) {
            Ok(browser_client) => browser_client,
            Err(refusal) => return refusal_response(refusal),
        };
        match handshake::check_upgrade(&request) {
            Ok(accepted) => {
                // No request follows an upgrade on its connection.
                let _ = self.upgrade.set((accepted.encoding(), browser_client));
                accepted.response()
            }
            Err(fault) => {
                let mut answer = text_response(fault.status(), &fault.to_string());
                answer.headers_mut().extend(fault.hint_header());
                answer
            }
        }
    }

    fn sign_in_context(&self, head: &Parts) -> SignInContext {
        let access = &self.frontend.access;
        SignInContext {
            is_sign_in_required: !access.allows_without_token(),
            is_secure: access.is_secure(self.peer, &head.headers),
            is_own_page: access.is_own_page(self.peer, &head.headers),
        }
    }

    /// Whether the connection holds a keep-alive slot or can acquire one.
    fn can_keep_alive(&self) -> bool {
        if self.keep_alive_slot.get().is_some() {
            return true;
        }
        Arc::clone(&self.frontend.keep_alive_slots)
            .try_acquire_owned()
            .is_ok_and(|permit| self.keep_alive_slot.set(permit).is_ok())
    }
}

fn refusal_response(refusal: AccessRefusal) -> HttpResponse {
    tracing::info!(?refusal, "connection refused");
    text_response(StatusCode::FORBIDDEN, refusal.message())
}

fn text_response(status: StatusCode, sentence: &str) -> HttpResponse {
    let mut answer = Response::new(Full::from(format!("{sentence}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
