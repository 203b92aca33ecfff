//! Errors of configuration values.

use serde_json::Value;

/// Why a configuration is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigValueError {
    /// The property cannot have this value.
    #[error("{key} cannot be {value}; use {expected}")]
    InvalidValue {
        /// The property.
        key: String,
        /// The value, as JSON.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// Two properties express different permission modes.
    #[error("{first} contradicts {second} and {third}; set one or the other")]
    Contradiction {
        /// The property of the permission mode.
        first: &'static str,
        /// VS Code's property for the mode.
        second: &'static str,
        /// VS Code's property for approvals.
        third: &'static str,
    },
    /// The property cannot be changed in a session.
    #[error("{key:?} cannot be changed in a session")]
    ReadOnly {
        /// The property.
        key: String,
    },
    /// A replacement needs the property.
    #[error("a replacement of the configuration must contain {key:?}")]
    Missing {
        /// The property.
        key: &'static str,
    },
    /// The configuration is too large.
    #[error("the configuration of the host would exceed {max_bytes} bytes; remove values first")]
    TooLarge {
        /// Maximum size in bytes.
        max_bytes: usize,
    },
}

impl ConfigValueError {
    pub(super) fn invalid(key: &str, value: &Value, expected: impl Into<String>) -> Self {
        Self::InvalidValue { key: key.to_owned(), value: value.to_string(), expected: expected.into() }
    }

    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidValue { .. } => "invalidConfigValue",
            Self::Contradiction { .. } => "contradictoryConfig",
            Self::ReadOnly { .. } => "configReadOnly",
            Self::Missing { .. } => "configValueMissing",
            Self::TooLarge { .. } => "configTooLarge",
        }
    }
}
