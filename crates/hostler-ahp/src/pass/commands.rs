//! `hostler/createLink`, `hostler/listSignIns` and `hostler/signOut`, which are no methods of AHP: whoever is in lets browsers in,
//! sees which are, and signs them out.

use std::time::Duration;

use ahp_types::errors::{ahp_error_codes, json_rpc_error_codes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Passes;
use crate::decode;
use crate::methods::value;
use crate::rpc::RpcError;

/// How long a link is good, unless a client says otherwise, and at most.
const USUAL_MINUTES: u64 = 10;
const MOST_MINUTES: u64 = 24 * 60;

/// The longest label, in bytes.
const LONGEST: usize = 100;

/// What is understood here.
pub(crate) const METHODS: [&str; 3] = ["hostler/createLink", "hostler/listSignIns", "hostler/signOut"];

/// What is to be done.
pub(crate) enum Errand {
    Create(LinkParams),
    List,
    SignOut(SignOutParams),
}

#[derive(Deserialize)]
pub(crate) struct LinkParams {
    minutes: Option<u64>,
    label: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct SignOutParams {
    id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    id: String,
    label: String,
    created_at: String,
    last_seen_at: String,
    current: bool,
}

impl Errand {
    /// Reads a request.
    pub(crate) fn read(method: &str, params: Value) -> Result<Self, RpcError> {
        match method {
            "hostler/createLink" => decode::params(params).and_then(checked).map(Self::Create),
            "hostler/listSignIns" => Ok(Self::List),
            "hostler/signOut" => decode::params(params).map(Self::SignOut),
            _ => Err(RpcError::unknown_method(method)),
        }
    }

    /// Does it, for a client that is in by this pass itself, if it is.
    pub(crate) async fn carry_out(self, passes: Passes, own: Option<String>) -> Result<Value, RpcError> {
        match self {
            Self::Create(params) => create(&passes, params, own.as_deref()),
            Self::List => {
                let item = |pass: super::Pass| Item {
                    current: own.as_ref() == Some(&pass.id),
                    id: pass.id,
                    label: pass.label,
                    created_at: time(pass.created),
                    last_seen_at: time(pass.seen),
                };
                value(&json!({ "items": passes.list().into_iter().map(item).collect::<Vec<_>>() }))
            }
            Self::SignOut(SignOutParams { id }) => {
                let named = id.clone();
                let revoking = tokio::task::spawn_blocking(move || {
                    passes.revoke(named.as_deref().map(|id| [id]).as_ref().map(<[&str; 1]>::as_slice))
                });
                let count = revoking.await.map_err(std::io::Error::other).flatten().map_err(|error| {
                    tracing::error!(%error, "who is signed in could not be written down");
                    failed("they are signed out, but not for good: the host could not write it down; see its log")
                })?;
                if count == 0 && id.is_some() {
                    let sentence = "nobody is signed in by that id; hostler/listSignIns has them";
                    return Err(RpcError::new(ahp_error_codes::NOT_FOUND, sentence));
                }
                Ok(json!({ "signedOut": count }))
            }
        }
    }
}

fn checked(params: LinkParams) -> Result<LinkParams, RpcError> {
    if params.minutes.is_some_and(|minutes| !(1..=MOST_MINUTES).contains(&minutes)) {
        return Err(RpcError::params("minutes must be from 1 to 1440"));
    }
    let is_label =
        |label: &String| !label.trim().is_empty() && label.len() <= LONGEST && !label.contains(char::is_control);
    if params.label.as_ref().is_some_and(|label| !is_label(label)) {
        return Err(RpcError::params("label must be one line of 1 to 100 bytes"));
    }
    Ok(params)
}

fn create(passes: &Passes, params: LinkParams, maker: Option<&str>) -> Result<Value, RpcError> {
    let lasts = Duration::from_secs(params.minutes.unwrap_or(USUAL_MINUTES) * 60);
    let link = passes.link(lasts, params.label, maker);
    let link = link.map_err(|_| failed("there is no randomness to make a link of"))?;
    let gone = || RpcError::new(ahp_error_codes::PERMISSION_DENIED, "this browser is signed out; sign in again");
    let link = link.ok_or_else(gone)?;
    let code = link.code.expose();
    Ok(json!({ "code": code, "expiresAt": time(link.until), "path": format!("/#link={code}") }))
}

fn failed(sentence: &str) -> RpcError {
    RpcError::new(json_rpc_error_codes::INTERNAL_ERROR, sentence)
}

fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map(|time| format!("{time:.3}")).unwrap_or_default()
}
