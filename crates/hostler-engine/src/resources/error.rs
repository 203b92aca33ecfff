use hostler_files::{FileAccess, FileError};

use crate::EngineError;

/// Why something could not be done with a resource.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// No root holds it that allows so much.
    #[error("{message}")]
    Denied {
        /// What was asked for.
        uri: String,
        /// What would have to be granted.
        access: FileAccess,
        /// For a person.
        message: String,
    },
    /// The file is not as it has to be.
    #[error("{uri}: {error}")]
    File {
        /// What was asked for.
        uri: String,
        /// Why it cannot be had.
        error: FileError,
    },
    /// There is no such grant.
    #[error("there is no grant {0}")]
    GrantNotFound(String),
    /// There are as many as there may be.
    #[error("{0}")]
    TooMany(&'static str),
    /// A pattern cannot be read.
    #[error("{0}")]
    InvalidPattern(String),
    /// Something else.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ResourceError {
    /// What became of a file that was asked for under a URI, to be used in some way.
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
