//! Handles one request: authenticates, reads, routes and forwards it to the upstream.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Incoming};

use crate::betas;
use crate::connection::{TooManyRequests, TrackedConnection};
use crate::error::{ApiError, ApiErrorKind};
use crate::forwarded_request::ForwardedRequest;
use crate::gateway::GatewayState;
use crate::lease::LeaseHolder;
use crate::limits::LimitExceeded;
use crate::model_id;
use crate::models_endpoint;
use crate::relay::{self, ResponseBody, StreamRelay};
use crate::request_fields::{self, MessagesRequestFields};
use crate::request_observer::{self, ObservedRequest};
use crate::upstream::{UpstreamError, UpstreamRequest, UpstreamResponseBody};
use crate::upstream_registry::{ModelResolution, RegisteredUpstream};
use crate::usage::TokenMeter;

/// Maximum size of a request body; the same limit as that of the Messages API.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// Maximum time the body of a rejected request is read before the response is written anyway.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers any request; failures become error responses.
pub(crate) async fn handle_request(
    shared: &Arc<GatewayState>,
    connection: &TrackedConnection,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    if let Err(refused) = shared.host_names.check(&parts) {
        tracing::debug!(method = %parts.method, path = parts.uri.path(), "rejected a request with a foreign Host header");
        discard_body(body).await;
        return refused.into_response();
    }
    if let Some(text) = public_response(shared, &parts) {
        return Response::new(Either::Left(Full::new(text)));
    }
    let mut forwarded = ForwardedRequest::begin(Arc::clone(shared), &parts.method, parts.uri.path());
    let answered = match authenticate(shared, connection, &parts.headers) {
        Ok(holder) => {
            forwarded.set_lease(&holder.id);
            let answering = handle_authenticated(shared, &holder, &parts, body, &mut forwarded);
            // Dropping the call cancels it at the upstream, here as when the client disconnects.
            holder.cancellation.run_until_cancelled(answering).await.unwrap_or_else(|| Err(lease_ended_error()))
        }
        Err(refused) => {
            discard_body(body).await;
            Err(refused)
        }
    };
    let response = answered.unwrap_or_else(|error| {
        tracing::debug!(method = %parts.method, path = parts.uri.path(), status = %error.status(), "request failed");
        error.into_response()
    });
    forwarded.set_status(response.status());
    response
}

/// Responses that need no bearer.
fn public_response(shared: &GatewayState, parts: &Parts) -> Option<Bytes> {
    match (&parts.method, parts.uri.path()) {
        (&Method::GET | &Method::HEAD, "/") => Some(Bytes::from_static(b"Hostler gateway\n")),
        (&Method::GET, "/healthz") if shared.diagnostics_endpoints => Some(Bytes::from_static(b"ok\n")),
        (&Method::GET, "/metrics") if shared.diagnostics_endpoints => {
            Some(shared.metrics.render(*shared.in_flight.borrow()).into())
        }
        _ => None,
    }
}

fn authenticate(
    shared: &GatewayState,
    connection: &TrackedConnection,
    headers: &HeaderMap,
) -> Result<Arc<LeaseHolder>, ApiError> {
    let id = shared.nonce.authenticate(headers)?;
    let holder = shared.registry.find(id).ok_or_else(|| {
        ApiError::new(
            ApiErrorKind::Authentication,
            "The bearer does not belong to a running agent. It may have been revoked.",
        )
    })?;
    connection.mark_authenticated().map_err(|TooManyRequests| {
        let message = "Too many concurrent requests. Try again in a moment.";
        ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, ApiErrorKind::Overloaded, message)
    })?;
    Ok(holder)
}

