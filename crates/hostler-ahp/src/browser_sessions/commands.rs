//! The extensions `hostler/createSignInLink`, `hostler/listBrowserSessions` and `hostler/signOut`: a connected client creates sign-in
//! links, lists browser sessions, and signs them out.

use std::time::Duration;

use ahp_types::errors::{ahp_error_codes, json_rpc_error_codes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::BrowserSessions;
use crate::decode;
use crate::methods::to_result;
use crate::rpc::RpcError;

/// Default and maximum validity of a link.
const DEFAULT_LINK_MINUTES: u64 = 10;
const MAX_LINK_MINUTES: u64 = 24 * 60;

/// Maximum length of a label, in bytes.
const MAX_LABEL_BYTES: usize = 100;

/// The methods that this module carries out.
pub(crate) const BROWSER_SESSION_METHODS: [&str; 3] =
    ["hostler/createSignInLink", "hostler/listBrowserSessions", "hostler/signOut"];

/// A decoded request.
pub(crate) enum BrowserSessionRequest {
    CreateLink(CreateLinkParams),
    ListSessions,
    SignOut(SignOutParams),
}

#[derive(Deserialize)]
pub(crate) struct CreateLinkParams {
    minutes: Option<u64>,
    label: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct SignOutParams {
    id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BrowserSessionItem {
    id: String,
    label: String,
    created_at: String,
    last_seen_at: String,
    current: bool,
}

impl BrowserSessionRequest {
    /// Parses a request.
    pub(crate) fn parse(method: &str, params: Value) -> Result<Self, RpcError> {
        match method {
            "hostler/createSignInLink" => decode::params(params).and_then(validate_link_params).map(Self::CreateLink),
            "hostler/listBrowserSessions" => Ok(Self::ListSessions),
            "hostler/signOut" => decode::params(params).map(Self::SignOut),
            _ => Err(RpcError::unknown_method(method)),
        }
    }

    /// Carries out the request. `own` is the browser session of the requesting client, if it has one.
    pub(crate) async fn execute(self, passes: BrowserSessions, own: Option<String>) -> Result<Value, RpcError> {
        match self {
            Self::CreateLink(params) => create_link(&passes, params, own.as_deref()),
            Self::ListSessions => {
                let item = |pass: super::BrowserSession| BrowserSessionItem {
                    current: own.as_ref() == Some(&pass.id),
                    id: pass.id,
                    label: pass.label,
                    created_at: format_time(pass.created_ms),
                    last_seen_at: format_time(pass.last_seen_ms),
                };
                to_result(&json!({ "items": passes.list().into_iter().map(item).collect::<Vec<_>>() }))
            }
            Self::SignOut(SignOutParams { id }) => {
                let named = id.clone();
                let revoking = tokio::task::spawn_blocking(move || {
                    passes.revoke(named.as_deref().map(|id| [id]).as_ref().map(<[&str; 1]>::as_slice))
                });
                let count = revoking.await.map_err(std::io::Error::other).flatten().map_err(|error| {
                    tracing::error!(%error, "who is signed in could not be written down");
                    internal_error(
                        "they are signed out, but not for good: the host could not write it down; see its log",
                    )
                })?;
                if count == 0 && id.is_some() {
                    let sentence = "no browser session has this id; hostler/listBrowserSessions lists them";
                    return Err(RpcError::new(ahp_error_codes::NOT_FOUND, sentence));
                }
                Ok(json!({ "signedOut": count }))
            }
        }
    }
}

fn validate_link_params(params: CreateLinkParams) -> Result<CreateLinkParams, RpcError> {
    if params.minutes.is_some_and(|minutes| !(1..=MAX_LINK_MINUTES).contains(&minutes)) {
        return Err(RpcError::invalid_params("minutes must be from 1 to 1440"));
    }
    let is_label = |label: &String| {
        !label.trim().is_empty() && label.len() <= MAX_LABEL_BYTES && !label.contains(char::is_control)
    };
    if params.label.as_ref().is_some_and(|label| !is_label(label)) {
        return Err(RpcError::invalid_params("label must be one line of 1 to 100 bytes"));
    }
    Ok(params)
}

fn create_link(passes: &BrowserSessions, params: CreateLinkParams, maker: Option<&str>) -> Result<Value, RpcError> {
    let lasts = Duration::from_secs(params.minutes.unwrap_or(DEFAULT_LINK_MINUTES) * 60);
    let link = passes.create_link(lasts, params.label, maker);
    let link = link.map_err(|_| internal_error("there is no randomness to make a link of"))?;
    let gone = || RpcError::new(ahp_error_codes::PERMISSION_DENIED, "this browser is signed out; sign in again");
    let link = link.ok_or_else(gone)?;
    let code = link.code.expose();
    Ok(json!({ "code": code, "expiresAt": format_time(link.expires_at_ms), "path": format!("/#link={code}") }))
}

fn internal_error(sentence: &str) -> RpcError {
    RpcError::new(json_rpc_error_codes::INTERNAL_ERROR, sentence)
}

fn format_time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map(|time| format!("{time:.3}")).unwrap_or_default()
}
