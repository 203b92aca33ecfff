//! The endpoints `/sign-in` and `/sign-out`: a browser exchanges a link's code for a cookie and a page key, queries its
//! status, and signs out.
//!
//! A request that changes something must come from the host's own page: with its `Origin`, and as JSON where there is a
//! body, which pages of other origins cannot send without a preflight request.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER, SET_COOKIE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::secret::SignInSecret;
use super::session_table::LinkRedemption;
use super::{BrowserSessions, IssuedCredentials, browser_label, cookie};

/// Maximum size of a body; a code is much smaller.
const MAX_BODY_BYTES: usize = 1024;

/// Seconds after which a client may try another code.
const RETRY_AFTER_SECONDS: &str = "60";

const FOREIGN_ORIGIN_MESSAGE: &str = "Only the host's own page can send this request.";
const NOT_JSON_MESSAGE: &str = "Send the code as JSON: {\"code\": \"…\"}.";
const BODY_TOO_LARGE_MESSAGE: &str = "The request body is too large. Send only the code.";
const INVALID_LINK_MESSAGE: &str =
    "This sign-in link is used, expired or wrong. Create another one with `hostler link`.";
const TOO_MANY_ATTEMPTS_MESSAGE: &str = "Too many wrong sign-in links. Wait a minute, then try again.";
const NOT_SIGNED_IN_MESSAGE: &str = "This browser is not signed in.";
const SAVE_FAILED_MESSAGE: &str = "The host could not store the browser sessions. See the host's log.";

/// Facts about a request that its headers and body do not contain.
pub(crate) struct SignInContext {
    /// Whether a token or a browser session is required at all.
    pub(crate) is_sign_in_required: bool,
    /// Whether the browser uses TLS, directly or to a trusted proxy.
    pub(crate) is_secure: bool,
    /// Whether it comes from the host's own page.
    pub(crate) is_own_page: bool,
}

/// Whether this module answers requests for a path.
pub(crate) fn is_sign_in_path(path: &str) -> bool {
    matches!(path, "/sign-in" | "/sign-out")
}

type SignInResponse = Response<Full<Bytes>>;

/// Answers a request to one of the two endpoints.
pub(crate) async fn respond<B>(
    sessions: &BrowserSessions,
    context: &SignInContext,
    head: &Parts,
    body: B,
) -> SignInResponse
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match (head.uri.path(), &head.method) {
        ("/sign-in", &Method::GET | &Method::HEAD) => sign_in_status(sessions, context, &head.headers),
        (_, &Method::POST) if !context.is_own_page => text_response(StatusCode::FORBIDDEN, FOREIGN_ORIGIN_MESSAGE),
        ("/sign-in", &Method::POST) => match read_code(&head.headers, body).await {
            Ok(code) => sign_in(sessions, context, &head.headers, code).await,
            Err((status, text)) => text_response(status, text),
        },
        ("/sign-out", &Method::POST) => {
            let everywhere = head.uri.query().is_some_and(|query| query == "everywhere");
            sign_out(sessions, context, &head.headers, everywhere).await
        }
        (path, _) => {
            let mut answer = text_response(
                StatusCode::METHOD_NOT_ALLOWED,
                "This method is not allowed. Use one of those in the Allow header.",
            );
            let allowed = if path == "/sign-in" { "GET, HEAD, POST" } else { "POST" };
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            answer
        }
    }
}

/// The sign-in status, which the page needs before it connects. Use extends a browser session, so its cookie is set
/// again.
fn sign_in_status(sessions: &BrowserSessions, context: &SignInContext, headers: &HeaderMap) -> SignInResponse {
    let found = sessions.authenticate_with_cookie(headers);
    let mut answer = json_response(&json!({
        "signedIn": found.is_some(),
        "required": context.is_sign_in_required,
        "host": { "name": "hostler", "title": "Hostler", "version": env!("CARGO_PKG_VERSION") },
    }));
    if let Some((_, cookie)) = found {
        let cookie = cookie::set_cookie_header(sessions.lock_table().host_id(), &cookie, context.is_secure);
        answer.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    }
    answer
}

#[derive(Deserialize)]
struct SignInBody {
    code: String,
}

