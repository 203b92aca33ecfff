//! `/sign-in` and `/sign-out`: a browser exchanges a link's code for its pass and its page key, asks whether it has one, and gives it back.
//!
//! Whatever changes something must come from our own page: with its `Origin`, and as JSON where there is a body, which no page
//! of another origin can send without being asked first.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER, SET_COOKIE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::book::Redeemed;
use super::secret::Secret;
use super::{Issued, Passes, browser, cookie};

/// The largest body; a code is much smaller.
const MOST_BYTES: usize = 1024;

/// After so many seconds it is worth while to try another code.
const RETRY: &str = "60";

const FOREIGN: &str = "Only the host's own page may do that.";
const NOT_JSON: &str = "The code must come as JSON: {\"code\": \"…\"}.";
const TOO_LARGE: &str = "That is too much for a code.";
const WRONG: &str = "This link is used up, too old or wrong. Make another one with `hostler link`.";
const TOO_MANY: &str = "There were too many wrong links just now. Wait a minute, then try again.";
const NOBODY: &str = "You are not signed in here.";
const FAILED: &str = "The host could not write down who is signed in; its log says why.";

/// What is known about a request beside itself.
pub(crate) struct Caller {
    /// Whether a token or a pass is needed at all.
    pub(crate) required: bool,
    /// Whether the browser speaks TLS, to us or to a proxy that we believe.
    pub(crate) secure: bool,
    /// Whether it comes from our own page.
    pub(crate) own_page: bool,
}

/// Whether a path is answered here.
pub(crate) fn answers(path: &str) -> bool {
    matches!(path, "/sign-in" | "/sign-out")
}

type Answer = Response<Full<Bytes>>;

/// Answers a request to one of the two.
pub(crate) async fn answer<B>(passes: &Passes, caller: &Caller, head: &Parts, body: B) -> Answer
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match (head.uri.path(), &head.method) {
        ("/sign-in", &Method::GET | &Method::HEAD) => state(passes, caller, &head.headers),
        (_, &Method::POST) if !caller.own_page => sentence(StatusCode::FORBIDDEN, FOREIGN),
        ("/sign-in", &Method::POST) => match code(&head.headers, body).await {
            Ok(code) => sign_in(passes, caller, &head.headers, code).await,
            Err((status, text)) => sentence(status, text),
        },
        ("/sign-out", &Method::POST) => {
            let everywhere = head.uri.query().is_some_and(|query| query == "everywhere");
            sign_out(passes, caller, &head.headers, everywhere).await
        }
        (path, _) => {
            let mut answer = sentence(StatusCode::METHOD_NOT_ALLOWED, "That method means nothing here.");
            let allowed = if path == "/sign-in" { "GET, HEAD, POST" } else { "POST" };
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            answer
        }
    }
}

/// What the page has to know before it connects. A pass that is used lasts longer, so its cookie is given anew.
fn state(passes: &Passes, caller: &Caller, headers: &HeaderMap) -> Answer {
    let found = passes.find(headers);
    let mut answer = data(&json!({
        "signedIn": found.is_some(),
        "required": caller.required,
        "host": { "name": "hostler", "title": "Hostler", "version": env!("CARGO_PKG_VERSION") },
    }));
    if let Some((_, pass)) = found {
        let cookie = cookie::give(passes.book().host(), &pass, caller.secure);
        answer.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    }
    answer
}

#[derive(Deserialize)]
struct SignInBody {
    code: String,
}

/// The code that a request brings.
async fn code<B>(headers: &HeaderMap, body: B) -> Result<Secret, (StatusCode, &'static str)>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, NOT_JSON));
    }
    let body = match Limited::new(std::pin::pin!(body), MOST_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err((StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE)),
        Err(_) => return Err((StatusCode::BAD_REQUEST, NOT_JSON)),
    };
    let body: SignInBody = serde_json::from_slice(&body).map_err(|_| (StatusCode::BAD_REQUEST, NOT_JSON))?;
    Ok(Secret::brought(&body.code))
}

async fn sign_in(passes: &Passes, caller: &Caller, headers: &HeaderMap, code: Secret) -> Answer {
    let known = passes.find(headers).map(|(_, cookie)| cookie);
    let (is_signed_in, brought) = (known.is_some(), passes.brought(headers));
    let browser = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let label = browser::label(browser);
    let redeeming = {
        let passes = passes.clone();
        tokio::task::spawn_blocking(move || {
            let lost: Vec<&str> = brought.iter().map(String::as_str).collect();
            passes.redeem(&code, is_signed_in, &lost, label)
        })
    };
    let (cookie, key) = match redeeming.await.map_err(std::io::Error::other).flatten() {
        Ok(Redeemed::In { is_new: None }) => (known, None),
        Ok(Redeemed::In { is_new: Some(Issued { cookie, key }) }) => (Some(cookie), Some(key)),
        Ok(Redeemed::Wrong) => {
            tracing::info!("a browser brought a link that is not good");
            return sentence(StatusCode::FORBIDDEN, WRONG);
        }
        Ok(Redeemed::TooMany) => {
            tracing::warn!("too many wrong links: none is looked at for a minute");
            let mut answer = sentence(StatusCode::TOO_MANY_REQUESTS, TOO_MANY);
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY));
            return answer;
        }
        Err(error) => return failed(&error),
    };
    let cookie = cookie.and_then(|cookie| cookie::give(passes.book().host(), &cookie, caller.secure));
    let Some(key) = key else { return done(cookie) };
    let mut answer = data(&json!({ "key": key.expose() }));
    answer.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    answer
}

/// Gives back the browser's own passes, or, if it has one, those of all. A cookie without its key gives back nothing.
async fn sign_out(passes: &Passes, caller: &Caller, headers: &HeaderMap, everywhere: bool) -> Answer {
    let ids = passes.recognize(headers).map(|_| passes.brought(headers)).unwrap_or_default();
    if everywhere && ids.is_empty() {
        return sentence(StatusCode::FORBIDDEN, NOBODY);
    }
    if !ids.is_empty() {
        let revoking = {
            let passes = passes.clone();
            tokio::task::spawn_blocking(move || {
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                passes.revoke((!everywhere).then_some(&*ids))
            })
        };
        if let Err(error) = revoking.await.map_err(std::io::Error::other).flatten() {
            return failed(&error);
        }
    }
    done(cookie::take(passes.book().host(), caller.secure))
}

fn failed(error: &std::io::Error) -> Answer {
    tracing::error!(%error, "who is signed in could not be written down");
    sentence(StatusCode::INTERNAL_SERVER_ERROR, FAILED)
}

fn done(cookie: Option<HeaderValue>) -> Answer {
    let mut answer = Response::default();
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    guarded(answer)
}

fn data(value: &Value) -> Answer {
    let mut answer = Response::new(Full::from(value.to_string()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    guarded(answer)
}

/// A refusal. What the client still sends is not waited for.
fn sentence(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    guarded(answer)
}

/// Nobody keeps it, and no page of another origin may see it.
fn guarded(mut answer: Answer) -> Answer {
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
