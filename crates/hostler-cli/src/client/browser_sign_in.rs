//! What a client says about browsers: links for them, and which have signed in.

use ahp_types::ROOT_RESOURCE_URI;
use serde::{Deserialize, Serialize};

use super::{Client, ClientError};

/// A link, as the host tells it. It opens the host: not printed by accident.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignInLink {
    pub(crate) code: String,
    pub(crate) expires_at: String,
}

/// A browser that has signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignedInBrowser {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) created_at: String,
    pub(crate) last_seen_at: String,
}

#[derive(Serialize)]
struct LinkParams<'a> {
    channel: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    minutes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
}

#[derive(Serialize)]
struct SignInParams<'a> {
    channel: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

#[derive(Deserialize)]
struct SignedInBrowserList {
    items: Vec<SignedInBrowser>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignOutResult {
    signed_out: u64,
}

impl Client {
    /// A link that lets one browser in.
    pub(crate) async fn create_link(
        &self,
        minutes: Option<u64>,
        label: Option<&str>,
    ) -> Result<SignInLink, ClientError> {
        self.request("hostler/createLink", &LinkParams { channel: ROOT_RESOURCE_URI, minutes, label }).await
    }

    /// The browsers that have signed in.
    pub(crate) async fn list_signed_in_browsers(&self) -> Result<Vec<SignedInBrowser>, ClientError> {
        let params = SignInParams { channel: ROOT_RESOURCE_URI, id: None };
        let answer: SignedInBrowserList = self.request("hostler/listSignIns", &params).await?;
        Ok(answer.items)
    }

    /// Signs one browser out, or all of them; says how many there were.
    pub(crate) async fn sign_out_browsers(&self, id: Option<&str>) -> Result<u64, ClientError> {
        let params = SignInParams { channel: ROOT_RESOURCE_URI, id };
        let answer: SignOutResult = self.request("hostler/signOut", &params).await?;
        Ok(answer.signed_out)
    }
}
