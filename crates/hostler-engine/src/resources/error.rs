//! Errors of operations on resources.

use hostler_files::{FileAccess, FileError};

use super::watch::WatchPatternError;
use crate::EngineError;

/// Why an operation on a resource failed.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// No root with sufficient access contains it.
    #[error("{message}")]
    Denied {
        /// The requested resource.
        uri: String,
        /// The access that would have to be granted.
        access: FileAccess,
        /// Message for a person.
        message: String,
    },
    /// The operation on the file failed.
    #[error("{uri}: {error}")]
    File {
        /// The requested resource.
        uri: String,
        /// Why it failed.
        error: FileError,
    },
    /// The grant does not exist.
    #[error("grant {0} does not exist")]
    GrantNotFound(String),
    /// The limit on grants is reached.
    #[error("the limit of {max} grants is reached; revoke some first")]
    TooManyGrants {
        /// The limit.
        max: usize,
    },
    /// The limit on watches is reached.
    #[error("the limit of {max} watches is reached; unsubscribe from some first")]
    TooManyWatches {
        /// The limit.
        max: usize,
    },
    /// A pattern is invalid.
    #[error(transparent)]
    InvalidPattern(#[from] WatchPatternError),
    /// Another engine error.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ResourceError {
    /// Converts the error of a file operation, with the requested URI and access.
    pub(super) fn from_file_error(uri: &str, access: FileAccess, error: FileError) -> Self {
        let uri = uri.to_owned();
        match error {
            FileError::Outside => {
                let message = format!(
                    "{uri} is outside of the directories that clients may {}: the directories of this host's sessions, \
                     and granted ones. Request access with resourceRequest, or open a session there.",
                    access_verb(access),
                );
                Self::Denied { uri, access, message }
            }
            error => Self::File { uri, error },
        }
    }

    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "accessDenied",
            Self::File { error, .. } => error.code(),
            Self::GrantNotFound(_) => "grantNotFound",
            Self::TooManyGrants { .. } => "tooManyGrants",
            Self::TooManyWatches { .. } => "tooManyWatches",
            Self::InvalidPattern(error) => error.code(),
            Self::Engine(error) => error.code(),
        }
    }
}

pub(super) fn access_verb(access: FileAccess) -> &'static str {
    match access {
        FileAccess::Browse => "list",
        FileAccess::Read => "read",
        FileAccess::Write => "change",
    }
}
