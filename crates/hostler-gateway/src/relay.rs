//! Forwards an upstream's events to the client.
//!
//! The first event is awaited before anything is written, so that an early failure becomes an ordinary error response.
//! A later failure becomes one `error` event. There is no task and no buffer between the two connections: the upstream
//! is read when the client accepts more data.

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

use crate::error::{self, ApiError, ApiErrorKind};
use crate::forwarded_request::ForwardedRequest;
use crate::model_id;
use crate::request_fields;
use crate::request_observer::RequestOutcome;
use crate::sse::{self, SseEventSplitter};
use crate::upstream::{EventByteStream, Upstream, UpstreamError, UpstreamErrorResponse};
use crate::usage::TokenMeter;

/// The body of every response: complete, or relayed.
pub(crate) type ResponseBody = Either<Full<Bytes>, StreamRelay>;

/// Error message for requests whose lease ended.
pub(crate) const LEASE_ENDED_MESSAGE: &str = "The gateway is stopping or the agent's registration has ended.";

/// Response header that states whether a retry makes sense.
const SHOULD_RETRY_HEADER: HeaderName = HeaderName::from_static("x-should-retry");
/// Events are collected up to this size before they are written.
const WRITE_BATCH_BYTES: usize = 16 * 1024;
/// How often a relay yields before it writes. Once would be enough, but hyper polls a pending body a second time before
/// it returns to the scheduler.
const MAX_YIELDS: u8 = 2;

/// A running stream, as a response body.
///
/// The task that reads the upstream's connection delivers one chunk, mostly one event, at a time. If more have arrived,
/// writing each of them would cost a system call per event, so the relay yields to that task before it writes. It does
/// not wait for a time or an event: whatever has arrived when it is polled again is written.
pub(crate) struct StreamRelay {
    events: EventByteStream,
    inspector: EventInspector,
    /// Complete events that are not written yet; the first ones were received before the response started.
    pending: BytesMut,
    /// Number of yields since the last event.
    yields: u8,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    is_over: bool,
    request: ForwardedRequest,
}

impl StreamRelay {
    /// Waits for the first event; a failure or an `error` event in its place fails the request.
    pub(crate) async fn begin(
        mut events: EventByteStream,
        upstream: Arc<dyn Upstream>,
        meter: TokenMeter,
        ended: CancellationToken,
        forwarded: &mut ForwardedRequest,
    ) -> Result<Self, UpstreamError> {
        let mut watch = EventInspector::new(upstream, meter);
        let mut ready = BytesMut::new();
        while !watch.has_begun {
            let chunk = events.next().await.ok_or_else(|| UpstreamError::Interrupted {
                reason: "the stream ended before its first event".to_owned(),
            })??;
            ready.extend_from_slice(&watch.inspect(chunk)?);
        }
        if let Some(body) = watch.early_error.take() {
            let kind = error::error_body_kind(&body).unwrap_or_default();
            let status = ApiErrorKind::status_for_name(&kind);
            return Err(UpstreamError::from(UpstreamErrorResponse { status, headers: HeaderMap::new(), body }));
        }
        forwarded.mark_streaming();
        let forwarded = forwarded.take();
        let ended = Box::pin(ended.cancelled_owned());
        // The first events are sent together with the response head.
        Ok(Self {
            events,
            inspector: watch,
            pending: ready,
            yields: MAX_YIELDS,
            cancelled: ended,
            is_over: false,
            request: forwarded,
        })
    }

    /// Ends the stream, with an `error` event unless the final event has passed. The upstream call is dropped at once,
    /// so a slow client does not keep it alive.
    fn end_stream(&mut self, why: impl FnOnce() -> (ApiErrorKind, String)) {
        self.is_over = true;
        self.inspector.meter.charge_unreported();
        self.events = stream::empty().boxed();
        if !self.inspector.is_finished {
            self.inspector.has_failed = true;
            let (kind, message) = why();
            self.pending.extend_from_slice(&error::error_event(kind, &message));
        }
    }
}

impl Drop for StreamRelay {
    fn drop(&mut self) {
        self.inspector.meter.charge_unreported();
        self.request.set_tokens(self.inspector.meter.tokens());
    }
}

