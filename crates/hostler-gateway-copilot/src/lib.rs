//! Upstream for GitHub Copilot: a GitHub token is exchanged for a temporary key, with which Copilot serves the Messages
//! API.
//!
//! `access_manager` holds the key and shares one attempt to get the next among all callers, `github_api` gets it, and
//! `device_login` obtains the GitHub token from a person.

#![forbid(unsafe_code)]

mod access;
mod access_lifetime;
mod access_manager;
mod device_login;
mod error_message;
mod github_api;
mod models;
mod wall_clock;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hostler_gateway::upstream_support::http_client::{self as over_http, RequestBuilder, Response};
use hostler_gateway::upstream_support::{ApiErrorKind, error_body, error_body_kind, upstream_failure_message};
use hostler_gateway::{
    BetaPolicy, CredentialSource, CredentialStatus, ProtectedResource, SignInStore, UnknownModelPolicy, Upstream,
    UpstreamCapabilities, UpstreamError, UpstreamModel, UpstreamRequest, UpstreamResponse, UpstreamTimeouts,
};
use hostler_redact::host_and_port;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use self::access::CopilotAccess;
use self::access_manager::CopilotAccessManager;
use self::github_api::GitHubApi;

pub use self::device_login::{DeviceCode, DeviceLoginConfig, DeviceLoginError, device_login, device_login_with_clock};
pub use self::wall_clock::{SystemWallClock, WallClock};

/// GitHub's API; GitHub Enterprise has its own.
pub const GITHUB_API_URL: &str = "https://api.github.com";
/// GitHub's sign-in pages; GitHub Enterprise has its own.
pub const GITHUB_URL: &str = "https://github.com";
/// API version of GitHub and Copilot that this code uses.
const API_VERSION: &str = "2025-04-01";
const EDITOR_VERSION: &str = concat!("hostler/", env!("CARGO_PKG_VERSION"));

/// What is sent to Copilot as the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopilotMode {
    /// A key that the GitHub token is exchanged for; if there is no exchange, the GitHub token.
    #[default]
    Exchange,
    /// The GitHub token.
    Token,
}

/// Configuration of the Copilot upstream.
#[derive(Clone)]
pub struct CopilotConfig {
    /// GitHub's API, usually [`GITHUB_API_URL`].
    pub github_api_url: Url,
    /// Copilot's API; discovered through GitHub if absent.
    pub api_url: Option<Url>,
    /// GitHub's sign-in URL, usually [`GITHUB_URL`]; the issuer of tokens that clients provide.
    pub github_url: Option<Url>,
    /// Source of the GitHub token.
    pub github_token: Arc<dyn CredentialSource>,
    /// Store of clients' tokens, if clients may sign in.
    pub sign_ins: Option<Arc<SignInStore>>,
    /// What is sent as the key.
    pub mode: CopilotMode,
    /// Value of `copilot-integration-id`, if any.
    pub integration_id: Option<String>,
    /// Value of `editor-version`, without which Copilot rejects exchanged keys.
    pub editor_version: String,
    /// Value of `x-github-api-version`.
    pub api_version: String,
    /// Timeouts for GitHub and Copilot.
    pub timeouts: UpstreamTimeouts,
}

impl CopilotConfig {
    /// The default configuration: exchange, discovery, no integration id, and Hostler's editor version.
    #[must_use]
    pub fn new(github_api_url: Url, github_token: Arc<dyn CredentialSource>) -> Self {
        Self {
            github_api_url,
            api_url: None,
            github_url: None,
            github_token,
            sign_ins: None,
            mode: CopilotMode::default(),
            integration_id: None,
            editor_version: EDITOR_VERSION.to_owned(),
            api_version: API_VERSION.to_owned(),
            timeouts: UpstreamTimeouts::default(),
        }
    }
}

/// The URLs may contain a password, so only their hosts are shown.
impl fmt::Debug for CopilotConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopilotConfig")
            .field("github", &host_and_port(&self.github_api_url))
            .field("api", &self.api_url.as_ref().map(host_and_port))
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// Why a configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopilotConfigError {
    /// A setting is not a valid header value.
    #[error("{setting} of the copilot upstream must be one line of plain text")]
    InvalidHeader {
        /// The setting.
        setting: &'static str,
    },
    /// A URL cannot be used for requests.
    #[error("{setting} of the copilot upstream must be an http or https URL")]
    InvalidUrl {
        /// The setting.
        setting: &'static str,
    },
}

