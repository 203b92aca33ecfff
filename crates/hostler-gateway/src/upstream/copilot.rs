//! GitHub Copilot: a GitHub token buys a key for a while, and with the key Copilot speaks the Messages API.
//!
//! `accesses` holds the key and shares one attempt to get the next among all callers, `github` is how it is got,
//! `login` is how a person gets the GitHub token in the first place.

mod access;
mod accesses;
mod clock;
mod github;
mod lifetime;
mod login;
mod models;
mod quote;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hostler_redact::place;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{RequestBuilder, Response};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use self::access::Access;
use self::accesses::Accesses;
use self::github::GitHub;
use super::http::{self as over_http, Timeouts};
use super::{Betas, Manners, UnknownModels, Upstream, UpstreamAnswer, UpstreamCall, UpstreamError, UpstreamModel};
use crate::credential::{CredentialSource, Standing};
use crate::error::{self, ErrorKind};
use crate::sign_in::{Resource, SignIns};

pub use self::clock::{Clock, SystemClock};
pub use self::login::{DeviceCode, DeviceLoginConfig, LoginError, device_login, device_login_by};

/// The API of GitHub itself; enterprises have their own.
pub const GITHUB_API_URL: &str = "https://api.github.com";
/// Where people sign in to GitHub; enterprises have their own.
pub const GITHUB_URL: &str = "https://github.com";
/// The edition of GitHub's and Copilot's API that this was written for.
const API_VERSION: &str = "2025-04-01";
const EDITOR_VERSION: &str = concat!("hostler/", env!("CARGO_PKG_VERSION"));

/// What is sent to Copilot as the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopilotMode {
    /// A key that the GitHub token is exchanged for; where there is no exchange, the GitHub token itself.
    #[default]
    Exchange,
    /// The GitHub token itself.
    Token,
}

/// How to reach Copilot.
#[derive(Clone)]
pub struct CopilotConfig {
    /// GitHub's API, usually [`GITHUB_API_URL`].
    pub github_api_url: Url,
    /// Copilot's API; found out through GitHub if absent.
    pub api_url: Option<Url>,
    /// Where people sign in, usually [`GITHUB_URL`]; who issues the tokens that clients bring.
    pub github_url: Option<Url>,
    /// Where the GitHub token comes from.
    pub github_token: Arc<dyn CredentialSource>,
    /// Where the tokens of clients are, if they may bring theirs.
    pub sign_ins: Option<Arc<SignIns>>,
    /// What is sent as the key.
    pub mode: CopilotMode,
    /// Sent as `copilot-integration-id`, if there is one.
    pub integration_id: Option<String>,
    /// Sent as `editor-version`, without which Copilot takes no exchanged key.
    pub editor_version: String,
    /// Sent as `x-github-api-version`.
    pub api_version: String,
    /// How long the servers may take.
    pub timeouts: Timeouts,
}

impl CopilotConfig {
    /// The usual setup: exchange, discovery, no integration id, and an editor version of our own.
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
            timeouts: Timeouts::default(),
        }
    }
}

/// The URLs may hold a password: only their hosts are shown.
impl fmt::Debug for CopilotConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopilotConfig")
            .field("github", &place(&self.github_api_url))
            .field("api", &self.api_url.as_ref().map(place))
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// Why a configuration is no usable one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopilotConfigError {
    /// A setting is sent as a header and cannot be.
    #[error("{setting} of the copilot upstream must be plain text on one line")]
    NotAHeader {
        /// The setting.
        setting: &'static str,
    },
    /// A URL is none that can be called.
    #[error("{setting} of the copilot upstream must be an http or https URL")]
    NotAWebUrl {
        /// The setting.
        setting: &'static str,
    },
}

/// The upstream for GitHub Copilot.
pub struct CopilotUpstream {
    accesses: Accesses,
    /// What every request carries.
    headers: HeaderMap,
    /// What clients sign in to, if they may.
    resource: Option<Resource>,
}

impl CopilotUpstream {
    /// An upstream that has not connected yet.
    ///
    /// # Errors
    /// If the configuration holds something that cannot be sent.
    pub fn new(config: CopilotConfig) -> Result<Self, CopilotConfigError> {
        Self::by_clock(config, Arc::new(SystemClock))
    }

    /// The same by another clock.
    ///
    /// # Errors
    /// If the configuration holds something that cannot be sent.
    pub fn by_clock(config: CopilotConfig, clock: Arc<dyn Clock>) -> Result<Self, CopilotConfigError> {
        let urls = [("github_api_url", Some(&config.github_api_url)), ("api_url", config.api_url.as_ref())];
        for (setting, url) in urls {
            if url.is_some_and(|url| !["http", "https"].contains(&url.scheme())) {
                return Err(CopilotConfigError::NotAWebUrl { setting });
            }
        }
        let headers = headers(&config)?;
        let github = GitHub::new(&config, headers.clone());
        let (resource, credential) = match &config.sign_ins {
            Some(sign_ins) => {
                let resource = resource(&config);
                let source = sign_ins.source(&resource.id, config.github_token);
                (Some(resource), Arc::new(source) as Arc<dyn CredentialSource>)
            }
            None => (None, config.github_token),
        };
        Ok(Self { accesses: Accesses::new(github, credential, clock), headers, resource })
    }

