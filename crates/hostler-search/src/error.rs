//! The error type of the index.

/// Why the index cannot be searched or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The disk is full.
    #[error("the disk is full; new content is not searchable until there is space for the state directory")]
    DiskFull,
    /// The file cannot be written or read.
    #[error("failed to open the search index; check the permissions of search.db in the state directory")]
    NoAccess,
    /// The file is damaged and has to be rebuilt.
    #[error("the search index is damaged and is being rebuilt; try again later")]
    Damaged,
    /// The host has no index.
    #[error("search is disabled: this host has no search index")]
    Disabled,
    /// Any other error of SQLite.
    #[error("the search index failed: {0}")]
    Database(String),
}

impl SearchError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::DiskFull => "diskFull",
            Self::NoAccess => "searchIndexInaccessible",
            Self::Damaged => "searchIndexDamaged",
            Self::Disabled => "searchDisabled",
            Self::Database(_) => "searchIndexFailed",
        }
    }
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
