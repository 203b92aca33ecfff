//! Token of the hosts of a state directory.

use std::io;
use std::path::Path;

use fs_err as fs;
use secrecy::{ExposeSecret as _, SecretString};

use super::directory::write_private_file;
use super::{HostLock, StateDir, StateError};

pub(super) const TOKEN_FILE: &str = "token";

impl StateDir {
    /// Returns the directory's token; the holder of the lock creates it once.
    pub(crate) fn load_or_create_token(&self, _lock: &HostLock) -> Result<SecretString, StateError> {
        let path = self.join(TOKEN_FILE);
        match read_token(&path) {
            Err(StateError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                let token = generate_token()?;
                write_private_file(&path, &format!("{}\n", token.expose_secret()))?;
                Ok(token)
            }
            result => result,
        }
    }
}

/// Returns whether a text is a valid token: it is used in URLs unescaped.
pub(crate) fn is_valid_token(token: &SecretString) -> bool {
    let token = token.expose_secret();
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Reads a token file.
pub(crate) fn read_token(path: &Path) -> Result<SecretString, StateError> {
    let token = SecretString::from(fs::read_to_string(path)?.trim().to_owned());
    if is_valid_token(&token) { Ok(token) } else { Err(StateError::BadToken(path.to_owned())) }
}

/// Generates 192 random bits.
fn generate_token() -> Result<SecretString, StateError> {
    let mut bytes = [0_u8; 24];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(SecretString::from(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[tokio::test]
    async fn token_is_created_once_and_reused() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = StateDir::open(scratch.path()).unwrap();
        let lock = HostLock::acquire(&directory).await.unwrap();
        let first = directory.load_or_create_token(&lock).unwrap();
        assert!(is_valid_token(&first) && first.expose_secret().len() >= 32);
        assert_eq!(first.expose_secret(), directory.load_or_create_token(&lock).unwrap().expose_secret());
        assert_eq!(fs::metadata(scratch.path().join(TOKEN_FILE)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn invalid_token_file_is_rejected_without_quoting_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("t");
        fs::write(&path, "two words\n").unwrap();
        let error = read_token(&path).unwrap_err().to_string();
        assert!(error.contains("does not contain a valid token") && !error.contains("two words"), "{error}");
    }
}
