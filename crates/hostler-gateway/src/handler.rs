//! One request: authenticated, read, routed, sent to the upstream.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Incoming};

use crate::betas;
use crate::connection::{Connection, TooBusy};
use crate::envelope::{self, RequestEnvelope};
use crate::error::{ApiError, ErrorKind};
use crate::gateway::Shared;
use crate::lease::Holder;
use crate::limits::TooMuch;
use crate::model_id;
use crate::models;
use crate::observe::{self, ObservedRequest};
use crate::passage::Passage;
use crate::relay::{self, Relay, ResponseBody};
use crate::upstream::{AnswerBody, UpstreamCall, UpstreamError};
use crate::upstreams::{Offer, Resolved};
use crate::usage::Meter;

/// The largest body that is taken, the Messages API's own limit.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// How long a refused request may go on sending before the refusal is written anyway.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Answers any request; failures are answers too.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    connection: &Connection,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    if let Err(refused) = shared.host_names.check(&parts) {
        tracing::debug!(method = %parts.method, path = parts.uri.path(), "a request for another host was refused");
        discard(body).await;
        return refused.into_response();
    }
    if let Some(text) = public(shared, &parts) {
        return Response::new(Either::Left(Full::new(text)));
    }
    let mut passage = Passage::begin(Arc::clone(shared), &parts.method, parts.uri.path());
    let answered = match authenticate(shared, connection, &parts.headers) {
        Ok(holder) => {
            passage.authenticated(&holder.id);
            let answering = answer_caller(shared, &holder, &parts, body, &mut passage);
            // Dropping the call is what cancels it upstream, here as when the client leaves.
            holder.ended.run_until_cancelled(answering).await.unwrap_or_else(|| Err(ended()))
        }
        Err(refused) => {
            discard(body).await;
            Err(refused)
        }
    };
    let response = answered.unwrap_or_else(|error| {
        tracing::debug!(method = %parts.method, path = parts.uri.path(), status = %error.status(), "a request failed");
        error.into_response()
    });
    passage.answered(response.status());
    response
}

/// What anybody is told who can connect.
fn public(shared: &Shared, parts: &Parts) -> Option<Bytes> {
    match (&parts.method, parts.uri.path()) {
        (&Method::GET | &Method::HEAD, "/") => Some(Bytes::from_static(b"Hostler gateway\n")),
        (&Method::GET, "/healthz") if shared.diagnostics => Some(Bytes::from_static(b"ok\n")),
        (&Method::GET, "/metrics") if shared.diagnostics => {
            Some(shared.metrics.text(*shared.in_flight.borrow()).into())
        }
        _ => None,
    }
}

fn authenticate(shared: &Shared, connection: &Connection, headers: &HeaderMap) -> Result<Arc<Holder>, ApiError> {
    let id = shared.nonce.check(headers)?;
    let holder = shared.registry.find(id).ok_or_else(|| {
        ApiError::new(
            ErrorKind::Authentication,
            "The bearer belongs to no agent that is running; it may have been revoked.",
        )
    })?;
    connection.authenticated().map_err(|TooBusy| {
        let message = "The gateway answers as many requests as it may; try again in a moment.";
        ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Overloaded, message)
    })?;
    Ok(holder)
}

async fn answer_caller(
    shared: &Arc<Shared>,
    holder: &Arc<Holder>,
    parts: &Parts,
    body: Incoming,
    passage: &mut Passage,
) -> Result<Response<ResponseBody>, ApiError> {
    let body = read(body, shared.connections.limits().body_timeout).await?;
    if let Some(observer) = &shared.observer {
        observer.observe(ObservedRequest {
            lease: holder.id.clone(),
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            headers: observe::redacted(&parts.headers),
            body: body.clone(),
        });
    }
    let path = parts.uri.path();
    match (&parts.method, path) {
        (&Method::POST, "/v1/messages") => messages(shared, holder, parts, body, passage).await,
        (&Method::POST, "/v1/messages/count_tokens") => count_tokens(shared, holder, parts, body, passage).await,
        (&Method::GET, "/v1/models") => models::list(shared, holder).await,
        (&Method::GET, _) if let Some(id) = path.strip_prefix("/v1/models/") => models::one(shared, holder, id).await,
        (method, path) => {
            let message = format!(
                "There is no {method} {path} here; the gateway serves POST /v1/messages, POST /v1/messages/count_tokens \
                 and GET /v1/models."
            );
            Err(ApiError::new(ErrorKind::NotFound, &message))
        }
    }
}

/// A request on its way to the upstream that was chosen for it.
struct Routed {
    offer: Arc<Offer>,
    call: UpstreamCall,
}

