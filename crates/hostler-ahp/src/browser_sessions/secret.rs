//! Random secrets and their hashes.

use std::fmt;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// The stored form of a secret.
pub(super) type SecretHash = [u8; 32];

/// A link's code, a cookie or a page key. Its debug output is redacted.
pub(crate) struct SignInSecret(String);

impl SignInSecret {
    /// Generates a secret of `N` bytes.
    pub(super) fn generate<const N: usize>() -> io::Result<Self> {
        Ok(Self(URL_SAFE_NO_PAD.encode(random_bytes::<N>()?)))
    }

    /// Wraps a secret that a request presents.
    pub(super) fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn hash(&self) -> SecretHash {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The plain text, for its recipient.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SignInSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// A random id, which is not secret.
pub(super) fn random_id<const N: usize>() -> io::Result<String> {
    Ok(hex(&random_bytes::<N>()?))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}
