//! Any server that speaks chat completions: OpenAI, vLLM, Ollama, llama.cpp, OpenRouter and many more.
//!
//! Requests and answers are translated by pure functions: `request` (with `conversation`, `block` and `tools`) one
//! way, `response` and `stream` the other. What they carry over, ignore and refuse is told in `docs/upstreams.md`.
//! Only this file knows HTTP.

mod answer;
mod arguments;
mod block;
mod blocks;
mod call_ids;
mod conversation;
mod dialect;
mod failure;
mod fields;
mod finish;
mod list;
mod request;
mod response;
mod stream;
mod tools;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, Method, StatusCode, header};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream as streams};
use hostler_redact::place;
use reqwest::{RequestBuilder, Response};
use secrecy::ExposeSecret;
use url::Url;
use uuid::Uuid;

pub use self::dialect::{Dialect, LaterSystem, TokenLimit};
use self::fields::Inexpressible;
use self::request::Translated;
use self::stream::StreamTranslator;
use super::http::{self as over_http, HttpClient, Timeouts};
use super::{
    AnswerBody, Betas, EventBytes, Manners, Refusal, UnknownModels, Upstream, UpstreamAnswer, UpstreamCall,
    UpstreamError, UpstreamModel,
};
use crate::credential::{CredentialSource, FixedCredential, Standing};
use crate::error::{self, ErrorKind};

/// How long the end of a connection's bytes is waited for behind the last event.
const READ_OUT_TIME: Duration = Duration::from_millis(250);

/// How to reach a chat-completions server.
#[derive(Clone)]
pub struct OpenAiConfig {
    /// What stands before `/chat/completions`; a URL without a path means `/v1`.
    pub base_url: Url,
    /// Where the key comes from, which is sent as a bearer.
    pub credential: Arc<dyn CredentialSource>,
    /// What the server understands.
    pub dialect: Dialect,
    /// How long the server may take.
    pub timeouts: Timeouts,
}

impl OpenAiConfig {
    /// A server that needs no key, with the dialect that its URL suggests and the usual limits.
    #[must_use]
    pub fn new(base_url: Url) -> Self {
        Self {
            dialect: Dialect::of(&base_url),
            base_url,
            credential: Arc::new(FixedCredential::default()),
            timeouts: Timeouts::default(),
        }
    }
}

/// The URL may hold a password: only its host is shown.
impl fmt::Debug for OpenAiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiConfig")
            .field("host", &place(&self.base_url))
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
    dialect: Dialect,
}

impl OpenAiUpstream {
    /// An upstream that has not connected yet.
    #[must_use]
    pub fn new(config: OpenAiConfig) -> Self {
        let OpenAiConfig { mut base_url, credential, dialect, timeouts } = config;
        if matches!(base_url.path(), "" | "/") {
            base_url.set_path("/v1");
        }
        Self { http: HttpClient::new(base_url, timeouts), credential, dialect }
    }

    async fn ask(&self, call: UpstreamCall) -> Result<UpstreamAnswer, UpstreamError> {
        let Translated { body, expected } = request::translate(&call.body, &call.model, call.stream, self.dialect)?;
        let answer = over_http::with_retries(|| self.post(&body, call.stream)).await.map_err(enveloped)?;
        let id = format!("msg_{}", Uuid::new_v4().simple());
        let body = match answer.body {
            AnswerBody::Whole(body) => {
                let message = response::translate(&body, &id, &call.model, expected);
                AnswerBody::Whole(message.map_err(|error| redacted(error, &*self.credential))?)
            }
            AnswerBody::Events(chunks) => {
                AnswerBody::Events(self.events(chunks, StreamTranslator::new(id, call.model, expected)))
            }
        };
        Ok(UpstreamAnswer { headers: answer.headers, body })
    }

