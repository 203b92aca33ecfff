//! Where an upstream's credential comes from. It is asked before every call, so that a new one counts without a
//! restart.

pub(crate) mod keyring;
pub(crate) mod vault;

use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use secrecy::{ExposeSecret, SecretString};

/// More is not a credential but a wrong path.
const MAX_CREDENTIAL_FILE_BYTES: u64 = 64 * 1024;

/// Gives the credential of one upstream.
pub trait CredentialSource: Send + Sync + fmt::Debug {
    /// The credential as it is now; nothing if none is configured. Asked before every call: be quick.
    ///
    /// # Errors
    /// If there should be one and it cannot be had.
    fn current(&self) -> Result<Option<SecretString>, CredentialError>;

    /// Whether there is one, as far as can be said without asking anybody who may have to wait for a person.
    fn status(&self) -> CredentialStatus {
        if self.current().is_ok() { CredentialStatus::Ready } else { CredentialStatus::Missing }
    }

    /// The same without waiting for anybody: one who has to be waited for is asked, and gives it another time.
    ///
    /// # Errors
    /// If there should be one and it cannot be had, or not yet.
    fn try_current(&self) -> Result<Option<SecretString>, CredentialError> {
        self.current()
    }

    /// What tells one credential from the next without looking at them; nothing where there is never another one.
    fn version(&self) -> Option<CredentialVersion> {
        None
    }

    /// The upstream refused this one: what was kept of it is forgotten.
    fn mark_rejected(&self, _secret: &SecretString) {}

    /// The upstream took this one: an earlier refusal was a mistake.
    fn mark_accepted(&self, _secret: &SecretString) {}
}

/// When a credential was put where it is, and how long it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CredentialVersion(Option<SystemTime>, u64);

impl CredentialVersion {
    /// The stamp of a file; nothing if it is not there.
    fn of_file(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().as_ref().map(Self::from)
    }
}

impl From<&Metadata> for CredentialVersion {
    fn from(about: &Metadata) -> Self {
        Self(about.modified().ok(), about.len())
    }
}

/// Whether an upstream can be called, as far as its credential goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialStatus {
    /// There is one, or none is needed.
    Ready,
    /// There is none.
    Missing,
    /// There was one, and it is not good any more.
    Expired,
}

/// Why a credential that should be there is not. Never quotes it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct CredentialError(pub String);

/// A credential that never changes, or none at all.
#[derive(Debug, Clone, Default)]
pub struct FixedCredential(pub Option<SecretString>);

impl CredentialSource for FixedCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        Ok(self.0.clone())
    }
}

/// A credential that should be there and is not: every call is told what to do about it.
#[derive(Debug, Clone)]
pub struct MissingCredential(pub String);

impl CredentialSource for MissingCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        Err(CredentialError(self.0.clone()))
    }
}

/// A credential in a file, read again whenever the file has changed.
pub struct FileCredential {
    path: PathBuf,
    cached: Mutex<Option<(CredentialVersion, SecretString)>>,
}

impl FileCredential {
    /// The whole content of this file, without the white space around it.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, cached: Mutex::default() }
    }

    fn file_error(&self, why: impl fmt::Display) -> CredentialError {
        CredentialError(format!("the credential file {} cannot be used: {why}", self.path.display()))
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
            return Err(self.file_error("it is too large"));
        }
        let text = SecretString::from(std::fs::read_to_string(&self.path).map_err(|error| self.file_error(error))?);
        let secret = SecretString::from(text.expose_secret().trim());
        if secret.expose_secret().is_empty() {
            return Err(self.file_error("it is empty"));
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
    fn a_file_is_read_anew_when_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "  one\n").unwrap();
        let source = FileCredential::new(path.clone());
        assert_eq!(shown(&source), "one");
        std::fs::write(&path, "another\n").unwrap();
        assert_eq!(shown(&source), "another");
        // The same length within one tick of the clock is only noticed once the upstream has refused the old one.
        std::fs::write(&path, "renewed\n").unwrap();
        source.mark_rejected(&"another".into());
        assert_eq!(shown(&source), "renewed");
    }

    #[test]
    fn an_unusable_file_is_told_without_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let source = FileCredential::new(path.clone());
        let said = |source: &FileCredential| source.current().unwrap_err().to_string();
        assert!(said(&source).contains("key"), "{}", said(&source));
        std::fs::write(&path, " \n").unwrap();
        assert!(said(&source).contains("empty"));
        std::fs::write(&path, vec![b'x'; 70_000]).unwrap();
        assert!(said(&source).contains("too large"));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(source.current().is_err());
        assert!(!format!("{source:?}").contains("another"));
    }
}