impl CopilotConfigError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidHeader { .. } => "invalidHeaderValue",
            Self::InvalidUrl { .. } => "invalidUrl",
        }
    }
}

/// The upstream for GitHub Copilot.
pub struct CopilotUpstream {
    access_manager: CopilotAccessManager,
    /// Headers of every request.
    headers: HeaderMap,
    /// What clients sign in to, if they may.
    protected_resource: Option<ProtectedResource>,
}

impl CopilotUpstream {
    /// Creates the upstream without connecting.
    ///
    /// # Errors
    /// If the configuration contains an invalid header or URL.
    pub fn new(config: CopilotConfig) -> Result<Self, CopilotConfigError> {
        Self::with_clock(config, Arc::new(SystemWallClock))
    }

    /// Creates the upstream with another clock.
    ///
    /// # Errors
    /// If the configuration contains an invalid header or URL.
    pub fn with_clock(config: CopilotConfig, clock: Arc<dyn WallClock>) -> Result<Self, CopilotConfigError> {
        let urls = [("github_api_url", Some(&config.github_api_url)), ("api_url", config.api_url.as_ref())];
        for (setting, url) in urls {
            if url.is_some_and(|url| !["http", "https"].contains(&url.scheme())) {
                return Err(CopilotConfigError::InvalidUrl { setting });
            }
        }
        let headers = request_headers(&config)?;
        let github = GitHubApi::new(&config, headers.clone());
        let (resource, credential) = match &config.sign_ins {
            Some(sign_ins) => {
                let resource = resource(&config);
                let source = sign_ins.credential_source(&resource.id, config.github_token);
                (Some(resource), Arc::new(source) as Arc<dyn CredentialSource>)
            }
            None => (None, config.github_token),
        };
        Ok(Self {
            access_manager: CopilotAccessManager::new(github, credential, clock),
            headers,
            protected_resource: resource,
        })
    }

    /// Makes a call, and repeats it once with a new access if the first one was rejected. If the GitHub token is the
    /// key and was rejected both times, the token is marked as rejected; if there is another token, that one is tried,
    /// too.
    async fn with_access<T, F>(&self, call: impl Fn(Arc<CopilotAccess>) -> F) -> Result<T, UpstreamError>
    where
        F: Future<Output = Result<T, UpstreamError>>,
    {
        let (mut again, mut another) = (false, false);
        loop {
            let access = self.access_manager.current().await?;
            let outcome = over_http::with_retries(|| call(Arc::clone(&access))).await;
            let Some(status) = auth_failure_status(&outcome) else {
                if outcome.is_ok() && access.uses_github_token() {
                    self.access_manager.mark_token_accepted(&access);
                }
                return outcome;
            };
            self.access_manager.discard(&access);
            if !again {
                again = true;
                continue;
            }
            // Other statuses than 401 may concern the model, the account's policy or the address, so the token stays.
            let is_over = status == StatusCode::UNAUTHORIZED && access.uses_github_token();
            if !is_over || !self.access_manager.reject_token(&access) || another {
                return outcome;
            }
            (again, another) = (false, true);
        }
    }

    fn request(&self, access: &CopilotAccess, method: Method, path: &[&str]) -> Result<RequestBuilder, UpstreamError> {
        let bearer = over_http::secret_header_value(&format!("Bearer {}", access.key.expose_secret()))?;
        let request = access.api.request(method, path, &[])?;
        Ok(request.headers(self.headers.clone()).header(header::AUTHORIZATION, bearer))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, UpstreamError> {
        over_http::send(request, |body| self.redact(body)).await.map_err(wrap_error_body)
    }

    async fn post(&self, access: &CopilotAccess, call: &UpstreamRequest) -> Result<UpstreamResponse, UpstreamError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(version) = &call.version {
            headers.insert("anthropic-version", version.clone());
        }
        if !call.betas.is_empty() {
            headers.insert("anthropic-beta", over_http::header_value(&call.betas.join(","), "anthropic-beta")?);
        }
        let request = self.request(access, Method::POST, &["v1", "messages"])?.headers(headers).body(call.body.clone());
        let response = self.send(request).await?;
        over_http::read_response(response, call.stream).await
    }

