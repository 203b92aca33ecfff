//! Access to the system keyring: the Secret Service on Linux, the Keychain on macOS. Stores secrets by name; does not
//! know upstreams.

use keyring::{Entry, Error};
use secrecy::{ExposeSecret, SecretString};

use super::CredentialError;

/// Service name of all entries.
const KEYRING_SERVICE: &str = "hostler";

/// Stores secrets by name. Calls may block until a person unlocks the keyring: never call them on an async task.
pub trait Keyring: Send + Sync {
    /// Returns the secret with this name, if it exists.
    ///
    /// # Errors
    /// If the keyring is unavailable.
    fn get(&self, name: &str) -> Result<Option<SecretString>, CredentialError>;

    /// Stores a secret, replacing an existing one.
    ///
    /// # Errors
    /// If the keyring is unavailable or rejects it.
    fn set(&self, name: &str, secret: &SecretString) -> Result<(), CredentialError>;

    /// Deletes a secret; returns whether it existed.
    ///
    /// # Errors
    /// If the keyring is unavailable or rejects it.
    fn delete(&self, name: &str) -> Result<bool, CredentialError>;
}

/// The keyring of the user's desktop. It connects at the first call.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemKeyring;

impl Keyring for SystemKeyring {
    fn get(&self, name: &str) -> Result<Option<SecretString>, CredentialError> {
        optional_entry(open_entry(name)?.get_password()).map(|secret| secret.map(SecretString::from))
    }

    fn set(&self, name: &str, secret: &SecretString) -> Result<(), CredentialError> {
        open_entry(name)?.set_password(secret.expose_secret()).map_err(|error| keyring_error(&error))
    }

    fn delete(&self, name: &str) -> Result<bool, CredentialError> {
        optional_entry(open_entry(name)?.delete_credential()).map(|deleted| deleted.is_some())
    }
}

fn open_entry(name: &str) -> Result<Entry, CredentialError> {
    // Checked first, because `Entry::new` hides the reason.
    if let Err(error) = Entry::store_status() {
        return Err(keyring_error(error));
    }
    Entry::new(KEYRING_SERVICE, name).map_err(|error| keyring_error(&error))
}

fn optional_entry<T>(result: Result<T, Error>) -> Result<Option<T>, CredentialError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(keyring_error(&error)),
    }
}

/// Uses the keyring's message only for error kinds that contain no stored data.
fn keyring_error(error: &Error) -> CredentialError {
    let reason = match error {
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => cause.to_string(),
        Error::Ambiguous(_) => "several entries have this name".to_owned(),
        Error::BadEncoding(_) => "the entry is not valid UTF-8".to_owned(),
        Error::NoDefaultStore => "no keyring service is running".to_owned(),
        _ => "the request failed".to_owned(),
    };
    CredentialError::KeyringUnavailable { reason: reason.trim_end_matches('.').to_owned() }
}
