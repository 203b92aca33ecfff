//! The error type of the index.

/// Why the index cannot be searched or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The disk is full.
    #[error("the disk is full: what is new cannot be found until there is room in the state directory")]
    DiskFull,
    /// The file cannot be written or read.
    #[error("the search index in the state directory cannot be used: check the permissions of search.db")]
    NoAccess,
    /// The file is damaged and has to be rebuilt.
    #[error("the search index is damaged and is made anew: search again in a while")]
    Damaged,
    /// The host has no index.
    #[error("this host does not search: it was started without an index")]
    Disabled,
    /// Any other error of SQLite.
    #[error("the search index could not be used: {0}")]
    Database(String),
}

impl From<rusqlite::Error> for SearchError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(
                ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure,
            ) => Self::NoAccess,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged,
            _ => Self::Database(error.to_string()),
        }
    }
}