    /// One try.
    async fn post(&self, body: &Bytes, stream: bool) -> Result<UpstreamAnswer, UpstreamError> {
        let request = self.request(Method::POST, &["chat", "completions"])?;
        let request = request.header(header::CONTENT_TYPE, "application/json").body(body.clone());
        over_http::answer(self.send(request).await?, stream).await
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, UpstreamError> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.credential.current()? {
            let bearer = format!("Bearer {}", key.expose_secret());
            headers.insert(header::AUTHORIZATION, over_http::secret_value(&bearer)?);
        }
        Ok(self.http.request(method, path, &[])?.headers(headers))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, UpstreamError> {
        let sent = over_http::send(request, |body| self.redact(body)).await;
        if let Err(UpstreamError::Refused(refusal)) = &sent
            && refusal.status == StatusCode::UNAUTHORIZED
            && let Ok(Some(secret)) = self.credential.current()
        {
            self.credential.refused(&secret);
        }
        sent
    }

    /// The translated stream. Nothing runs beside it: it is read when the client can take more.
    fn events(&self, chunks: EventBytes, translator: StreamTranslator) -> EventBytes {
        let credential = Arc::clone(&self.credential);
        streams::unfold((chunks, translator, credential), |(mut chunks, mut translator, credential)| async move {
            loop {
                match translator.outcome() {
                    Some(Ok(())) => {
                        read_out(chunks).await;
                        return None;
                    }
                    Some(Err(error)) => {
                        return Some((Err(redacted(error, &*credential)), (chunks, translator, credential)));
                    }
                    None => {}
                }
                let events = match chunks.next().await {
                    Some(Ok(chunk)) => translator.push(chunk),
                    Some(Err(error)) => {
                        translator.give_up();
                        return Some((Err(error), (chunks, translator, credential)));
                    }
                    None => translator.end(),
                };
                if !events.is_empty() {
                    return Some((Ok(events), (chunks, translator, credential)));
                }
            }
        })
        .boxed()
    }

    async fn list(&self) -> Result<Vec<UpstreamModel>, UpstreamError> {
        let response = self.send(self.request(Method::GET, &["models"])?).await.map_err(enveloped)?;
        list::read(&over_http::whole(response).await?)
    }
}

impl Upstream for OpenAiUpstream {
    fn kind(&self) -> &'static str {
        "openai"
    }

    fn manners(&self) -> Manners {
        Manners { betas: Betas::None, unknown_models: UnknownModels::RefuseIfListed }
    }

    fn messages(&self, call: UpstreamCall) -> BoxFuture<'_, Result<UpstreamAnswer, UpstreamError>> {
        self.ask(call).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        self.list().boxed()
    }

    fn standing(&self) -> Standing {
        self.credential.standing()
    }

    fn redact(&self, text: Bytes) -> Bytes {
        without_key(text, &*self.credential)
    }
}

impl From<Inexpressible> for UpstreamError {
    fn from(error: Inexpressible) -> Self {
        let body = error::envelope(ErrorKind::InvalidRequest, &error.to_string());
        Self::from(Refusal { status: StatusCode::BAD_REQUEST, headers: HeaderMap::new(), body })
    }
}

/// Reads what follows the last event, which is nothing but the end: a connection that is dropped before it cannot be used
/// for the next call.
async fn read_out(mut chunks: EventBytes) {
    let reading = async { while let Some(Ok(_)) = chunks.next().await {} };
    let _ = tokio::time::timeout(READ_OUT_TIME, reading).await;
}

/// Puts what the server said about an error into the Messages API's envelope.
fn enveloped(error: UpstreamError) -> UpstreamError {
    match error {
        UpstreamError::Refused(refusal) => failure::enveloped(*refusal).into(),
        other => other,
    }
}

/// Takes the key out of an error that the server told with a success status.
fn redacted(error: UpstreamError, credential: &dyn CredentialSource) -> UpstreamError {
    match error {
        UpstreamError::Refused(refusal) => {
            let body = without_key(refusal.body, credential);
            Refusal { body, ..*refusal }.into()
        }
        other => other,
    }
}

fn without_key(text: Bytes, credential: &dyn CredentialSource) -> Bytes {
    match credential.current() {
        Ok(Some(key)) => super::redact(text, &key),
        Ok(None) | Err(_) => text,
    }
}

#[cfg(test)]
mod tests;
