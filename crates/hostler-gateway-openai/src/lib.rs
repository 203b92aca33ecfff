//! Upstream for any chat-completions server: OpenAI, vLLM, Ollama, llama.cpp, OpenRouter and many more.
//!
//! Pure functions translate requests (`request`, with `conversation`, `input_block` and `tools`) and responses
//! (`response`, `stream`). `docs/upstreams.md` lists what they translate, ignore and reject. Only this file knows HTTP.

#![forbid(unsafe_code)]

mod arguments_scanner;
mod chat_completions;
mod content_block_writer;
mod conversation;
mod dialect;
mod finish_reason;
mod input_block;
mod messages_response;
mod models;
mod request;
mod request_body_fields;
mod response;
mod server_error;
mod stream;
mod tool_call_ids;
mod tools;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream as streams};
use hostler_gateway::upstream_support::http_client::{self as over_http, HttpClient, RequestBuilder, Response};
use hostler_gateway::upstream_support::{ApiErrorKind, error_body, redact_secret};
use hostler_gateway::{
    BetaPolicy, CredentialSource, CredentialStatus, EventByteStream, FixedCredential, UnknownModelPolicy, Upstream,
    UpstreamCapabilities, UpstreamError, UpstreamErrorResponse, UpstreamModel, UpstreamRequest, UpstreamResponse,
    UpstreamResponseBody, UpstreamTimeouts,
};
use hostler_redact::host_and_port;
use http::{HeaderMap, Method, StatusCode, header};
use secrecy::ExposeSecret;
use url::Url;
use uuid::Uuid;

pub use self::dialect::{ChatDialect, LateSystemRole, TokenLimitField};
use self::request::TranslatedRequest;
use self::request_body_fields::UnsupportedRequest;
use self::stream::StreamTranslator;

/// Maximum time to wait for the end of the connection's bytes after the last event.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Configuration of a chat-completions server.
#[derive(Clone)]
pub struct OpenAiConfig {
    /// URL before `/chat/completions`; a URL without a path means `/v1`.
    pub base_url: Url,
    /// Source of the key, which is sent as a bearer.
    pub credential: Arc<dyn CredentialSource>,
    /// What the server supports.
    pub dialect: ChatDialect,
    /// Timeouts for the server.
    pub timeouts: UpstreamTimeouts,
}

impl OpenAiConfig {
    /// A server without a key, with the dialect for its URL and default timeouts.
    #[must_use]
    pub fn new(base_url: Url) -> Self {
        Self {
            dialect: ChatDialect::for_url(&base_url),
            base_url,
            credential: Arc::new(FixedCredential::default()),
            timeouts: UpstreamTimeouts::default(),
        }
    }
}

/// The URL may contain a password, so only its host is shown.
impl fmt::Debug for OpenAiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiConfig")
            .field("host", &host_and_port(&self.base_url))
            .field("credential", &self.credential)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

/// The upstream for any chat-completions server.
#[derive(Debug)]
pub struct OpenAiUpstream {
    http: HttpClient,
    credential: Arc<dyn CredentialSource>,
    dialect: ChatDialect,
}

impl OpenAiUpstream {
    /// Creates the upstream without connecting.
    #[must_use]
    pub fn new(config: OpenAiConfig) -> Self {
        let OpenAiConfig { mut base_url, credential, dialect, timeouts } = config;
        if matches!(base_url.path(), "" | "/") {
            base_url.set_path("/v1");
        }
        Self { http: HttpClient::new(base_url, timeouts), credential, dialect }
    }

    async fn send_messages(&self, call: UpstreamRequest) -> Result<UpstreamResponse, UpstreamError> {
        let TranslatedRequest { body, response_context: expected } =
            request::translate_request(&call.body, &call.model, call.stream, self.dialect)?;
        let answer = over_http::with_retries(|| self.post(&body, call.stream)).await.map_err(wrap_error_body)?;
        let id = format!("msg_{}", Uuid::new_v4().simple());
        let body = match answer.body {
            UpstreamResponseBody::Whole(body) => {
                let message = response::translate_response(&body, &id, &call.model, expected);
                UpstreamResponseBody::Whole(message.map_err(|error| redact_error(error, &*self.credential))?)
            }
            UpstreamResponseBody::Events(chunks) => UpstreamResponseBody::Events(
                self.translate_stream(chunks, StreamTranslator::new(id, call.model, expected)),
            ),
        };
        Ok(UpstreamResponse { headers: answer.headers, body })
    }

