//! Passes an upstream's events on to the client.
//!
//! The first event is awaited before anything is written, so that an early failure can still be an ordinary error
//! response. After that a failure is one `error` event. There is no task and no buffer between the two connections:
//! the upstream is read when the client can take more.

use std::convert::Infallible;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use uuid::Uuid;

use crate::envelope;
use crate::error::{self, ApiError, ErrorKind};
use crate::model_id;
use crate::observe::Ending;
use crate::passage::Passage;
use crate::sse::{self, EventSplitter};
use crate::upstream::{EventBytes, Refusal, Upstream, UpstreamError};
use crate::usage::Meter;

/// The body of every response: whole, or relayed.
pub(crate) type ResponseBody = Either<Full<Bytes>, Relay>;

/// What a client is told whose lease ended under its request.
pub(crate) const ENDED: &str = "The gateway is stopping or the agent's registration has ended.";

/// Tells clients whether another try makes sense.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// Events are gathered up to this size before they are written.
const TOGETHER: usize = 16 * 1024;
/// How often a relay lets others go first. Once would do, but hyper asks a body that has nothing yet a second time
/// before it really lets go.
const YIELDS: u8 = 2;

/// A stream in mid-flight, as a response body.
///
/// The task that reads the upstream's connection hands over one chunk, mostly one event, at a time. Where more have
/// arrived, writing each by itself would cost a system call per event, so the relay lets that task go on before it
/// writes. It waits for no time and no event: what is there when its turn comes again is written.
pub(crate) struct Relay {
    events: EventBytes,
    watch: Watch,
    /// Whole events that are not written yet; the first ones come from before the response.
    ready: BytesMut,
    /// How often others were let go first since the last event came.
    yields: u8,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    over: bool,
    passage: Passage,
}

impl Relay {
    /// Waits for the first event; its failure, or an `error` event in its place, fails the request.
    pub(crate) async fn begin(
        mut events: EventBytes,
        upstream: Arc<dyn Upstream>,
        meter: Meter,
        ended: CancellationToken,
        passage: &mut Passage,
    ) -> Result<Self, UpstreamError> {
        let mut watch = Watch::new(upstream, meter);
        let mut ready = BytesMut::new();
        while !watch.begun {
            let chunk = events.next().await.ok_or_else(|| UpstreamError::BrokenOff {
                reason: "the stream ended before its first event".to_owned(),
            })??;
            ready.extend_from_slice(&watch.pass(chunk)?);
        }
        if let Some(body) = watch.early_error.take() {
            let kind = error::envelope_kind(&body).unwrap_or_default();
            let status = ErrorKind::status_of_name(&kind);
            return Err(UpstreamError::from(Refusal { status, headers: HeaderMap::new(), body }));
        }
        passage.streaming();
        let passage = passage.hand_over();
        let ended = Box::pin(ended.cancelled_owned());
        // The first events go out together with the head.
        Ok(Self { events, watch, ready, yields: YIELDS, ended, over: false, passage })
    }

    /// Ends the stream, with an `error` event unless its last event has passed already. The upstream is let go at
    /// once: a client that takes its time to read the rest does not keep the call alive.
    fn end(&mut self, why: impl FnOnce() -> (ErrorKind, String)) {
        self.over = true;
        self.watch.meter.settle();
        self.events = stream::empty().boxed();
        if !self.watch.finished {
            self.watch.failed = true;
            let (kind, message) = why();
            self.ready.extend_from_slice(&error::event(kind, &message));
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.watch.meter.settle();
        self.passage.used(self.watch.meter.tokens());
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if !this.over && this.ended.as_mut().poll(cx).is_ready() {
            this.end(|| (ErrorKind::Api, ENDED.to_owned()));
        }
        while !this.over && this.ready.len() < TOGETHER {
            let next = match Pin::new(&mut this.events).poll_next(cx) {
                Poll::Ready(next) => next,
                Poll::Pending if this.ready.is_empty() => return Poll::Pending,
                Poll::Pending if this.yields == YIELDS => break,
                Poll::Pending => {
                    this.yields += 1;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            };
            this.yields = 0;
            let passed = match next {
                Some(Ok(chunk)) => this.watch.pass(chunk),
                Some(Err(error)) => Err(error),
                None => Err(UpstreamError::BrokenOff { reason: "the stream ended before its last event".to_owned() }),
            };
            match passed {
                Ok(whole) => this.ready.extend_from_slice(&whole),
                Err(failure) => this.end(|| {
                    tracing::warn!(error = %failure, "a stream broke off");
                    describe(&failure)
                }),
            }
        }
        if !this.ready.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(this.ready.split().freeze()))));
        }
        let ending = if this.watch.failed { Ending::BrokenOff } else { Ending::Answered };
        this.passage.streamed(ending);
        Poll::Ready(None)
    }
}

