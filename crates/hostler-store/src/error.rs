//! The error type of the store.

/// Why the store cannot carry out an operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("the disk is full: free space for the state directory; until then, the host accepts no changes")]
    DiskFull,
    /// The file cannot be written.
    #[error(
        "the state directory cannot be written: check its permissions, and that the disk is not damaged or read-only"
    )]
    ReadOnly,
    /// A newer version created the database.
    #[error(
        "the state directory was written by a newer version of Hostler: update Hostler, or use another --state-dir"
    )]
    TooNew,
    /// A client's contents exceed the quota.
    #[error(
        "the stored attachments have reached the quota of {0} bytes: delete sessions, or raise `quota` in [attachments]"
    )]
    Quota(u64),
    /// The sequencer has been stopped.
    #[error("the host is stopping")]
    Stopped,
    /// Any other error of the database.
    #[error("failed to access the database in the state directory: {0}")]
    Database(String),
}

impl StoreError {
    /// A stable name of the condition, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DiskFull => "diskFull",
            Self::ReadOnly => "stateNotWritable",
            Self::TooNew => "stateTooNew",
            Self::Quota(_) => "attachmentQuotaExceeded",
            Self::Stopped => "hostStopping",
            Self::Database(_) => "databaseFailed",
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::{ErrorCode, ffi};
        let code = error.sqlite_extended_error_code();
        let is_read = code.is_some_and(|code| [ffi::SQLITE_IOERR_READ, ffi::SQLITE_IOERR_SHORT_READ].contains(&code));
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::ReadOnly,
            // A file that is open already does not become read-only: writing to it fails.
            Some(ErrorCode::SystemIoFailure) if !is_read => Self::ReadOnly,
            _ => Self::Database(error.to_string()),
        }
    }
}

impl From<rusqlite_migration::Error> for StoreError {
    fn from(error: rusqlite_migration::Error) -> Self {
        match error {
            rusqlite_migration::Error::MigrationDefinition(
                rusqlite_migration::MigrationDefinitionError::DatabaseTooFarAhead,
            ) => Self::TooNew,
            rusqlite_migration::Error::RusqliteError { err, .. } => err.into(),
            other => Self::Database(other.to_string()),
        }
    }
}
