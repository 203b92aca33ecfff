//! One request: authenticated, read, routed, sent to the upstream.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Incoming};

use crate::envelope::RequestEnvelope;
use crate::error::{ApiError, ErrorKind};
use crate::gateway::Shared;
use crate::lease::Holder;
use crate::observe::{self, ObservedRequest};
use crate::relay::{self, Relay, ResponseBody};
use crate::upstream::{AnswerBody, UpstreamCall};
use crate::usage::Meter;

/// The largest body that is taken, the Messages API's own limit.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// How long a refused request may go on sending before the refusal is written anyway.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Answers any request; failures are answers too.
pub(crate) async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    if parts.uri.path() == "/" && matches!(parts.method, Method::GET | Method::HEAD) {
        return Response::new(Either::Left(Full::new(Bytes::from_static(b"Hostler gateway\n"))));
    }
    let answered = match authenticate(shared, &parts.headers) {
        Ok(holder) => answer_caller(shared, &holder, &parts, body).await,
        Err(refused) => {
            discard(body).await;
            Err(refused)
        }
    };
    answered.unwrap_or_else(|error| {
        tracing::debug!(method = %parts.method, path = parts.uri.path(), status = %error.status(), "a request failed");
        error.into_response()
    })
}

fn authenticate(shared: &Shared, headers: &HeaderMap) -> Result<Arc<Holder>, ApiError> {
    let id = shared.nonce.check(headers)?;
    shared.registry.find(id).ok_or_else(|| {
        ApiError::new(
            ErrorKind::Authentication,
            "The bearer belongs to no agent that is running; it may have been revoked.",
        )
    })
}

async fn answer_caller(
    shared: &Shared,
    holder: &Arc<Holder>,
    parts: &Parts,
    body: Incoming,
) -> Result<Response<ResponseBody>, ApiError> {
    let body = read(body).await?;
    if let Some(observer) = &shared.observer {
        observer.observe(ObservedRequest {
            lease: holder.id.clone(),
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            headers: observe::redacted(&parts.headers),
            body: body.clone(),
        });
    }
    match (&parts.method, parts.uri.path()) {
        (&Method::POST, "/v1/messages") => messages(shared, holder, parts, body).await,
        (method, path) => {
            let message = format!("There is no {method} {path} here; the gateway serves POST /v1/messages.");
            Err(ApiError::new(ErrorKind::NotFound, &message))
        }
    }
}

/// `POST /v1/messages`, streaming or not.
async fn messages(
    shared: &Shared,
    holder: &Arc<Holder>,
    parts: &Parts,
    body: Bytes,
) -> Result<Response<ResponseBody>, ApiError> {
    let envelope = RequestEnvelope::read(&body)?;
    let in_flight = shared.count_in();
    let mut meter = Meter::start(Arc::clone(holder));
    let call = UpstreamCall {
        body,
        model: envelope.model,
        stream: envelope.stream,
        version: parts.headers.get("anthropic-version").cloned(),
        betas: betas(&parts.headers),
        beta_endpoint: parts.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "beta=true")),
    };

    let answering = async {
        let answer = shared.upstream.messages(call).await?;
        let body = match answer.body {
            AnswerBody::Whole(body) => {
                meter.see_body(&body);
                Either::Left(Full::new(body))
            }
            AnswerBody::Events(events) => {
                let upstream = Arc::clone(&shared.upstream);
                Either::Right(Relay::begin(events, upstream, meter, holder.ended.clone(), in_flight).await?)
            }
        };
        Ok((answer.headers, body))
    };
    // Dropping the call is what cancels it upstream, here as when the client leaves.
    let (headers, body) = match holder.ended.run_until_cancelled(answering).await {
        None => {
            return Err(ApiError::with_status(http::StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Api, relay::ENDED));
        }
        Some(Ok(answer)) => answer,
        Some(Err(error)) => {
            let (session, chat) = holder.lease.as_ref().map_or(("", ""), |lease| (&lease.session, &lease.chat));
            tracing::warn!(session, chat, upstream = shared.upstream.name(), %error, "the upstream call failed");
            return Err(relay::refusal(error));
        }
    };

    let content_type = match &body {
        Either::Left(_) => "application/json",
        Either::Right(_) => "text/event-stream",
    };
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if content_type == "text/event-stream" {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    Ok(response)
}

fn betas(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all("anthropic-beta")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|beta| beta.trim().to_owned())
        .filter(|beta| !beta.is_empty())
        .collect()
}

/// Reads the whole body, up to the limit.
async fn read(mut body: Incoming) -> Result<Bytes, ApiError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced <= MAX_BODY_BYTES {
        let mut read = BytesMut::with_capacity(announced);
        loop {
            let Some(frame) = body.frame().await else {
                return Ok(read.freeze());
            };
            let frame = frame.map_err(|error| {
                ApiError::new(ErrorKind::InvalidRequest, &format!("The body could not be read to its end: {error}."))
            })?;
            let data = frame.into_data().unwrap_or_default();
            if read.len() + data.len() > MAX_BODY_BYTES {
                break;
            }
            read.extend_from_slice(&data);
        }
    }
    discard(body).await;
    Err(ApiError::new(ErrorKind::RequestTooLarge, "The body is larger than 32 MB; send less in one request."))
}

/// Reads on and forgets, within bounds. A connection that is closed while its peer still writes is reset, and the
/// peer would see that instead of our answer.
async fn discard(mut body: Incoming) {
    let reading = async {
        let mut left = 2 * MAX_BODY_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await;
}