/// Chooses the upstream, and puts the request into the words that it knows.
async fn route(
    shared: &Shared,
    holder: &Holder,
    parts: &Parts,
    body: Bytes,
    passage: &mut Passage,
) -> Result<Routed, ApiError> {
    let envelope = RequestEnvelope::read(&body)?;
    passage.taken_on();
    let offers = shared.offers();
    let (offer, asked) = offers.route(holder.reach(), &envelope.model)?;
    passage.routed(&offer.name, asked);
    let model = match offer.resolve(asked).await {
        Ok(Resolved::Model(model)) => model,
        Ok(Resolved::Unknown) => {
            let message = format!("The upstream {} has no model {asked:?}; see /v1/models.", offer.name);
            return Err(ApiError::new(ErrorKind::NotFound, &message));
        }
        Err(error) => return Err(refused(holder, offer, error)),
    };
    passage.routed(&offer.name, &model);
    let betas = betas::for_upstream(&parts.headers, offer.upstream.manners().betas, &shared.allowed_betas());
    let call = UpstreamCall {
        body: envelope.with_model(body, &model),
        model,
        stream: envelope.stream,
        version: parts.headers.get("anthropic-version").cloned(),
        betas,
        beta_endpoint: parts.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "beta=true")),
    };
    Ok(Routed { offer: Arc::clone(offer), call })
}

/// `POST /v1/messages`, streaming or not.
async fn messages(
    shared: &Shared,
    holder: &Arc<Holder>,
    parts: &Parts,
    body: Bytes,
    passage: &mut Passage,
) -> Result<Response<ResponseBody>, ApiError> {
    let Routed { offer, call } = route(shared, holder, parts, body, passage).await?;
    let permit = shared.desk.admit(&holder.account).await.map_err(|too_much| over_limit(holder, too_much))?;
    let mut meter = Meter::start(Arc::clone(holder), permit, shared.price(&call.model));
    let failed = |error| refused(holder, &offer, error);
    let answer = offer.upstream.messages(call).await.map_err(failed)?;
    let body = match answer.body {
        AnswerBody::Whole(body) => {
            meter.see_body(&body);
            passage.used(meter.tokens());
            Either::Left(Full::new(envelope::renamed(&body, model_id::agent_form).unwrap_or(body)))
        }
        AnswerBody::Events(events) => {
            let upstream = Arc::clone(&offer.upstream);
            let relay = Relay::begin(events, upstream, meter, holder.ended.clone(), passage).await;
            Either::Right(relay.map_err(failed)?)
        }
    };
    Ok(respond(answer.headers, body))
}

/// `POST /v1/messages/count_tokens`.
async fn count_tokens(
    shared: &Shared,
    holder: &Arc<Holder>,
    parts: &Parts,
    body: Bytes,
    passage: &mut Passage,
) -> Result<Response<ResponseBody>, ApiError> {
    let Routed { offer, call } = route(shared, holder, parts, body, passage).await?;
    // It counts as a request of its own: an upstream answers it, or the gateway itself with as much work.
    let permit = shared.desk.admit(&holder.account).await.map_err(|too_much| over_limit(holder, too_much))?;
    let _meter = Meter::start(Arc::clone(holder), permit, None);
    let call = UpstreamCall { stream: false, ..call };
    let answer = offer.upstream.count_tokens(call).await.map_err(|error| refused(holder, &offer, error))?;
    match answer.body {
        AnswerBody::Whole(body) => Ok(respond(answer.headers, Either::Left(Full::new(body)))),
        AnswerBody::Events(_) => {
            let reason = "a count was asked for and a stream came".to_owned();
            Err(refused(holder, &offer, UpstreamError::Unintelligible { reason }))
        }
    }
}

fn respond(headers: HeaderMap, body: ResponseBody) -> Response<ResponseBody> {
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
    response
}

/// The answer to a request that the limits do not let through.
fn over_limit(holder: &Holder, too_much: TooMuch) -> ApiError {
    let (session, chat) = holder.lease.as_ref().map_or(("", ""), |lease| (&lease.session, &lease.chat));
    tracing::info!(session, chat, reached = %too_much.reached, "a request was refused");
    too_much.into_error()
}

/// What the client is told about a failed call; the log is told whose it was.
fn refused(holder: &Holder, offer: &Offer, error: UpstreamError) -> ApiError {
    let (session, chat) = holder.lease.as_ref().map_or(("", ""), |lease| (&lease.session, &lease.chat));
    tracing::warn!(session, chat, upstream = offer.name, %error, "the upstream call failed");
    relay::refusal(error)
}

fn ended() -> ApiError {
    ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Api, relay::ENDED)
}

/// Reads the whole body, up to the limit; each piece of it has so long to arrive.
async fn read(mut body: Incoming, timeout: Duration) -> Result<Bytes, ApiError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced <= MAX_BODY_BYTES {
        let mut read = BytesMut::with_capacity(announced);
        loop {
            let frame = tokio::time::timeout(timeout, body.frame()).await.map_err(|_| {
                let message = "The request's body did not arrive in time; send it again.";
                ApiError::with_status(StatusCode::REQUEST_TIMEOUT, ErrorKind::InvalidRequest, message)
            })?;
            let Some(frame) = frame else {
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
