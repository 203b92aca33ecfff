//! Translates servers' errors into the envelope of the Messages API.

use std::borrow::Cow;

use bytes::Bytes;
use hostler_gateway::upstream_support::{ApiErrorKind, error_body};
use hostler_gateway::{UpstreamError, UpstreamErrorResponse};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chat_completions;

/// A parsed error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerError {
    pub(super) kind: ApiErrorKind,
    pub(super) message: String,
    status: StatusCode,
}

/// Known formats: OpenAI's, a bare string, vLLM's old one, FastAPI's.
#[derive(Deserialize)]
struct ErrorBody<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct ErrorObject<'a> {
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
}

/// Wraps the message of an error body in an envelope; a body without a message is unchanged.
pub(super) fn wrap_error_body(refusal: UpstreamErrorResponse) -> UpstreamErrorResponse {
    let parsed = serde_json::from_slice::<ErrorBody<'_>>(&refusal.body).ok().and_then(|body| {
        let error = body.error.or(body.message).or(body.detail)?;
        ServerError::parse(error, refusal.status)
    });
    match parsed {
        Some(parsed) => UpstreamErrorResponse { body: error_body(parsed.kind, &parsed.message), ..refusal },
        None => refusal,
    }
}

/// Parses an error in place of a response; it has a status only if its code is one.
pub(super) fn parse_server_error(error: &RawValue) -> ServerError {
    ServerError::parse(error, StatusCode::INTERNAL_SERVER_ERROR).unwrap_or_else(|| ServerError {
        kind: ApiErrorKind::Api,
        message: "The upstream returned an error without a message.".to_owned(),
        status: StatusCode::INTERNAL_SERVER_ERROR,
    })
}

impl ServerError {
    fn parse(error: &RawValue, status: StatusCode) -> Option<Self> {
        let object = match chat_completions::as_string(error) {
            Some(message) => ErrorObject { message: Some(message), ..ErrorObject::default() },
            None => serde_json::from_str(error.get()).ok()?,
        };
        let message = object.message.filter(|message| !message.is_empty())?;
        let code_status = object
            .code
            .and_then(|code| code.get().trim_matches('"').parse::<u16>().ok())
            .and_then(|code| StatusCode::from_u16(code).ok())
            .filter(|code| code.is_client_error() || code.is_server_error());
        let status = if status == StatusCode::INTERNAL_SERVER_ERROR { code_status.unwrap_or(status) } else { status };
        let named = |raw: Option<&RawValue>, name: &str| {
            raw.and_then(chat_completions::as_string).is_some_and(|text| text == name)
        };
        let is_too_long = named(object.code, "context_length_exceeded")
            || named(object.kind, "exceed_context_size_error")
            || message.contains("maximum context length");
        // Agents recognize this text of the Messages API and compact the conversation.
        let message = if is_too_long { format!("prompt is too long: {message}") } else { message.into_owned() };
        Some(Self { kind: ApiErrorKind::from_status(status), message, status })
    }
}

impl From<ServerError> for UpstreamError {
    fn from(error: ServerError) -> Self {
        let body: Bytes = error_body(error.kind, &error.message);
        Self::from(UpstreamErrorResponse { status: error.status, headers: HeaderMap::new(), body })
    }
}