async fn handle_authenticated(
    shared: &Arc<GatewayState>,
    holder: &Arc<LeaseHolder>,
    parts: &Parts,
    body: Incoming,
    forwarded: &mut ForwardedRequest,
) -> Result<Response<ResponseBody>, ApiError> {
    let body = read_body(body, shared.connections.limits().body_timeout).await?;
    if let Some(observer) = &shared.observer {
        observer.observe(ObservedRequest {
            lease: holder.id.clone(),
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            headers: request_observer::redact_headers(&parts.headers),
            body: body.clone(),
        });
    }
    let path = parts.uri.path();
    match (&parts.method, path) {
        (&Method::POST, "/v1/messages") => handle_messages(shared, holder, parts, body, forwarded).await,
        (&Method::POST, "/v1/messages/count_tokens") => {
            handle_count_tokens(shared, holder, parts, body, forwarded).await
        }
        (&Method::GET, "/v1/models") => models_endpoint::list_models(shared, holder).await,
        (&Method::GET, _) if let Some(id) = path.strip_prefix("/v1/models/") => {
            models_endpoint::get_model(shared, holder, id).await
        }
        (method, path) => {
            let message = format!(
                "{method} {path} not found. The gateway serves POST /v1/messages, POST /v1/messages/count_tokens and \
         GET /v1/models."
            );
            Err(ApiError::new(ApiErrorKind::NotFound, &message))
        }
    }
}

/// A request with the upstream that was selected for it.
struct RoutedRequest {
    target: Arc<RegisteredUpstream>,
    request: UpstreamRequest,
}

/// Selects the upstream and adapts the request to it: model id, betas.
async fn route_request(
    shared: &GatewayState,
    holder: &LeaseHolder,
    parts: &Parts,
    body: Bytes,
    forwarded: &mut ForwardedRequest,
) -> Result<RoutedRequest, ApiError> {
    let envelope = MessagesRequestFields::parse(&body)?;
    forwarded.mark_in_flight();
    let offers = shared.upstreams();
    let (offer, asked) = offers.route(holder.upstream_scope(), &envelope.model)?;
    forwarded.set_route(&offer.name, asked);
    let model = match offer.resolve(asked).await {
        Ok(ModelResolution::Model(model)) => model,
        Ok(ModelResolution::Unknown) => {
            let message = format!(
                "Model {asked:?} not found at the upstream {}. GET /v1/models lists the available models.",
                offer.name
            );
            return Err(ApiError::new(ApiErrorKind::NotFound, &message));
        }
        Err(error) => return Err(upstream_error(holder, offer, error)),
    };
    forwarded.set_route(&offer.name, &model);
    let betas =
        betas::filter_for_upstream(&parts.headers, offer.upstream.capabilities().betas, &shared.allowed_betas());
    let call = UpstreamRequest {
        body: envelope.with_model(body, &model),
        model,
        stream: envelope.stream,
        version: parts.headers.get("anthropic-version").cloned(),
        betas,
        beta_endpoint: parts.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "beta=true")),
    };
    Ok(RoutedRequest { target: Arc::clone(offer), request: call })
}

/// `POST /v1/messages`, streaming or not.
async fn handle_messages(
    shared: &GatewayState,
    holder: &Arc<LeaseHolder>,
    parts: &Parts,
    body: Bytes,
    forwarded: &mut ForwardedRequest,
) -> Result<Response<ResponseBody>, ApiError> {
    let RoutedRequest { target: offer, request: call } = route_request(shared, holder, parts, body, forwarded).await?;
    let permit = shared.admission.admit(&holder.account).await.map_err(|too_much| limit_error(holder, too_much))?;
    let mut meter = TokenMeter::start(Arc::clone(holder), permit, shared.price(&call.model));
    let failed = |error| upstream_error(holder, &offer, error);
    let answer = offer.upstream.messages(call).await.map_err(failed)?;
    let body = match answer.body {
        UpstreamResponseBody::Whole(body) => {
            meter.read_message(&body);
            forwarded.set_tokens(meter.tokens());
            Either::Left(Full::new(request_fields::rename_model(&body, model_id::agent_form).unwrap_or(body)))
        }
        UpstreamResponseBody::Events(events) => {
            let upstream = Arc::clone(&offer.upstream);
            let relay = StreamRelay::begin(events, upstream, meter, holder.cancellation.clone(), forwarded).await;
            Either::Right(relay.map_err(failed)?)
        }
    };
    Ok(build_response(answer.headers, body))
}

