//! Workspace trust for clients: the extensions `hostler/listTrust`, `checkTrust`, `setTrust` and `removeTrust`.

use hostler_engine::{Engine, TrustDecision, TrustListing};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::decode;
use crate::methods::to_result;
use crate::rpc::RpcError;

/// The methods that this module carries out.
pub(crate) const TRUST_METHODS: [&str; 4] =
    ["hostler/listTrust", "hostler/checkTrust", "hostler/setTrust", "hostler/removeTrust"];

/// A decoded request.
pub(crate) enum TrustRequest {
    List,
    Check(CheckTrustParams),
    Set(SetTrustParams),
    Remove(RemoveTrustParams),
}

#[derive(Deserialize)]
pub(crate) struct CheckTrustParams {
    directory: String,
    provider: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct SetTrustParams {
    directory: String,
    provider: Option<String>,
    decision: TrustDecision,
    /// Fingerprint of the configuration that the person saw.
    fingerprint: String,
}

#[derive(Deserialize)]
pub(crate) struct RemoveTrustParams {
    directory: String,
}

impl TrustRequest {
    /// Parses one of [`TRUST_METHODS`].
    pub(crate) fn parse(method: &str, params: Value) -> Result<Self, RpcError> {
        Ok(match method {
            "hostler/listTrust" => Self::List,
            "hostler/checkTrust" => Self::Check(decode::params(params)?),
            "hostler/setTrust" => Self::Set(decode::params(params)?),
            "hostler/removeTrust" => Self::Remove(decode::params(params)?),
            _ => return Err(RpcError::unknown_method(method)),
        })
    }

    /// Reads the folder and the trust decisions, and changes them.
    pub(crate) async fn execute(self, engine: Engine) -> Result<Value, RpcError> {
        match self {
            Self::List => {
                let folders = engine.list_trust().await?;
                to_result(&TrustListing::new(&folders.entries, &folders.configured))
            }
            Self::Check(CheckTrustParams { directory, provider }) => {
                to_result(&engine.check_trust(&directory, provider.as_deref()).await?.report())
            }
            Self::Set(SetTrustParams { directory, provider, decision, fingerprint }) => {
                let set = engine.set_trust(&directory, provider.as_deref(), decision, &fingerprint).await?;
                to_result(&set.report())
            }
            Self::Remove(RemoveTrustParams { directory }) => {
                Ok(json!({ "removed": engine.remove_trust(&directory).await? }))
            }
        }
    }
}
