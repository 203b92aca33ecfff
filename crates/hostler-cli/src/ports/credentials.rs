//! Ports for upstream credentials: the vault that stores them, and the sign-in on a web page.

use std::path::PathBuf;

use futures::future::BoxFuture;
use secrecy::SecretString;

use super::{UpstreamKind, UpstreamSpec};

/// Stores upstream credentials, by upstream name.
pub trait CredentialVaultPort: Send + Sync {
    /// Stores a credential and replaces an existing one.
    fn store(
        &self,
        vault: VaultSettings,
        name: String,
        secret: SecretString,
    ) -> BoxFuture<'static, Result<SaveCredentialResult, VaultError>>;
    /// Removes a credential; returns where it was.
    fn delete(
        &self,
        vault: VaultSettings,
        name: String,
    ) -> BoxFuture<'static, Result<Vec<SavedCredentialLocation>, VaultError>>;
    /// Finds a credential. The keyring is queried only if a credential was saved there, or if `keyring` is set.
    fn find(
        &self,
        vault: VaultSettings,
        name: String,
        keyring: bool,
    ) -> BoxFuture<'static, Result<Option<SavedCredentialLocation>, VaultError>>;
}

/// Where credentials are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VaultSettings {
    /// Directory for credentials in files; created when needed.
    pub directory: PathBuf,
    /// Allowed storage.
    pub store: CredentialStoreSetting,
}

/// Allowed storage for credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CredentialStoreSetting {
    /// The system keyring, or files if there is none.
    #[default]
    Auto,
    /// The system keyring only.
    Keyring,
    /// Files only.
    File,
}

/// Saved credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveCredentialResult {
    /// Where it is.
    pub location: SavedCredentialLocation,
    /// Why it is not in the keyring, if it should be.
    pub fallback_reason: Option<String>,
}

/// Location of a saved credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SavedCredentialLocation {
    /// In the system keyring.
    Keyring,
    /// In this file.
    File(PathBuf),
}

/// Why a credential cannot be saved, found or removed. Never quotes it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum VaultError {
    /// The credential store cannot be read or written.
    #[error("{0}")]
    Storage(String),
    /// Upstreams of this kind have no sign-in on a web page.
    #[error("upstreams of the kind {0} have no sign-in page")]
    NoDeviceLogin(UpstreamKind),
    /// The sign-in on the web page failed.
    #[error("{0}")]
    SignIn(String),
}

impl VaultError {
    /// Returns the code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Storage(_) => "credentialStoreFailed",
            Self::NoDeviceLogin(_) => "signInUnsupported",
            Self::SignIn(_) => "signInFailed",
        }
    }
}

/// Signs in with a code that the user types on a web page.
pub trait DeviceLogin: Send + Sync {
    /// Passes a code to `show` and waits until the user has entered it. Dropping the future cancels the sign-in.
    fn login(
        &self,
        upstream: UpstreamSpec,
        show: Box<dyn FnOnce(DeviceCodePrompt) + Send>,
    ) -> BoxFuture<'static, Result<SecretString, VaultError>>;
}

/// Device code for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCodePrompt {
    /// Code to type.
    pub user_code: String,
    /// Web page for the code.
    pub verification_url: String,
    /// Validity of the code, in minutes.
    pub expires_in_minutes: u64,
}
