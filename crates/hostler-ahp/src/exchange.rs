//! HTTP on one connection: requests are answered until one of them is upgraded, or the connection ends.
//!
//! Without pages there is one request on a connection. With them there may be several, since a browser fetches a page in many
//! of them; such a connection waits among few, for a short time, and never keeps anybody else out.

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

use crate::edge::{AccessPolicy, Line, Refusal};
use crate::pass::door::{self, Caller};
use crate::pass::{Guest, Passes};
use crate::ws::{self, Encoding, handshake};

/// The largest head of a request.
const MAX_HEAD: usize = 16 * 1024;

/// What a connection over the limit is told.
const FULL: &str = "This host serves as many connections as it may; close some, or try again later.";

/// What a client is told that does not finish its request.
const TOO_SLOW: &str = "The request did not arrive in time; try again.";

/// How long a client may take to hang up after an answer that is no upgrade.
const HANG_UP: Duration = Duration::from_secs(1);

/// How long a request for a page and the way of its answer may take, the wait for the next request included.
const PAGE: Duration = Duration::from_secs(30);

/// How many connections may wait for the next request.
const KEPT: usize = 128;

/// How many requests one of them may bring.
const REQUESTS: usize = 1000;

/// Answers requests that want no WebSocket.
pub trait Pages: Send + Sync {
    /// The answer to a request whose `Host` is one of ours. Whoever asks may be anybody: nothing in it may be secret.
    fn answer(&self, request: &Parts) -> Response<Bytes>;
}

/// Whether there is room for a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Seated,
    Full,
}

/// Who is let in, and what others are answered.
pub(crate) struct Reception {
    access: AccessPolicy,
    pages: Option<Arc<dyn Pages>>,
    passes: Passes,
    /// How long a client may take to send the head of its first request.
    head: Duration,
    kept: Arc<Semaphore>,
}

/// A stream that speaks WebSocket from now on.
pub(crate) struct Upgraded<S> {
    pub(crate) stream: S,
    /// What the client has sent right after its request.
    pub(crate) early: Bytes,
    pub(crate) encoding: Encoding,
    /// The pass that let it in, if it has no token.
    pub(crate) guest: Option<Guest>,
}

impl Reception {
    pub(crate) fn new(access: AccessPolicy, pages: Option<Arc<dyn Pages>>, passes: Passes, head: Duration) -> Self {
        Self { access, pages, passes, head, kept: Arc::new(Semaphore::new(KEPT)) }
    }

    /// Answers what comes on a connection. `None` if it ends without an upgrade.
    pub(crate) async fn receive<S>(&self, stream: S, line: Line, admission: Admission) -> Option<Upgraded<S>>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let visit = Visit {
            reception: self,
            line,
            admission,
            until: Mutex::new(Instant::now() + self.head),
            requests: AtomicUsize::new(0),
            place: OnceLock::new(),
            agreed: OnceLock::new(),
        };
        let service = service_fn(|request| Box::pin(async { Ok::<_, Infallible>(visit.answer(request).await) }));
        let mut connection =
            http1::Builder::new().max_buf_size(MAX_HEAD).serve_connection(TokioIo::new(stream), service);
        let served = visit.in_time(poll_fn(|context| connection.poll_without_shutdown(context))).await;
        let http1::Parts { io, read_buf, .. } = connection.into_parts();
        let requests = visit.requests.load(Ordering::Relaxed);
        let mut stream = io.into_inner();
        match served {
            Some(Ok(())) if let Some((encoding, guest)) = visit.agreed.into_inner() => {
                return Some(Upgraded { stream, early: read_buf, encoding, guest });
            }
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::debug!(%error, "a request could not be read"),
            None if requests > 0 => {}
            None => {
                let length = TOO_SLOW.len() + 1;
                let head =
                    "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8";
                let answer = format!("{head}\r\ncontent-length: {length}\r\n\r\n{TOO_SLOW}\n");
                // It is small enough for the socket's buffer, or nobody reads it.
                let _ = timeout(HANG_UP, stream.write_all(answer.as_bytes())).await;
            }
        }
        let _ = timeout(HANG_UP, ws::hang_up(&mut stream)).await;
        None
    }
}

type Answer = Response<Full<Bytes>>;

/// One connection, as long as it speaks HTTP.
struct Visit<'a> {
    reception: &'a Reception,
    line: Line,
    admission: Admission,
    /// When its time is over; each request for a page moves it.
    until: Mutex<Instant>,
    requests: AtomicUsize,
    /// Its place among those that wait for another request.
    place: OnceLock<OwnedSemaphorePermit>,
    /// What was agreed on, once it is upgraded.
    agreed: OnceLock<(Encoding, Option<Guest>)>,
}

impl Visit<'_> {
    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if the time was over first.
    async fn in_time<T>(&self, exchange: impl Future<Output = T>) -> Option<T> {
        let mut exchange = pin!(exchange);
        loop {
            let until = self.until();
            tokio::select! {
                biased;
                served = &mut exchange => return Some(served),
                () = sleep_until(until) => if self.until() <= until { return None },
            }
        }
    }

    /// Decides about a request: whether there is room, whether it wants a page, whether the client may come in, whether it
    /// speaks WebSocket.
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let Reception { access, pages, passes, .. } = self.reception;
        if self.admission == Admission::Full {
            tracing::info!("a connection was refused: there are as many as there may be");
            return text(StatusCode::SERVICE_UNAVAILABLE, FULL);
        }
        if let Some(pages) = pages
            && !handshake::is_wanted(request.headers())
        {
            if let Err(refusal) = access.check_host(request.headers()) {
                return refused(refusal);
            }
            *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + PAGE;
            let (head, body) = request.into_parts();
            let mut answer = if door::answers(head.uri.path()) {
                door::answer(passes, &self.caller(&head), &head, body).await
            } else {
                pages.answer(&head).map(Full::new)
            };
            if number >= REQUESTS || !self.may_stay() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            return answer;
        }
        let recognize = || passes.recognize(request.headers());
        let guest = match access.check(self.line, request.uri(), request.headers(), recognize) {
            Ok(guest) => guest,
            Err(refusal) => return refused(refusal),
        };
        match handshake::check(&request) {
            Ok(accepted) => {
                // Nothing follows an upgrade on its connection.
                let _ = self.agreed.set((accepted.encoding(), guest));
                accepted.response()
            }
            Err(fault) => {
                let mut answer = text(fault.status(), &fault.to_string());
                answer.headers_mut().extend(fault.hint());
                answer
            }
        }
    }

    fn caller(&self, head: &Parts) -> Caller {
        let access = &self.reception.access;
        Caller {
            required: !access.is_open(),
            secure: access.is_secure(self.line, &head.headers),
            own_page: access.is_own_page(self.line, &head.headers),
        }
    }

    /// Whether it has a place among those that wait for another request, or gets one.
    fn may_stay(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        Arc::clone(&self.reception.kept).try_acquire_owned().is_ok_and(|place| self.place.set(place).is_ok())
    }
}

fn refused(refusal: Refusal) -> Answer {
    tracing::info!(?refusal, "a connection was refused");
    text(StatusCode::FORBIDDEN, refusal.sentence())
}

fn text(status: StatusCode, sentence: &str) -> Answer {
    let mut answer = Response::new(Full::from(format!("{sentence}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
