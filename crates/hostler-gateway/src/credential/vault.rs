//! Stores credentials of upstreams: in the system keyring, or in private files where no keyring is available.
//!
//! The directory contains `NAME` with the credential, or a marker `NAME.keyring` if the keyring holds it. So the
//! keyring is queried only for entries that were stored there, and a host detects a new credential by the file's
//! timestamp.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::keyring::Keyring;
use super::{CredentialError, CredentialSource, CredentialStatus, CredentialVersion, FileCredential};

/// Maximum time a call waits for the keyring. A lookup takes longer only if a person has to unlock the keyring; a later
/// call then uses its result.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a credential is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialLocation {
    /// In the system's keyring.
    Keyring,
    /// In this file.
    File(PathBuf),
}

/// Result of storing a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedCredential {
    /// Where it is stored.
    pub location: CredentialLocation,
    /// Why the keyring was not used, if it was requested.
    pub keyring_error: Option<String>,
}

/// Stores credentials by the names of their upstreams.
#[derive(Clone)]
pub struct CredentialVault {
    directory: PathBuf,
    keyring: Option<Arc<dyn Keyring>>,
    allow_files: bool,
}

impl fmt::Debug for CredentialVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialVault")
            .field("directory", &self.directory)
            .field("keyring", &self.keyring.is_some())
            .field("files", &self.allow_files)
            .finish()
    }
}

impl CredentialVault {
    /// Stores files in this directory, which is created when needed.
    #[must_use]
    pub fn with_files(directory: PathBuf) -> Self {
        Self { directory, keyring: None, allow_files: true }
    }

    /// Uses the keyring, or files if the keyring is unavailable.
    #[must_use]
    pub fn with_keyring_or_files(directory: PathBuf, keyring: Arc<dyn Keyring>) -> Self {
        Self { directory, keyring: Some(keyring), allow_files: true }
    }

    /// Uses the keyring only.
    #[must_use]
    pub fn with_keyring_only(directory: PathBuf, keyring: Arc<dyn Keyring>) -> Self {
        Self { directory, keyring: Some(keyring), allow_files: false }
    }

    /// Stores a credential, replacing an existing one. May wait for a person: not for an async task.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub fn save(&self, name: &str, secret: &SecretString) -> Result<SavedCredential, CredentialError> {
        let (file, marker) = self.paths_for(name)?;
        let instead = match &self.keyring {
            None => None,
            Some(keyring) => match keyring.set(name, secret) {
                Ok(()) => {
                    self.write(&marker, &SecretString::from("The credential is in the system keyring.\n"))?;
                    self.remove(&file)?;
                    return Ok(SavedCredential { location: CredentialLocation::Keyring, keyring_error: None });
                }
                Err(error) if self.allow_files => Some(error.to_string()),
                Err(error) => return Err(error),
            },
        };
        self.write(&file, secret)?;
        self.remove(&marker)?;
        Ok(SavedCredential { location: CredentialLocation::File(file), keyring_error: instead })
    }

    /// Deletes a credential everywhere; returns where it was stored. May wait for a person: not for an async task.
    ///
    /// # Errors
    /// If it exists and cannot be deleted.
    pub fn delete(&self, name: &str) -> Result<Vec<CredentialLocation>, CredentialError> {
        let (file, marker) = self.paths_for(name)?;
        let mut found = Vec::new();
        if marker.exists() {
            match &self.keyring {
                Some(keyring) => {
                    if keyring.delete(name)? {
                        found.push(CredentialLocation::Keyring);
                    }
                }
                None => return Err(CredentialError::KeyringDisabled { name: name.to_owned() }),
            }
            self.remove(&marker)?;
        }
        if self.remove(&file)? {
            found.push(CredentialLocation::File(file));
        }
        Ok(found)
    }

    /// Where a credential is stored, without querying the keyring.
    #[must_use]
    pub fn locate(&self, name: &str) -> Option<CredentialLocation> {
        let (file, marker) = self.paths_for(name).ok()?;
        if file.is_file() {
            Some(CredentialLocation::File(file))
        } else {
            marker.is_file().then_some(CredentialLocation::Keyring)
        }
    }

    /// Returns a source of the stored credential. `expected` states that the keyring has an entry, even one that
    /// another program created; `missing` is the error message if no credential is stored.
    ///
    /// # Errors
    /// If the name is not a valid upstream name.
    pub fn credential_source(
        &self,
        name: &str,
        expected: bool,
        missing: Option<String>,
    ) -> Result<StoredCredential, CredentialError> {
        let (file, marker) = self.paths_for(name)?;
        Ok(StoredCredential {
            name: name.to_owned(),
            file: FileCredential::new(file.clone()),
            path: file,
            marker,
            keyring: self.keyring.clone(),
            is_expected_in_keyring: expected,
            missing_message: missing,
            lookup: Mutex::new(KeyringLookup::Idle),
        })
    }

    /// Paths of the credential file and of the keyring marker.
    fn paths_for(&self, name: &str) -> Result<(PathBuf, PathBuf), CredentialError> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || !name.bytes().all(fits) {
            return Err(CredentialError::InvalidName { name: name.to_owned() });
        }
        Ok((self.directory.join(name), self.directory.join(format!("{name}.keyring"))))
    }

    /// Replaces the file atomically; only the owner can read it.
    fn write(&self, path: &Path, text: &SecretString) -> Result<(), CredentialError> {
        let write = || -> io::Result<()> {
            create_private_directory(&self.directory)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            file.write_all(text.expose_secret().as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| CredentialError::Unwritable { path: path.to_owned(), reason: error.to_string() })
    }

    /// Removes a file; returns whether it existed.
    fn remove(&self, path: &Path) -> Result<bool, CredentialError> {
        match std::fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(CredentialError::Unwritable { path: path.to_owned(), reason: error.to_string() }),
        }
    }
}

