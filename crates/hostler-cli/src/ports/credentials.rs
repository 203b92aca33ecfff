//! Logging in to upstreams: who keeps the credentials, and who signs in on a web page.

use std::path::PathBuf;

use futures::future::BoxFuture;
use secrecy::SecretString;

use super::UpstreamSpec;

/// Keeps upstreams' credentials, by the upstreams' names.
pub trait CredentialVaultPort: Send + Sync {
    /// Puts a credential away, in place of the one that is there.
    fn store(
        &self,
        vault: VaultSettings,
        name: String,
        secret: SecretString,
    ) -> BoxFuture<'static, Result<SaveCredentialResult, VaultError>>;
    /// Removes a credential; gives back where it was.
    fn delete(
        &self,
        vault: VaultSettings,
        name: String,
    ) -> BoxFuture<'static, Result<Vec<SavedCredentialLocation>, VaultError>>;
    /// Where a credential is. The keyring is asked only if one was put there, or if `keyring` says that one is there.
    fn find(
        &self,
        vault: VaultSettings,
        name: String,
        keyring: bool,
    ) -> BoxFuture<'static, Result<Option<SavedCredentialLocation>, VaultError>>;
}

/// Where credentials are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultSettings {
    /// The directory for credentials in files; made when it is needed.
    pub directory: PathBuf,
    /// What may be used.
    pub store: CredentialStoreSetting,
}

/// What may be used to keep credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CredentialStoreSetting {
    /// The system keyring, or files where there is none.
    #[default]
    Auto,
    /// The system keyring only.
    Keyring,
    /// Files only.
    File,
}

/// A credential that was put away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveCredentialResult {
    /// Where it is.
    pub location: SavedCredentialLocation,
    /// Why it is not in the keyring, if it should be.
    pub fallback_reason: Option<String>,
}

/// Where a credential is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SavedCredentialLocation {
    /// In the system keyring.
    Keyring,
    /// In this file.
    File(PathBuf),
}

/// Why a credential cannot be kept, found or removed. Never quotes it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct VaultError(pub String);

/// Signs in by a code that is typed on a web page.
pub trait DeviceLogin: Send + Sync {
    /// Gives a code to `show` and waits until it was typed. Dropping the future ends it.
    fn login(
        &self,
        upstream: UpstreamSpec,
        show: Box<dyn FnOnce(DeviceCodePrompt) + Send>,
    ) -> BoxFuture<'static, Result<SecretString, VaultError>>;
}

/// What the person is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCodePrompt {
    /// What is to be typed.
    pub user_code: String,
    /// Where.
    pub verification_url: String,
    /// Until when, in minutes from now.
    pub expires_in_minutes: u64,
}
