//! Errors of operations on resources.

use hostler_files::{FileAccess, FileError};

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
    #[error("there is no grant {0}")]
    GrantNotFound(String),
    /// A limit is reached.
    #[error("{0}")]
    TooMany(&'static str),
    /// A pattern is invalid.
    #[error("{0}")]
    InvalidPattern(String),
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
                let sentence = format!(
                    "{uri} lies outside of what clients may {}: the directories of this host's sessions, and what was \
                     granted. Ask for it with resourceRequest, or open a session there.",
                    access_verb(access),
                );
                Self::Denied { uri, access, message: sentence }
            }
            error => Self::File { uri, error },
        }
    }
}

pub(super) fn access_verb(access: FileAccess) -> &'static str {
    match access {
        FileAccess::Browse => "look at",
        FileAccess::Read => "read",
        FileAccess::Write => "change",
    }
}
