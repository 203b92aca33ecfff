//! The nonce that distinguishes shell events from other output.

use std::fmt;

/// Number of random bytes in a nonce.
const NONCE_BYTES: usize = 16;

/// A random value that one shell and this host share. Programs of the same user can find it out; files and other
/// machines whose output is displayed cannot. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ShellNonce(String);

impl ShellNonce {
    /// Generates a nonce.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; NONCE_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Creates a nonce with a known value, for tests. Must contain only letters and digits.
    pub fn fixed(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The value, for the shell's environment.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ShellNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce")
    }
}
