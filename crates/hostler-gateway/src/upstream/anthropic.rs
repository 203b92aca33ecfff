//! Upstream for any Messages API server: requests and events pass as bytes; the credential is added here.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hostler_redact::{host_and_port, redact_json_error};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::RequestBuilder;
use secrecy::ExposeSecret;
use serde::Deserialize;
use url::Url;

use super::http_client::{self as over_http, HttpClient, UpstreamTimeouts};
use super::{
    BetaPolicy, UnknownModelPolicy, Upstream, UpstreamCapabilities, UpstreamError, UpstreamModel, UpstreamRequest,
    UpstreamResponse,
};
use crate::credential::{CredentialSource, CredentialStatus, FixedCredential};

/// API version for the gateway's own calls, which have no client's version.
const API_VERSION: &str = "2023-06-01";

/// How the credential is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CredentialHeader {
    /// As `x-api-key`.
    #[default]
    ApiKey,
    /// As `authorization: Bearer …`.
    Bearer,
}

/// Configuration of a Messages API server.
#[derive(Clone)]
pub struct AnthropicConfig {
    /// URL before `/v1/messages`.
    pub base_url: Url,
    /// Source of the credential.
    pub credential: Arc<dyn CredentialSource>,
    /// How the credential is sent.
    pub credential_header: CredentialHeader,
    /// Timeouts for the server.
    pub timeouts: UpstreamTimeouts,
}

impl AnthropicConfig {
    /// A server without a credential, with default timeouts.
    #[must_use]
    pub fn new(base_url: Url) -> Self {
        Self {
            base_url,
            credential: Arc::new(FixedCredential::default()),
            credential_header: CredentialHeader::default(),
            timeouts: UpstreamTimeouts::default(),
        }
    }
}

/// The URL may contain a password, so only its host is shown.
impl fmt::Debug for AnthropicConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicConfig")
            .field("host", &host_and_port(&self.base_url))
            .field("credential", &self.credential)
            .finish_non_exhaustive()
    }
}

/// The upstream for any Messages API server.
#[derive(Debug)]
pub struct AnthropicUpstream {
    http: HttpClient,
    credential: Arc<dyn CredentialSource>,
    credential_header: CredentialHeader,
}

impl AnthropicUpstream {
    /// Creates the upstream without connecting.
    #[must_use]
    pub fn new(config: AnthropicConfig) -> Self {
        Self {
            http: HttpClient::new(config.base_url, config.timeouts),
            credential: config.credential,
            credential_header: config.credential_header,
        }
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> Result<RequestBuilder, UpstreamError> {
        let mut headers = HeaderMap::new();
        if let Some(secret) = self.credential.current()? {
            match self.credential_header {
                CredentialHeader::ApiKey => {
                    headers.insert("x-api-key", over_http::secret_header_value(secret.expose_secret())?);
                }
                CredentialHeader::Bearer => {
                    let bearer = format!("Bearer {}", secret.expose_secret());
                    headers.insert(header::AUTHORIZATION, over_http::secret_header_value(&bearer)?);
                }
            }
        }
        Ok(self.http.request(method, path, query)?.headers(headers))
    }

    /// One attempt of a client's request.
    async fn post(&self, path: &[&str], call: &UpstreamRequest) -> Result<UpstreamResponse, UpstreamError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(version) = &call.version {
            headers.insert("anthropic-version", version.clone());
        }
        if !call.betas.is_empty() {
            headers.insert("anthropic-beta", over_http::header_value(&call.betas.join(","), "anthropic-beta")?);
        }
        let query: &[(&str, &str)] = if call.beta_endpoint { &[("beta", "true")] } else { &[] };
        let request = self.request(Method::POST, path, query)?.headers(headers).body(call.body.clone());
        over_http::read_response(self.send(request).await?, call.stream).await
    }

    async fn send(&self, request: RequestBuilder) -> Result<reqwest::Response, UpstreamError> {
        let sent = over_http::send(request, |body| self.redact(body)).await;
        if let Err(UpstreamError::ErrorResponse(refusal)) = &sent
            && refusal.status == StatusCode::UNAUTHORIZED
            && let Ok(Some(secret)) = self.credential.current()
        {
            self.credential.mark_rejected(&secret);
        }
        sent
    }

    /// Fetches all pages of the model list, in the server's order.
    async fn list_models(&self) -> Result<Vec<UpstreamModel>, UpstreamError> {
        let mut models = Vec::new();
        let mut after: Option<String> = None;
        for _ in 0..MAX_MODEL_PAGES {
            let mut query = vec![("limit", "1000")];
            query.extend(after.as_deref().map(|after| ("after_id", after)));
            let request =
                self.request(Method::GET, &["v1", "models"], &query)?.header("anthropic-version", API_VERSION);
            let body = over_http::read_body(self.send(request).await?).await?;
            let page: ModelsPage = serde_json::from_slice(&body).map_err(|error| UpstreamError::InvalidResponse {
                reason: format!("invalid model list: {}", redact_json_error(&error)),
            })?;
            models.extend(page.data.into_iter().map(|listed| UpstreamModel {
                name: listed.display_name.unwrap_or_else(|| listed.id.clone()),
                id: listed.id,
                context_window: listed.max_input_tokens,
                max_output: listed.max_tokens,
                vision: None,
            }));
            after = page.last_id.filter(|_| page.has_more);
            if after.is_none() {
                break;
            }
        }
        Ok(models)
    }
}

/// Maximum number of pages that are fetched.
const MAX_MODEL_PAGES: usize = 20;

#[derive(Deserialize)]
struct ModelsPage {
    data: Vec<ListedModel>,
    #[serde(default)]
    has_more: bool,
    last_id: Option<String>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
    display_name: Option<String>,
    max_input_tokens: Option<u64>,
    max_tokens: Option<u64>,
}

impl Upstream for AnthropicUpstream {
    fn kind(&self) -> &'static str {
        "anthropic"
    }

    fn capabilities(&self) -> UpstreamCapabilities {
        UpstreamCapabilities { betas: BetaPolicy::All, unknown_models: UnknownModelPolicy::RejectIfListKnown }
    }

    fn messages(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        async move { over_http::with_retries(|| self.post(&["v1", "messages"], &call)).await }.boxed()
    }

    fn count_tokens(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        async move { over_http::with_retries(|| self.post(&["v1", "messages", "count_tokens"], &call)).await }.boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        self.list_models().boxed()
    }

    fn supports_web_search(&self) -> bool {
        true
    }

    fn credential_status(&self) -> CredentialStatus {
        self.credential.status()
    }

    fn redact(&self, text: Bytes) -> Bytes {
        match self.credential.current() {
            Ok(Some(secret)) => super::redact_secret(text, &secret),
            Ok(None) | Err(_) => text,
        }
    }
}