impl Body for StreamRelay {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if !this.is_over && this.cancelled.as_mut().poll(cx).is_ready() {
            this.end_stream(|| (ApiErrorKind::Api, LEASE_ENDED_MESSAGE.to_owned()));
        }
        while !this.is_over && this.pending.len() < WRITE_BATCH_BYTES {
            let next = match Pin::new(&mut this.events).poll_next(cx) {
                Poll::Ready(next) => next,
                Poll::Pending if this.pending.is_empty() => return Poll::Pending,
                Poll::Pending if this.yields == MAX_YIELDS => break,
                Poll::Pending => {
                    this.yields += 1;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            };
            this.yields = 0;
            let passed = match next {
                Some(Ok(chunk)) => this.inspector.inspect(chunk),
                Some(Err(error)) => Err(error),
                None => Err(UpstreamError::Interrupted { reason: "the stream ended before its last event".to_owned() }),
            };
            match passed {
                Ok(whole) => this.pending.extend_from_slice(&whole),
                Err(failure) => this.end_stream(|| {
                    tracing::warn!(error = %failure, code = failure.code(), "stream from the upstream failed");
                    describe_failure(&failure)
                }),
            }
        }
        if !this.pending.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(this.pending.split().freeze()))));
        }
        let ending =
            if this.inspector.has_failed { RequestOutcome::StreamInterrupted } else { RequestOutcome::Completed };
        this.request.set_outcome(ending);
        Poll::Ready(None)
    }
}

/// Inspects every event that passes and parses the few that matter.
struct EventInspector {
    splitter: SseEventSplitter,
    upstream: Arc<dyn Upstream>,
    meter: TokenMeter,
    /// A named event has passed.
    has_begun: bool,
    /// The final event of the stream has passed.
    is_finished: bool,
    /// An `error` event has passed or was sent in place of the end.
    has_failed: bool,
    /// The data of an `error` event that was the first event.
    early_error: Option<Bytes>,
}

impl EventInspector {
    fn new(upstream: Arc<dyn Upstream>, meter: TokenMeter) -> Self {
        Self {
            splitter: SseEventSplitter::default(),
            upstream,
            meter,
            has_begun: false,
            is_finished: false,
            has_failed: false,
            early_error: None,
        }
    }

    /// Returns the bytes to forward: complete events only, and no error that contains the credential.
    fn inspect(&mut self, chunk: Bytes) -> Result<Bytes, UpstreamError> {
        let Self {
            splitter,
            upstream,
            meter,
            has_begun: begun,
            is_finished: finished,
            has_failed: failed,
            early_error,
        } = self;
        let failed_before = *failed;
        let mut at = 0;
        let mut renamed: Option<(Range<usize>, Bytes)> = None;
        let whole = splitter.push(chunk, |event| {
            let span = at..at + event.len();
            at = span.end;
            let Some(name) = event.name() else { return };
            match name {
                b"message_start" => {
                    meter.read_message_start(event);
                    renamed = request_fields::rename_model(&event.data(), model_id::agent_form)
                        .map(|json| (span, sse::encode_event("message_start", &json)));
                }
                b"content_block_delta" => meter.measure_content_delta(event),
                b"message_delta" => meter.read_message_delta(event),
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
        let whole = whole.map_err(|error| UpstreamError::InvalidResponse { reason: error.to_string() })?;
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

/// Converts a failure before the first event into a response.
pub(crate) fn into_api_error(failure: UpstreamError) -> ApiError {
    let (kind, message) = describe_failure(&failure);
    match failure {
        UpstreamError::ErrorResponse(refusal) => {
            let UpstreamErrorResponse { status, headers, body } = *refusal;
            let is_envelope = error::error_body_kind(&body).is_some();
            let body = if is_envelope { body } else { error::error_body(kind, &message) };
            ApiError::with_body(status, headers, body)
        }
        UpstreamError::MissingCredential { .. } => {
            // Agents retry a 401 repeatedly; this one persists until a person acts, and its message states how.
            let headers = HeaderMap::from_iter([(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"))]);
            ApiError::with_body(StatusCode::UNAUTHORIZED, headers, error::error_body(kind, &message))
        }
        UpstreamError::TimedOut => ApiError::with_status(StatusCode::GATEWAY_TIMEOUT, kind, &message),
        UpstreamError::Internal { .. } => ApiError::with_status(StatusCode::INTERNAL_SERVER_ERROR, kind, &message),
        UpstreamError::Unreachable { .. }
        | UpstreamError::Interrupted { .. }
        | UpstreamError::InvalidResponse { .. } => ApiError::with_status(StatusCode::BAD_GATEWAY, kind, &message),
    }
}

/// The error kind and message of a failure, for the client.
fn describe_failure(failure: &UpstreamError) -> (ApiErrorKind, String) {
    let kind = match failure {
        UpstreamError::ErrorResponse(response) => ApiErrorKind::from_status(response.status),
        UpstreamError::MissingCredential { .. } => ApiErrorKind::Authentication,
        UpstreamError::TimedOut => ApiErrorKind::Timeout,
        UpstreamError::Internal { reason } => {
            let id = Uuid::new_v4();
            tracing::error!(%id, reason, "internal error of the gateway");
            let message = format!("Internal error of the gateway. The host's log has the cause under {id}.");
            return (ApiErrorKind::Api, message);
        }
        UpstreamError::Unreachable { .. }
        | UpstreamError::Interrupted { .. }
        | UpstreamError::InvalidResponse { .. } => ApiErrorKind::Api,
    };
    (kind, error::upstream_failure_message(kind, failure))
}
