//! What tells our marks from everybody else's.

use std::fmt;

/// How many random bytes it is made of.
const NONCE_BYTES: usize = 16;

/// A word that one shell and this host were told. Programs of the same user can find it out; files and other machines whose
/// output is shown cannot. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ShellNonce(String);

impl ShellNonce {
    /// A new one.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; NONCE_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// A known one, for tests. Only letters and digits make sense.
    pub fn fixed(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// For the shell's environment.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ShellNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce")
    }
}
