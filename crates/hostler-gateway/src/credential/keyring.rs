//! The system's keyring: the Secret Service on Linux, the Keychain on macOS.

use keyring::{Entry, Error};
use secrecy::{ExposeSecret, SecretString};

use super::CredentialError;

/// What all entries of ours are filed under.
const KEYRING_SERVICE: &str = "hostler";

/// Keeps secrets by name. Calls may take as long as a person takes to unlock it: never make them on a task.
pub trait Keyring: Send + Sync {
    /// The secret of this name, if there is one.
    ///
    /// # Errors
    /// If the keyring cannot be asked.
    fn get(&self, name: &str) -> Result<Option<SecretString>, CredentialError>;

    /// Keeps a secret, in place of the one that is there.
    ///
    /// # Errors
    /// If the keyring cannot be asked, or refuses.
    fn set(&self, name: &str, secret: &SecretString) -> Result<(), CredentialError>;

    /// Forgets a secret; says whether there was one.
    ///
    /// # Errors
    /// If the keyring cannot be asked, or refuses.
    fn delete(&self, name: &str) -> Result<bool, CredentialError>;
}

/// The keyring of the user's desktop. Nothing is connected before the first call.
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
    // Asked for first, since `Entry::new` hides the reason.
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

/// Only kinds of errors that quote nothing are told in the keyring's own words.
fn keyring_error(error: &Error) -> CredentialError {
    let why = match error {
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => cause.to_string(),
        Error::Ambiguous(_) => "it has several entries of this name".to_owned(),
        Error::BadEncoding(_) => "the entry is not text".to_owned(),
        Error::NoDefaultStore => "there is none".to_owned(),
        _ => "it does not do what it is asked".to_owned(),
    };
    CredentialError(format!("the system keyring cannot be used: {}", why.trim_end_matches('.')))
}