#[cfg(unix)]
fn create_private_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if std::fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn create_private_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// The current credential of a [`CredentialVault`].
pub struct StoredCredential {
    name: String,
    path: PathBuf,
    file: FileCredential,
    marker: PathBuf,
    keyring: Option<Arc<dyn Keyring>>,
    is_expected_in_keyring: bool,
    missing_message: Option<String>,
    lookup: Mutex<KeyringLookup>,
}

/// State of a keyring lookup.
enum KeyringLookup {
    Idle,
    /// A thread is waiting for the keyring.
    Pending(Receiver<Result<Option<SecretString>, CredentialError>>),
    /// The result, valid until the marker file changes.
    Cached(Option<CredentialVersion>, SecretString),
}

impl StoredCredential {
    /// Loads the credential, waiting at most `timeout` for the keyring.
    fn load(&self, timeout: Duration) -> Result<Option<SecretString>, CredentialError> {
        if self.path.exists() {
            return self.file.current();
        }
        if !self.is_expected_in_keyring && !self.marker.exists() {
            return self.missing();
        }
        match &self.keyring {
            Some(keyring) => self.load_from_keyring(keyring, timeout),
            None => Err(CredentialError::KeyringDisabled { name: self.name.clone() }),
        }
    }

    fn load_from_keyring(
        &self,
        keyring: &Arc<dyn Keyring>,
        timeout: Duration,
    ) -> Result<Option<SecretString>, CredentialError> {
        let stamp = CredentialVersion::of_file(&self.marker);
        let mut lookup = match self.lookup.try_lock() {
            Ok(lookup) => lookup,
            // Another call holds the lock while it waits for the keyring.
            Err(TryLockError::WouldBlock) if timeout.is_zero() => return Err(CredentialError::KeyringTimeout),
            Err(TryLockError::WouldBlock) => self.lookup.lock().unwrap_or_else(PoisonError::into_inner),
            Err(TryLockError::Poisoned(lookup)) => lookup.into_inner(),
        };
        let waiting = match std::mem::replace(&mut *lookup, KeyringLookup::Idle) {
            KeyringLookup::Cached(seen, secret) if seen == stamp => {
                *lookup = KeyringLookup::Cached(seen, secret.clone());
                return Ok(Some(secret));
            }
            KeyringLookup::Pending(waiting) => waiting,
            KeyringLookup::Cached(..) | KeyringLookup::Idle => {
                spawn_keyring_lookup(Arc::clone(keyring), self.name.clone())?
            }
        };
        match run_blocking(|| waiting.recv_timeout(timeout)) {
            Ok(Ok(Some(secret))) => {
                *lookup = KeyringLookup::Cached(stamp, secret.clone());
                Ok(Some(secret))
            }
            Ok(Ok(None)) => self.missing(),
            Ok(Err(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) => {
                *lookup = KeyringLookup::Pending(waiting);
                Err(CredentialError::KeyringTimeout)
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(CredentialError::KeyringUnavailable { reason: "the lookup failed".to_owned() })
            }
        }
    }

    fn missing(&self) -> Result<Option<SecretString>, CredentialError> {
        match &self.missing_message {
            Some(message) => Err(CredentialError::Missing { message: message.clone() }),
            None => Ok(None),
        }
    }
}

/// Runs the lookup on its own thread, because the keyring library blocks and may wait for a person.
fn spawn_keyring_lookup(
    keyring: Arc<dyn Keyring>,
    name: String,
) -> Result<Receiver<Result<Option<SecretString>, CredentialError>>, CredentialError> {
    let (answer, waiting) = sync_channel(1);
    let look_up = move || {
        // The receiver may be gone already.
        let _ = answer.send(keyring.get(&name));
    };
    let thread = std::thread::Builder::new().name("keyring".to_owned()).spawn(look_up);
    thread.map_err(|error| CredentialError::KeyringUnavailable { reason: error.to_string() })?;
    Ok(waiting)
}

/// Blocks this thread; on a multi-threaded runtime its other tasks move to other threads first.
fn run_blocking<T>(wait: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

impl CredentialSource for StoredCredential {
    fn current(&self) -> Result<Option<SecretString>, CredentialError> {
        self.load(KEYRING_TIMEOUT)
    }

    fn try_current(&self) -> Result<Option<SecretString>, CredentialError> {
        self.load(Duration::ZERO)
    }

    fn version(&self) -> Option<CredentialVersion> {
        self.file.version().or_else(|| CredentialVersion::of_file(&self.marker))
    }

    fn status(&self) -> CredentialStatus {
        let is_stored = self.path.exists() || self.is_expected_in_keyring || self.marker.exists();
        if is_stored || self.missing_message.is_none() { CredentialStatus::Ready } else { CredentialStatus::Missing }
    }

    fn mark_rejected(&self, secret: &SecretString) {
        self.file.mark_rejected(secret);
        let mut lookup = self.lookup.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*lookup, KeyringLookup::Cached(..)) {
            *lookup = KeyringLookup::Idle;
        }
    }
}

impl fmt::Debug for StoredCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredCredential").field("name", &self.name).field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "vault_tests.rs"]
mod tests;
