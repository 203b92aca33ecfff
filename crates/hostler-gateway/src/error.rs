//! Errors of the Messages API: an HTTP status and a JSON envelope with an error type and a message. Does not know what
//! caused them.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{Either, Full};
use serde::{Deserialize, Serialize};

use crate::relay::ResponseBody;
use crate::sse;

/// The error types of the Messages API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiErrorKind {
    /// The request is malformed.
    InvalidRequest,
    /// The credential is missing or wrong.
    Authentication,
    /// The credential does not permit this.
    Permission,
    /// No such route or model.
    NotFound,
    /// The body is over the limit.
    RequestTooLarge,
    /// Too many requests.
    RateLimit,
    /// Internal server error.
    Api,
    /// The server did not answer in time.
    Timeout,
    /// The server has no capacity at the moment.
    Overloaded,
}

/// Each kind with its name on the wire and its usual status.
const ERROR_KINDS: [(ApiErrorKind, &str, u16); 9] = [
    (ApiErrorKind::InvalidRequest, "invalid_request_error", 400),
    (ApiErrorKind::Authentication, "authentication_error", 401),
    (ApiErrorKind::Permission, "permission_error", 403),
    (ApiErrorKind::NotFound, "not_found_error", 404),
    (ApiErrorKind::RequestTooLarge, "request_too_large", 413),
    (ApiErrorKind::RateLimit, "rate_limit_error", 429),
    (ApiErrorKind::Api, "api_error", 500),
    (ApiErrorKind::Timeout, "timeout_error", 504),
    (ApiErrorKind::Overloaded, "overloaded_error", 529),
];

impl ApiErrorKind {
    /// The value of `error.type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ERROR_KINDS.iter().find(|row| row.0 == self).map_or("api_error", |row| row.1)
    }

    /// The kind for a status; other statuses map to `InvalidRequest` (4xx) or `Api`.
    #[must_use]
    pub fn from_status(status: StatusCode) -> Self {
        match ERROR_KINDS.iter().find(|row| row.2 == status.as_u16()) {
            Some(row) => row.0,
            None if status.is_client_error() => Self::InvalidRequest,
            None => Self::Api,
        }
    }

    /// The status for an error kind that arrived by name, as in an `error` event; unknown names map to 500.
    pub(crate) fn status_for_name(name: &str) -> StatusCode {
        ERROR_KINDS
            .iter()
            .find(|row| row.1 == name)
            .and_then(|row| StatusCode::from_u16(row.2).ok())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// The error envelope, as sent and as read.
#[derive(Debug, Serialize, Deserialize)]
struct ErrorBody<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    error: ErrorDetail<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ErrorDetail<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// Serializes the envelope.
#[must_use]
pub fn error_body(kind: ApiErrorKind, message: &str) -> Bytes {
    let envelope =
        ErrorBody { kind: "error".into(), error: ErrorDetail { kind: kind.name().into(), message: message.into() } };
    match serde_json::to_vec(&envelope) {
        Ok(json) => json.into(),
        // Two borrowed strings always serialize; this arm avoids a second error path in the callers.
        Err(_) => Bytes::from_static(
            br#"{"type":"error","error":{"type":"api_error","message":"The gateway failed to serialize the error."}}"#,
        ),
    }
}

/// The `error.type` of a well-formed envelope; `None` for other bytes.
#[must_use]
pub fn error_body_kind(json: &[u8]) -> Option<String> {
    let envelope: ErrorBody<'_> = serde_json::from_slice(json).ok()?;
    (envelope.kind == "error").then(|| envelope.error.kind.into_owned())
}

/// The message of a well-formed envelope.
pub(crate) fn error_body_message(json: &[u8]) -> Option<String> {
    let envelope: ErrorBody<'_> = serde_json::from_slice(json).ok()?;
    (envelope.kind == "error").then(|| envelope.error.message.into_owned())
}

/// The envelope as a server-sent `error` event, which reports a failure in a stream that has started.
#[must_use]
pub fn error_event(kind: ApiErrorKind, message: &str) -> Bytes {
    sse::encode_event("error", &error_body(kind, message))
}

/// The message of a failed upstream request: what failed, then the reason.
#[must_use]
pub fn upstream_failure_message(kind: ApiErrorKind, reason: impl fmt::Display) -> String {
    let failure = match kind {
        ApiErrorKind::Authentication => "Authentication failed",
        ApiErrorKind::Permission => "Permission denied",
        _ => "Upstream request failed",
    };
    format!("{failure}: {reason}.")
}

/// A failure before the first byte of the response, which becomes an ordinary HTTP response.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    headers: Box<HeaderMap>,
    body: Bytes,
}

impl ApiError {
    /// An error of the gateway, with the usual status of its kind.
    pub(crate) fn new(kind: ApiErrorKind, message: &str) -> Self {
        Self::with_status(ApiErrorKind::status_for_name(kind.name()), kind, message)
    }

    /// An error of the gateway with an explicit status.
    pub(crate) fn with_status(status: StatusCode, kind: ApiErrorKind, message: &str) -> Self {
        Self { status, headers: Box::default(), body: error_body(kind, message) }
    }

    /// An error whose envelope comes from an upstream.
    pub(crate) fn with_body(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self { status, headers: Box::new(headers), body }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(Either::Left(Full::new(self.body)));
        *response.status_mut() = self.status;
        *response.headers_mut() = *self.headers;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_maps_to_its_status_and_back() {
        for (kind, name, status) in ERROR_KINDS {
            assert_eq!(ApiErrorKind::from_status(StatusCode::from_u16(status).unwrap()), kind);
            assert_eq!(ApiErrorKind::status_for_name(name).as_u16(), status);
        }
    }

    #[test]
    fn other_statuses_map_to_a_client_or_server_error_kind() {
        assert_eq!(ApiErrorKind::from_status(StatusCode::CONFLICT), ApiErrorKind::InvalidRequest);
        assert_eq!(ApiErrorKind::from_status(StatusCode::BAD_GATEWAY), ApiErrorKind::Api);
    }

    #[test]
    fn only_a_complete_envelope_is_parsed() {
        assert_eq!(
            error_body_kind(&error_body(ApiErrorKind::RateLimit, "a \"quoted\" word")).unwrap(),
            "rate_limit_error"
        );
        for other in [&b"<html>"[..], b"{}", b"{\"error\":{\"type\":\"x\",\"message\":\"y\"}}", b"{\"type\":\"error\"}"]
        {
            assert_eq!(error_body_kind(other), None);
        }
    }
}
