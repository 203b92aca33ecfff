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

    /// Carries out the request. `own_session` is the browser session of the requesting client, if it has one.
    pub(crate) async fn execute(
        self,
        sessions: BrowserSessions,
        own_session: Option<String>,
    ) -> Result<Value, RpcError> {
        match self {
            Self::CreateLink(params) => create_link(&sessions, params, own_session.as_deref()),
            Self::ListSessions => {
                let item = |session: super::BrowserSession| BrowserSessionItem {
                    current: own_session.as_ref() == Some(&session.id),
                    id: session.id,
                    label: session.label,
                    created_at: format_time(session.created_ms),
                    last_seen_at: format_time(session.last_seen_ms),
                };
                to_result(&json!({ "items": sessions.list().into_iter().map(item).collect::<Vec<_>>() }))
            }
            Self::SignOut(SignOutParams { id }) => {
                let requested = id.clone();
                let revocation = tokio::task::spawn_blocking(move || {
                    sessions.revoke(requested.as_deref().map(|id| [id]).as_ref().map(<[&str; 1]>::as_slice))
                });
                let count = revocation.await.map_err(std::io::Error::other).flatten().map_err(|error| {
                    tracing::error!(%error, "failed to store browser sessions");
                    internal_error(
                        "the browsers are signed out only until the host restarts, because it could not store the change; see the host's log",
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

fn create_link(sessions: &BrowserSessions, params: CreateLinkParams, creator: Option<&str>) -> Result<Value, RpcError> {
    let validity = Duration::from_secs(params.minutes.unwrap_or(DEFAULT_LINK_MINUTES) * 60);
    let link = sessions.create_link(validity, params.label, creator);
    let link = link.map_err(|_| internal_error("failed to create a link: the system provides no random numbers"))?;
    let signed_out_error =
        || RpcError::new(ahp_error_codes::PERMISSION_DENIED, "this browser is signed out; sign in again");
    let link = link.ok_or_else(signed_out_error)?;
    let code = link.code.expose();
    Ok(json!({ "code": code, "expiresAt": format_time(link.expires_at_ms), "path": format!("/#link={code}") }))
}

fn internal_error(sentence: &str) -> RpcError {
    RpcError::new(json_rpc_error_codes::INTERNAL_ERROR, sentence)
}

fn format_time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map(|time| format!("{time:.3}")).unwrap_or_default()
}