/// The code in a request.
async fn read_code<B>(headers: &HeaderMap, body: B) -> Result<SignInSecret, (StatusCode, &'static str)>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, NOT_JSON_MESSAGE));
    }
    let body = match Limited::new(std::pin::pin!(body), MAX_BODY_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, BODY_TOO_LARGE_MESSAGE));
        }
        Err(_) => return Err((StatusCode::BAD_REQUEST, NOT_JSON_MESSAGE)),
    };
    let body: SignInBody = serde_json::from_slice(&body).map_err(|_| (StatusCode::BAD_REQUEST, NOT_JSON_MESSAGE))?;
    Ok(SignInSecret::from_text(&body.code))
}

async fn sign_in(
    sessions: &BrowserSessions,
    context: &SignInContext,
    headers: &HeaderMap,
    code: SignInSecret,
) -> SignInResponse {
    let known = sessions.authenticate_with_cookie(headers).map(|(_, cookie)| cookie);
    let (is_signed_in, presented) = (known.is_some(), sessions.session_ids_of_cookies(headers));
    let browser = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let label = browser_label::browser_label(browser);
    let redemption = {
        let sessions = sessions.clone();
        tokio::task::spawn_blocking(move || {
            let lost: Vec<&str> = presented.iter().map(String::as_str).collect();
            sessions.redeem(&code, is_signed_in, &lost, label)
        })
    };
    let (cookie, key) = match redemption.await.map_err(std::io::Error::other).flatten() {
        Ok(LinkRedemption::Accepted { is_new: None }) => (known, None),
        Ok(LinkRedemption::Accepted { is_new: Some(IssuedCredentials { cookie, page_key: key }) }) => {
            (Some(cookie), Some(key))
        }
        Ok(LinkRedemption::Rejected) => {
            tracing::info!("sign-in rejected: the link is used, expired or wrong");
            return text_response(StatusCode::FORBIDDEN, INVALID_LINK_MESSAGE);
        }
        Ok(LinkRedemption::RateLimited) => {
            tracing::warn!("too many wrong sign-in links: all links are rejected for a minute");
            let mut answer = text_response(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_ATTEMPTS_MESSAGE);
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
            return answer;
        }
        Err(error) => return save_failed(&error),
    };
    let cookie = cookie
        .and_then(|cookie| cookie::set_cookie_header(sessions.lock_table().host_id(), &cookie, context.is_secure));
    let Some(key) = key else { return no_content(cookie) };
    let mut answer = json_response(&json!({ "key": key.expose() }));
    answer.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    answer
}

/// Signs out the browser's own sessions or, if it has one, all of them. A cookie without its page key signs out
/// nothing.
async fn sign_out(
    sessions: &BrowserSessions,
    context: &SignInContext,
    headers: &HeaderMap,
    everywhere: bool,
) -> SignInResponse {
    let ids = sessions.authenticate(headers).map(|_| sessions.session_ids_of_cookies(headers)).unwrap_or_default();
    if everywhere && ids.is_empty() {
        return text_response(StatusCode::FORBIDDEN, NOT_SIGNED_IN_MESSAGE);
    }
    if !ids.is_empty() {
        let revocation = {
            let sessions = sessions.clone();
            tokio::task::spawn_blocking(move || {
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                sessions.revoke((!everywhere).then_some(&*ids))
            })
        };
        if let Err(error) = revocation.await.map_err(std::io::Error::other).flatten() {
            return save_failed(&error);
        }
    }
    no_content(cookie::clear_cookie_header(sessions.lock_table().host_id(), context.is_secure))
}

fn save_failed(error: &std::io::Error) -> SignInResponse {
    tracing::error!(%error, "failed to store browser sessions");
    text_response(StatusCode::INTERNAL_SERVER_ERROR, SAVE_FAILED_MESSAGE)
}

fn no_content(cookie: Option<HeaderValue>) -> SignInResponse {
    let mut answer = Response::default();
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    with_security_headers(answer)
}

fn json_response(value: &Value) -> SignInResponse {
    let mut answer = Response::new(Full::from(value.to_string()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    with_security_headers(answer)
}

/// A refusal. Closes the connection without reading the rest of the request.
fn text_response(status: StatusCode, text: &str) -> SignInResponse {
    let mut answer = Response::new(Full::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    with_security_headers(answer)
}

/// Disables caching and access by pages of other origins.
fn with_security_headers(mut answer: SignInResponse) -> SignInResponse {
    let headers = [
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("content-security-policy"), "default-src 'none'; frame-ancestors 'none'"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
    ];
    answer.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    answer
}
