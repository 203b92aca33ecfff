//! Requests about browser sessions: creating sign-in links, listing and signing out browsers.

use ahp_types::ROOT_RESOURCE_URI;
use serde::{Deserialize, Serialize};

use super::{Client, ClientError};

/// Sign-in link from the host. It gives access to the host, so its `Debug` is redacted.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignInLink {
    pub(crate) code: String,
    pub(crate) expires_at: String,
}

/// Signed-in browser.
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
    /// Creates a link that signs in one browser.
    pub(crate) async fn create_link(
        &self,
        minutes: Option<u64>,
        label: Option<&str>,
    ) -> Result<SignInLink, ClientError> {
        self.request("hostler/createSignInLink", &LinkParams { channel: ROOT_RESOURCE_URI, minutes, label }).await
    }

    /// Lists the signed-in browsers.
    pub(crate) async fn list_signed_in_browsers(&self) -> Result<Vec<SignedInBrowser>, ClientError> {
        let params = SignInParams { channel: ROOT_RESOURCE_URI, id: None };
        let answer: SignedInBrowserList = self.request("hostler/listBrowserSessions", &params).await?;
        Ok(answer.items)
    }

    /// Signs one browser out, or all of them; returns how many there were.
    pub(crate) async fn sign_out_browsers(&self, id: Option<&str>) -> Result<u64, ClientError> {
        let params = SignInParams { channel: ROOT_RESOURCE_URI, id };
        let answer: SignOutResult = self.request("hostler/signOut", &params).await?;
        Ok(answer.signed_out)
    }
}