    async fn list_models(&self, access: &CopilotAccess) -> Result<Vec<UpstreamModel>, UpstreamError> {
        let request = self.request(access, Method::GET, &["models"])?;
        let body = over_http::read_body(self.send(request).await?).await?;
        models::parse_models(&body).map_err(|_| UpstreamError::InvalidResponse {
            reason: "Copilot's model list has an unexpected format".to_owned(),
        })
    }
}

impl Upstream for CopilotUpstream {
    fn kind(&self) -> &'static str {
        "copilot"
    }

    fn capabilities(&self) -> UpstreamCapabilities {
        UpstreamCapabilities { betas: BetaPolicy::Allowed, unknown_models: UnknownModelPolicy::Reject }
    }

    fn messages(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        async move {
            let call = &call;
            self.with_access(|access| async move { self.post(&access, call).await }).await
        }
        .boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        self.with_access(move |access| async move { self.list_models(&access).await }).boxed()
    }

    fn credential_status(&self) -> CredentialStatus {
        self.access_manager.credential_status()
    }

    fn protected_resource(&self) -> Option<ProtectedResource> {
        self.protected_resource.clone()
    }

    fn verify_token(&self, token: SecretString) -> BoxFuture<'_, Result<(), UpstreamError>> {
        async move {
            let _trying = self.access_manager.begin_token_check(&token);
            let access = self.access_manager.check_token(&token).await?;
            // If the token is the key, it may not have been verified by any server yet.
            if access.uses_github_token() {
                self.list_models(&access).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn redact(&self, text: Bytes) -> Bytes {
        self.access_manager.redact(text)
    }
}

impl fmt::Debug for CopilotUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CopilotUpstream").field(&self.access_manager).finish()
    }
}

/// The status with which Copilot rejected the key or this address.
fn auth_failure_status<T>(outcome: &Result<T, UpstreamError>) -> Option<StatusCode> {
    match outcome {
        Err(UpstreamError::ErrorResponse(refusal)) => {
            Some(refusal.status).filter(|status| [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(status))
        }
        _ => None,
    }
}

/// Wraps Copilot's errors, which have other formats, in the envelope of the Messages API, with their message.
fn wrap_error_body(error: UpstreamError) -> UpstreamError {
    match error {
        UpstreamError::ErrorResponse(mut refusal) if error_body_kind(&refusal.body).is_none() => {
            if let Some(message) = error_message::sentence(&refusal.body) {
                let kind = ApiErrorKind::from_status(refusal.status);
                let reason = format!("Copilot returned status {}: {message}", refusal.status);
                refusal.body = error_body(kind, &upstream_failure_message(kind, reason));
            }
            UpstreamError::ErrorResponse(refusal)
        }
        other => other,
    }
}

/// The resource of the configured GitHub: a token is sent only to the GitHub that issued it.
fn resource(config: &CopilotConfig) -> ProtectedResource {
    let bare = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
    let web = config.github_url.as_ref().map_or_else(|| GITHUB_URL.to_owned(), bare);
    ProtectedResource {
        id: bare(&config.github_api_url),
        name: "GitHub Copilot".to_owned(),
        authorization_server: format!("{web}/login/oauth"),
        scopes: ["read:user", "user:email"].map(str::to_owned).into(),
    }
}

fn request_headers(config: &CopilotConfig) -> Result<HeaderMap, CopilotConfigError> {
    let mut headers = HeaderMap::new();
    for (name, setting, text) in [
        ("copilot-integration-id", "integration_id", config.integration_id.as_deref()),
        ("editor-version", "editor_version", Some(config.editor_version.as_str())),
        ("x-github-api-version", "api_version", Some(config.api_version.as_str())),
    ] {
        if let Some(text) = text {
            let value = HeaderValue::from_str(text).map_err(|_| CopilotConfigError::InvalidHeader { setting })?;
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    Ok(headers)
}
