//! Workspace trust for clients: `hostler/listTrust`, `checkTrust`, `setTrust` and `removeTrust`, which are no methods of AHP.

use hostler_engine::{Engine, TrustDecision, TrustListing};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::decode;
use crate::methods::value;
use crate::rpc::RpcError;

/// The methods that are carried out here.
pub(crate) const METHODS: [&str; 4] =
    ["hostler/listTrust", "hostler/checkTrust", "hostler/setTrust", "hostler/removeTrust"];

/// One request, decoded.
pub(crate) enum Request {
    List,
    Check(CheckParams),
    Set(SetParams),
    Remove(RemoveParams),
}

#[derive(Deserialize)]
pub(crate) struct CheckParams {
    directory: String,
    provider: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct SetParams {
    directory: String,
    provider: Option<String>,
    decision: TrustDecision,
    /// Of the configuration that the person saw.
    fingerprint: String,
}

#[derive(Deserialize)]
pub(crate) struct RemoveParams {
    directory: String,
}

impl Request {
    /// Reads one of [`METHODS`].
    pub(crate) fn read(method: &str, params: Value) -> Result<Self, RpcError> {
        Ok(match method {
            "hostler/listTrust" => Self::List,
            "hostler/checkTrust" => Self::Check(decode::params(params)?),
            "hostler/setTrust" => Self::Set(decode::params(params)?),
            "hostler/removeTrust" => Self::Remove(decode::params(params)?),
            _ => return Err(RpcError::unknown_method(method)),
        })
    }

    /// Reads the folder and the decisions, and changes them.
    pub(crate) async fn carry_out(self, engine: Engine) -> Result<Value, RpcError> {
        match self {
            Self::List => {
                let folders = engine.list_trust().await?;
                value(&TrustListing::new(&folders.entries, &folders.configured))
            }
            Self::Check(CheckParams { directory, provider }) => {
                value(&engine.check_trust(&directory, provider.as_deref()).await?.report())
            }
            Self::Set(SetParams { directory, provider, decision, fingerprint }) => {
                let set = engine.set_trust(&directory, provider.as_deref(), decision, &fingerprint).await?;
                value(&set.report())
            }
            Self::Remove(RemoveParams { directory }) => {
                Ok(json!({ "removed": engine.remove_trust(&directory).await? }))
            }
        }
    }
}