/// `POST /v1/messages/count_tokens`.
async fn handle_count_tokens(
    shared: &GatewayState,
    holder: &Arc<LeaseHolder>,
    parts: &Parts,
    body: Bytes,
    forwarded: &mut ForwardedRequest,
) -> Result<Response<ResponseBody>, ApiError> {
    let RoutedRequest { target: offer, request: call } = route_request(shared, holder, parts, body, forwarded).await?;
    // It counts as a request of its own: an upstream answers it, or the gateway with as much work.
    let permit = shared.admission.admit(&holder.account).await.map_err(|too_much| limit_error(holder, too_much))?;
    let _meter = TokenMeter::start(Arc::clone(holder), permit, None);
    let call = UpstreamRequest { stream: false, ..call };
    let answer = offer.upstream.count_tokens(call).await.map_err(|error| upstream_error(holder, &offer, error))?;
    match answer.body {
        UpstreamResponseBody::Whole(body) => Ok(build_response(answer.headers, Either::Left(Full::new(body)))),
        UpstreamResponseBody::Events(_) => {
            let reason = "expected a token count, received a stream".to_owned();
            Err(upstream_error(holder, &offer, UpstreamError::InvalidResponse { reason }))
        }
    }
}

fn build_response(headers: HeaderMap, body: ResponseBody) -> Response<ResponseBody> {
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

/// The response to a request over a limit.
fn limit_error(holder: &LeaseHolder, too_much: LimitExceeded) -> ApiError {
    let (session, chat) = holder.lease.as_ref().map_or(("", ""), |lease| (&lease.session, &lease.chat));
    tracing::info!(session, chat, reached = %too_much.limit, "rejected a request over a limit");
    too_much.into_api_error()
}

/// Converts a failed upstream call into a response, and logs it with its lease.
fn upstream_error(holder: &LeaseHolder, offer: &RegisteredUpstream, error: UpstreamError) -> ApiError {
    let (session, chat) = holder.lease.as_ref().map_or(("", ""), |lease| (&lease.session, &lease.chat));
    tracing::warn!(session, chat, upstream = offer.name, %error, code = error.code(), "upstream request failed");
    relay::into_api_error(error)
}

fn lease_ended_error() -> ApiError {
    ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, ApiErrorKind::Api, relay::LEASE_ENDED_MESSAGE)
}

/// Reads the whole body up to the limit; `timeout` applies to each chunk.
async fn read_body(mut body: Incoming, timeout: Duration) -> Result<Bytes, ApiError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced <= MAX_BODY_BYTES {
        let mut read = BytesMut::with_capacity(announced);
        loop {
            let frame = tokio::time::timeout(timeout, body.frame()).await.map_err(|_| {
                let message = "The request body did not arrive in time. Send the request again.";
                ApiError::with_status(StatusCode::REQUEST_TIMEOUT, ApiErrorKind::InvalidRequest, message)
            })?;
            let Some(frame) = frame else {
                return Ok(read.freeze());
            };
            let frame = frame.map_err(|error| {
                ApiError::new(ApiErrorKind::InvalidRequest, &format!("Failed to read the request body: {error}."))
            })?;
            let data = frame.into_data().unwrap_or_default();
            if read.len() + data.len() > MAX_BODY_BYTES {
                break;
            }
            read.extend_from_slice(&data);
        }
    }
    discard_body(body).await;
    Err(ApiError::new(ApiErrorKind::RequestTooLarge, "The request body is larger than 32 MB. Send a smaller request."))
}

/// Reads and discards the body, within limits. If a connection is closed while its peer still writes, the peer gets a
/// reset instead of the response.
async fn discard_body(mut body: Incoming) {
    let reading = async {
        let mut left = 2 * MAX_BODY_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, reading).await;
}