    /// Makes a call, and makes it once more with a new access if the first one was refused. Where the token itself is the
    /// key and was refused both times, it is over; if there is another one, that is tried as well.
    async fn with_access<T, F>(&self, call: impl Fn(Arc<Access>) -> F) -> Result<T, UpstreamError>
    where
        F: Future<Output = Result<T, UpstreamError>>,
    {
        let (mut again, mut another) = (false, false);
        loop {
            let access = self.accesses.current().await?;
            let outcome = over_http::with_retries(|| call(Arc::clone(&access))).await;
            let Some(status) = refused_with(&outcome) else {
                if outcome.is_ok() && access.is_direct() {
                    self.accesses.accepted(&access);
                }
                return outcome;
            };
            self.accesses.refused(&access);
            if !again {
                again = true;
                continue;
            }
            // Anything but 401 may be about the model, the account's policy or the address: the token stays.
            let is_over = status == StatusCode::UNAUTHORIZED && access.is_direct();
            if !is_over || !self.accesses.give_up(&access) || another {
                return outcome;
            }
            (again, another) = (false, true);
        }
    }

    fn request(&self, access: &Access, method: Method, path: &[&str]) -> Result<RequestBuilder, UpstreamError> {
        let bearer = over_http::secret_value(&format!("Bearer {}", access.key.expose_secret()))?;
        let request = access.api.request(method, path, &[])?;
        Ok(request.headers(self.headers.clone()).header(header::AUTHORIZATION, bearer))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, UpstreamError> {
        over_http::send(request, |body| self.redact(body)).await.map_err(in_an_envelope)
    }

    async fn post(&self, access: &Access, call: &UpstreamCall) -> Result<UpstreamAnswer, UpstreamError> {
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
        over_http::answer(response, call.stream).await
    }

    async fn list(&self, access: &Access) -> Result<Vec<UpstreamModel>, UpstreamError> {
        let request = self.request(access, Method::GET, &["models"])?;
        let body = over_http::whole(self.send(request).await?).await?;
        models::read(&body).map_err(|_| UpstreamError::Unintelligible {
            reason: "Copilot's list of models has another shape than expected".to_owned(),
        })
    }
}

impl Upstream for CopilotUpstream {
    fn kind(&self) -> &'static str {
        "copilot"
    }

    fn manners(&self) -> Manners {
        Manners { betas: Betas::Allowed, unknown_models: UnknownModels::Refuse }
    }

    fn messages(&self, call: UpstreamCall) -> BoxFuture<'_, Result<UpstreamAnswer, UpstreamError>> {
        async move {
            let call = &call;
            self.with_access(|access| async move { self.post(&access, call).await }).await
        }
        .boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        self.with_access(move |access| async move { self.list(&access).await }).boxed()
    }

    fn standing(&self) -> Standing {
        self.accesses.standing()
    }

    fn resource(&self) -> Option<Resource> {
        self.resource.clone()
    }

    fn check(&self, token: SecretString) -> BoxFuture<'_, Result<(), UpstreamError>> {
        async move {
            let _trying = self.accesses.trying(&token);
            let access = self.accesses.try_token(&token).await?;
            // Where the token itself is the key, it may be that nobody has looked at it yet.
            if access.is_direct() {
                self.list(&access).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn redact(&self, text: Bytes) -> Bytes {
        self.accesses.redact(text)
    }
}

impl fmt::Debug for CopilotUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CopilotUpstream").field(&self.accesses).finish()
    }
}

/// The status with which Copilot did not accept the key, or not here.
fn refused_with<T>(outcome: &Result<T, UpstreamError>) -> Option<StatusCode> {
    match outcome {
        Err(UpstreamError::Refused(refusal)) => {
            Some(refusal.status).filter(|status| [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(status))
        }
        _ => None,
    }
}

/// Copilot's own errors have other forms than those of the Messages API; what they say is kept.
fn in_an_envelope(error: UpstreamError) -> UpstreamError {
    match error {
        UpstreamError::Refused(mut refusal) if error::envelope_kind(&refusal.body).is_none() => {
            if let Some(said) = quote::sentence(&refusal.body) {
                let message = format!("Upstream: Copilot refused the request with status {}: {said}.", refusal.status);
                refusal.body = error::envelope(ErrorKind::of_status(refusal.status), &message);
            }
            UpstreamError::Refused(refusal)
        }
        other => other,
    }
}

/// A token is good for the GitHub that it was issued for, and is sent to no other.
fn resource(config: &CopilotConfig) -> Resource {
    let bare = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
    let web = config.github_url.as_ref().map_or_else(|| GITHUB_URL.to_owned(), bare);
    Resource {
        id: bare(&config.github_api_url),
        name: "GitHub Copilot".to_owned(),
        authorization_server: format!("{web}/login/oauth"),
        scopes: ["read:user", "user:email"].map(str::to_owned).into(),
    }
}

fn headers(config: &CopilotConfig) -> Result<HeaderMap, CopilotConfigError> {
    let mut headers = HeaderMap::new();
    for (name, setting, text) in [
        ("copilot-integration-id", "integration_id", config.integration_id.as_deref()),
        ("editor-version", "editor_version", Some(config.editor_version.as_str())),
        ("x-github-api-version", "api_version", Some(config.api_version.as_str())),
    ] {
        if let Some(text) = text {
            let value = HeaderValue::from_str(text).map_err(|_| CopilotConfigError::NotAHeader { setting })?;
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    Ok(headers)
}