/// Sees every event that passes and reads the few that matter.
struct Watch {
    splitter: EventSplitter,
    upstream: Arc<dyn Upstream>,
    meter: Meter,
    /// A named event has passed.
    begun: bool,
    /// The event that ends a stream has passed.
    finished: bool,
    /// An error has passed, or was put in the place of the end.
    failed: bool,
    /// The data of an `error` event that was the very first one.
    early_error: Option<Bytes>,
}

impl Watch {
    fn new(upstream: Arc<dyn Upstream>, meter: Meter) -> Self {
        Self {
            splitter: EventSplitter::default(),
            upstream,
            meter,
            begun: false,
            finished: false,
            failed: false,
            early_error: None,
        }
    }

    /// Gives back the bytes that may be passed on: whole events only, and no error that quotes the credential.
    fn pass(&mut self, chunk: Bytes) -> Result<Bytes, UpstreamError> {
        let Self { splitter, upstream, meter, begun, finished, failed, early_error } = self;
        let failed_before = *failed;
        let mut at = 0;
        let mut renamed: Option<(Range<usize>, Bytes)> = None;
        let whole = splitter.push(chunk, |event| {
            let span = at..at + event.len();
            at = span.end;
            let Some(name) = event.name() else { return };
            match name {
                b"message_start" => {
                    meter.see_start(event);
                    renamed = envelope::renamed(&event.data(), model_id::agent_form)
                        .map(|json| (span, sse::frame("message_start", &json)));
                }
                b"content_block_delta" => meter.see_content(event),
                b"message_delta" => meter.see_delta(event),
                b"message_stop" => *finished = true,
                b"error" => {
                    (*finished, *failed) = (true, true);
                    if !*begun {
                        *early_error = Some(upstream.redact(Bytes::copy_from_slice(&event.data())));
                    }
                }
                _ => {}
            }
            *begun = true;
        });
        let whole = whole.map_err(|error| UpstreamError::Unintelligible { reason: error.to_string() })?;
        let whole = match renamed {
            Some((span, event)) => {
                let (before, after) = (whole.slice(..span.start), whole.slice(span.end..));
                [before, event, after].concat().into()
            }
            None => whole,
        };
        Ok(if *failed && !failed_before { upstream.redact(whole) } else { whole })
    }
}

/// A failure before the first event, as a response.
pub(crate) fn refusal(failure: UpstreamError) -> ApiError {
    let (kind, message) = describe(&failure);
    match failure {
        UpstreamError::Refused(refusal) => {
            let Refusal { status, headers, body } = *refusal;
            let is_envelope = error::envelope_kind(&body).is_some();
            let body = if is_envelope { body } else { error::envelope(kind, &message) };
            ApiError::passed_on(status, headers, body)
        }
        UpstreamError::NoCredential { .. } => {
            // Agents try a 401 again and again; this one stays until a person does something, and says what.
            let headers = HeaderMap::from_iter([(SHOULD_RETRY, HeaderValue::from_static("false"))]);
            ApiError::passed_on(StatusCode::UNAUTHORIZED, headers, error::envelope(kind, &message))
        }
        UpstreamError::TimedOut => ApiError::with_status(StatusCode::GATEWAY_TIMEOUT, kind, &message),
        UpstreamError::Internal { .. } => ApiError::with_status(StatusCode::INTERNAL_SERVER_ERROR, kind, &message),
        UpstreamError::Unreachable { .. } | UpstreamError::BrokenOff { .. } | UpstreamError::Unintelligible { .. } => {
            ApiError::with_status(StatusCode::BAD_GATEWAY, kind, &message)
        }
    }
}

/// What the client is told about a failure.
fn describe(failure: &UpstreamError) -> (ErrorKind, String) {
    match failure {
        UpstreamError::Refused(refusal) => (ErrorKind::of_status(refusal.status), format!("Upstream: {failure}.")),
        UpstreamError::NoCredential { .. } => (ErrorKind::Authentication, format!("Upstream: {failure}.")),
        UpstreamError::TimedOut => (ErrorKind::Timeout, format!("Upstream: {failure}.")),
        UpstreamError::Internal { reason } => {
            let id = Uuid::new_v4();
            tracing::error!(%id, reason, "the gateway itself failed");
            (ErrorKind::Api, format!("The gateway itself failed; its log has the reason under {id}."))
        }
        UpstreamError::Unreachable { .. } | UpstreamError::BrokenOff { .. } | UpstreamError::Unintelligible { .. } => {
            (ErrorKind::Api, format!("Upstream: {failure}."))
        }
    }
}
