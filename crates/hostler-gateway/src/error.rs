//! Errors as the Messages API shows them: a status, and an envelope with a type and a sentence.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{Either, Full};
use serde::{Deserialize, Serialize};

use crate::relay::ResponseBody;
use crate::sse;

/// The error types of the Messages API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiErrorKind {
    /// The request is malformed.
    InvalidRequest,
    /// The credential is missing or wrong.
    Authentication,
    /// The credential may not do this.
    Permission,
    /// No such route or model.
    NotFound,
    /// The body is over the limit.
    RequestTooLarge,
    /// Too many requests.
    RateLimit,
    /// The server's own failure.
    Api,
    /// The server did not answer in time.
    Timeout,
    /// The server has no capacity at the moment.
    Overloaded,
}

/// One row per kind: its name on the wire and the status that it normally comes with.
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
    /// The name that stands in `error.type`.
    pub(crate) fn name(self) -> &'static str {
        ERROR_KINDS.iter().find(|row| row.0 == self).map_or("api_error", |row| row.1)
    }

    /// The kind that a status stands for; statuses without a kind of their own fall to the client's or server's side.
    pub(crate) fn from_status(status: StatusCode) -> Self {
        match ERROR_KINDS.iter().find(|row| row.2 == status.as_u16()) {
            Some(row) => row.0,
            None if status.is_client_error() => Self::InvalidRequest,
            None => Self::Api,
        }
    }

    /// The status for an error whose kind arrived by name, as in an `error` event; unknown names are 500.
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

/// The envelope's bytes.
pub(crate) fn error_body(kind: ApiErrorKind, message: &str) -> Bytes {
    let envelope =
        ErrorBody { kind: "error".into(), error: ErrorDetail { kind: kind.name().into(), message: message.into() } };
    match serde_json::to_vec(&envelope) {
        Ok(json) => json.into(),
        // Two borrowed strings always serialize; this arm only spares the callers a second error path.
        Err(_) => Bytes::from_static(
            br#"{"type":"error","error":{"type":"api_error","message":"The error could not be described."}}"#,
        ),
    }
}

/// The `error.type` of a well-formed envelope; nothing if the bytes are something else.
pub(crate) fn error_body_kind(json: &[u8]) -> Option<String> {
    let envelope: ErrorBody<'_> = serde_json::from_slice(json).ok()?;
    (envelope.kind == "error").then(|| envelope.error.kind.into_owned())
}

/// The message of a well-formed envelope.
pub(crate) fn error_body_message(json: &[u8]) -> Option<String> {
    let envelope: ErrorBody<'_> = serde_json::from_slice(json).ok()?;
    (envelope.kind == "error").then(|| envelope.error.message.into_owned())
}

/// The envelope as one server-sent `error` event, the way a started stream reports a failure.
pub(crate) fn error_event(kind: ApiErrorKind, message: &str) -> Bytes {
    sse::encode_event("error", &error_body(kind, message))
}

/// A request's failure before the first byte of its answer: an ordinary HTTP response.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    headers: Box<HeaderMap>,
    body: Bytes,
}

impl ApiError {
    /// An error of our own, with the status that is usual for its kind.
    pub(crate) fn new(kind: ApiErrorKind, message: &str) -> Self {
        Self::with_status(ApiErrorKind::status_for_name(kind.name()), kind, message)
    }

    /// An error of our own whose status differs from the usual one.
    pub(crate) fn with_status(status: StatusCode, kind: ApiErrorKind, message: &str) -> Self {
        Self { status, headers: Box::default(), body: error_body(kind, message) }
    }

    /// An error that an upstream already put into an envelope.
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
    fn every_kind_survives_the_way_over_its_status() {
        for (kind, name, status) in ERROR_KINDS {
            assert_eq!(ApiErrorKind::from_status(StatusCode::from_u16(status).unwrap()), kind);
            assert_eq!(ApiErrorKind::status_for_name(name).as_u16(), status);
        }
    }

    #[test]
    fn statuses_without_a_kind_fall_to_the_side_that_they_accuse() {
        assert_eq!(ApiErrorKind::from_status(StatusCode::CONFLICT), ApiErrorKind::InvalidRequest);
        assert_eq!(ApiErrorKind::from_status(StatusCode::BAD_GATEWAY), ApiErrorKind::Api);
    }

    #[test]
    fn only_a_whole_envelope_counts_as_one() {
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
