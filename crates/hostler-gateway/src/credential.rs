//! Sources of an upstream's credential: fixed, from a file, or missing. A source is queried before every call, so that
//! a new credential applies without a restart. Does not know upstreams.

pub(crate) mod keyring;
pub(crate) mod vault;

use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use secrecy::{ExposeSecret, SecretString};

/// Maximum size of a credential file; a larger file indicates a wrong path.
const MAX_CREDENTIAL_FILE_BYTES: u64 = 64 * 1024;

/// Provides the credential of one upstream.
pub trait CredentialSource: Send + Sync + fmt::Debug {
    /// Returns the current credential, or `None` if none is configured. Called before every request, so it must be
    /// fast.
    ///
    /// # Errors
    /// If a credential is configured but unavailable.
    fn current(&self) -> Result<Option<SecretString>, CredentialError>;

    /// Whether a credential exists, without querying anything that may wait for a person.
    fn status(&self) -> CredentialStatus {
        if self.current().is_ok() { CredentialStatus::Ready } else { CredentialStatus::Missing }
    }

    /// Like [`current`](Self::current), but never blocks: a slow source is queried in the background for a later call.
    ///
    /// # Errors
    /// If a credential is configured but unavailable, or not available yet.
    fn try_current(&self) -> Result<Option<SecretString>, CredentialError> {
        self.current()
    }

    /// Identifies the current credential without reading it; `None` if the source never changes.
    fn version(&self) -> Option<CredentialVersion> {
        None
    }

    /// Discards a cached credential, because the upstream rejected it.
    fn mark_rejected(&self, _secret: &SecretString) {}

    /// Clears an earlier rejection, because the upstream accepted this credential.
    fn mark_accepted(&self, _secret: &SecretString) {}
}

/// Modification time and length of a credential's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CredentialVersion(Option<SystemTime>, u64);

impl CredentialVersion {
    /// The version of a file; `None` if the file does not exist.
    fn of_file(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().as_ref().map(Self::from)
    }
}

impl From<&Metadata> for CredentialVersion {
    fn from(about: &Metadata) -> Self {
        Self(about.modified().ok(), about.len())
    }
}

/// Whether an upstream has a usable credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialStatus {
    /// A credential exists, or none is needed.
    Ready,
    /// No credential exists.
    Missing,
    /// A credential existed and is no longer valid.
    Expired,
}

/// Why a configured credential is unavailable. Never contains the credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// No credential is stored.
    #[error("{message}")]
    Missing {
        /// What is missing and what to do, from the configuration.
        message: String,
    },
    /// The credential's file cannot be read, or has no usable content.
    #[error("failed to read the credential file {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The credential's file cannot be written or deleted.
    #[error("failed to change {}: {reason}", .path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// The system keyring cannot be used.
    #[error("the system keyring is not available: {reason}")]
    KeyringUnavailable {
        /// The cause.
        reason: String,
    },
    /// The system keyring did not respond in time.
    #[error("the system keyring did not respond; unlock it and try again")]
    KeyringTimeout,
    /// The credential is in the system keyring, which the configuration excludes.
    #[error("the credential of {name} is in the system keyring, which the configuration does not allow")]
    KeyringDisabled {
        /// The upstream.
        name: String,
    },
    /// The name cannot belong to an upstream.
    #[error("{name:?} is not a valid upstream name; use lowercase letters, digits and hyphens")]
    InvalidName {
        /// The name.
        name: String,
    },
}

impl CredentialError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "credentialMissing",
            Self::Unreadable { .. } => "credentialUnreadable",
            Self::Unwritable { .. } => "credentialUnwritable",
            Self::KeyringUnavailable { .. } => "keyringUnavailable",
            Self::KeyringTimeout => "keyringTimeout",
            Self::KeyringDisabled { .. } => "keyringDisabled",
            Self::InvalidName { .. } => "invalidUpstreamName",
        }
    }
}

/// A credential that never changes, or none at all.
#[derive(Debug, Clone, Default)]
pub struct FixedCredential(pub Option<SecretString>);

impl CredentialSource for FixedCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        Ok(self.0.clone())
    }
}

/// A credential that is configured but missing: every call fails with this message.
#[derive(Debug, Clone)]
pub struct MissingCredential(pub String);

impl CredentialSource for MissingCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        Err(CredentialError::Missing { message: self.0.clone() })
    }
}

/// A credential in a file, which is read again whenever the file changes.
pub struct FileCredential {
    path: PathBuf,
    cached: Mutex<Option<(CredentialVersion, SecretString)>>,
}

impl FileCredential {
    /// Uses the content of this file, trimmed.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, cached: Mutex::default() }
    }

    fn file_error(&self, reason: impl ToString) -> CredentialError {
        CredentialError::Unreadable { path: self.path.clone(), reason: reason.to_string() }
    }
}

impl CredentialSource for FileCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        let about = std::fs::metadata(&self.path).map_err(|error| self.file_error(error))?;
        let stamp = CredentialVersion::from(&about);
        let mut read = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, secret)) = &*read
            && *seen == stamp
        {
            return Ok(Some(secret.clone()));
        }
        if about.len() > MAX_CREDENTIAL_FILE_BYTES {
            return Err(self.file_error("the file is too large"));
        }
        let text = SecretString::from(std::fs::read_to_string(&self.path).map_err(|error| self.file_error(error))?);
        let secret = SecretString::from(text.expose_secret().trim());
        if secret.expose_secret().is_empty() {
            return Err(self.file_error("the file is empty"));
        }
        *read = Some((stamp, secret.clone()));
        Ok(Some(secret))
    }

    fn version(&self) -> Option<CredentialVersion> {
        CredentialVersion::of_file(&self.path)
    }

    fn mark_rejected(&self, _secret: &SecretString) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl fmt::Debug for FileCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileCredential").field(&self.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &impl CredentialSource) -> String {
        source.current().unwrap().unwrap().expose_secret().to_owned()
    }

    #[test]
    fn file_credential_is_reread_when_the_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "  one\n").unwrap();
        let source = FileCredential::new(path.clone());
        assert_eq!(shown(&source), "one");
        std::fs::write(&path, "another\n").unwrap();
        assert_eq!(shown(&source), "another");
        // A file of the same length that changes within one clock tick is reread only after the upstream rejects the
        // old one.
        std::fs::write(&path, "renewed\n").unwrap();
        source.mark_rejected(&"another".into());
        assert_eq!(shown(&source), "renewed");
    }

    #[test]
    fn unusable_file_error_does_not_contain_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let source = FileCredential::new(path.clone());
        let error = |source: &FileCredential| source.current().unwrap_err().to_string();
        assert!(error(&source).contains("key"), "{}", error(&source));
        std::fs::write(&path, " \n").unwrap();
        assert!(error(&source).contains("empty"));
        std::fs::write(&path, vec![b'x'; 70_000]).unwrap();
        assert!(error(&source).contains("too large"));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(source.current().is_err());
        assert!(!format!("{source:?}").contains("another"));
    }
}
