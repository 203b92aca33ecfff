//! Command line values that must not appear in logs or errors.

use std::ffi::OsString;
use std::fmt;

/// Sensitive command line value: a token, an address with a password, a message. It has no `Display`, and its
/// `Debug` is redacted.
#[derive(Clone)]
pub(crate) struct RedactedArg<T>(T);

impl<T> RedactedArg<T> {
    /// Returns the value, for the one place that needs it.
    pub(crate) fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for RedactedArg<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl From<OsString> for RedactedArg<OsString> {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl From<String> for RedactedArg<String> {
    fn from(text: String) -> Self {
        Self(text)
    }
}