    /// One attempt.
    async fn post(&self, body: &Bytes, stream: bool) -> Result<UpstreamResponse, UpstreamError> {
        let request = self.request(Method::POST, &["chat", "completions"])?;
        let request = request.header(header::CONTENT_TYPE, "application/json").body(body.clone());
        over_http::read_response(self.send(request).await?, stream).await
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, UpstreamError> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.credential.current()? {
            let bearer = format!("Bearer {}", key.expose_secret());
            headers.insert(header::AUTHORIZATION, over_http::secret_header_value(&bearer)?);
        }
        Ok(self.http.request(method, path, &[])?.headers(headers))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, UpstreamError> {
        let sent = over_http::send(request, |body| self.redact(body)).await;
        if let Err(UpstreamError::ErrorResponse(refusal)) = &sent
            && refusal.status == StatusCode::UNAUTHORIZED
            && let Ok(Some(secret)) = self.credential.current()
        {
            self.credential.mark_rejected(&secret);
        }
        sent
    }

    /// Translates a stream. It has no task: it is read when the client accepts more data.
    fn translate_stream(&self, chunks: EventByteStream, translator: StreamTranslator) -> EventByteStream {
        let credential = Arc::clone(&self.credential);
        streams::unfold((chunks, translator, credential), |(mut chunks, mut translator, credential)| async move {
            loop {
                match translator.take_outcome() {
                    Some(Ok(())) => {
                        drain(chunks).await;
                        return None;
                    }
                    Some(Err(error)) => {
                        return Some((Err(redact_error(error, &*credential)), (chunks, translator, credential)));
                    }
                    None => {}
                }
                let events = match chunks.next().await {
                    Some(Ok(chunk)) => translator.push(chunk),
                    Some(Err(error)) => {
                        translator.abort();
                        return Some((Err(error), (chunks, translator, credential)));
                    }
                    None => translator.finish(),
                };
                if !events.is_empty() {
                    return Some((Ok(events), (chunks, translator, credential)));
                }
            }
        })
        .boxed()
    }

    async fn list_models(&self) -> Result<Vec<UpstreamModel>, UpstreamError> {
        let response = self.send(self.request(Method::GET, &["models"])?).await.map_err(wrap_error_body)?;
        models::parse_models(&over_http::read_body(response).await?)
    }
}

impl Upstream for OpenAiUpstream {
    fn kind(&self) -> &'static str {
        "openai"
    }

    fn capabilities(&self) -> UpstreamCapabilities {
        UpstreamCapabilities { betas: BetaPolicy::None, unknown_models: UnknownModelPolicy::RejectIfListKnown }
    }

    fn messages(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        self.send_messages(call).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        self.list_models().boxed()
    }

    fn credential_status(&self) -> CredentialStatus {
        self.credential.status()
    }

    fn redact(&self, text: Bytes) -> Bytes {
        redact_key(text, &*self.credential)
    }
}

impl From<UnsupportedRequest> for UpstreamError {
    fn from(error: UnsupportedRequest) -> Self {
        let body = error_body(ApiErrorKind::InvalidRequest, &error.to_string());
        Self::from(UpstreamErrorResponse { status: StatusCode::BAD_REQUEST, headers: HeaderMap::new(), body })
    }
}

/// Reads the bytes after the last event, which is only the end of the body: a connection that is dropped before it
/// cannot be reused.
async fn drain(mut chunks: EventByteStream) {
    let reading = async { while let Some(Ok(_)) = chunks.next().await {} };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, reading).await;
}

/// Wraps the server's error in the envelope of the Messages API.
fn wrap_error_body(error: UpstreamError) -> UpstreamError {
    match error {
        UpstreamError::ErrorResponse(refusal) => server_error::wrap_error_body(*refusal).into(),
        other => other,
    }
}

/// Removes the key from an error that the server reported with a success status.
fn redact_error(error: UpstreamError, credential: &dyn CredentialSource) -> UpstreamError {
    match error {
        UpstreamError::ErrorResponse(refusal) => {
            let body = redact_key(refusal.body, credential);
            UpstreamErrorResponse { body, ..*refusal }.into()
        }
        other => other,
    }
}

fn redact_key(text: Bytes, credential: &dyn CredentialSource) -> Bytes {
    match credential.current() {
        Ok(Some(key)) => redact_secret(text, &key),
        Ok(None) | Err(_) => text,
    }
}

#[cfg(test)]
mod tests;
