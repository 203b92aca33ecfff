/// Why something could not be found, or noted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The disk has no room.
    #[error("the disk is full: what is new cannot be found until there is room in the state directory")]
    DiskFull,
    /// The file cannot be written or read.
    #[error("the search index in the state directory cannot be used: check the permissions of search.db")]
    NoAccess,
    /// The file is damaged. It is to be made anew.
    #[error("the search index is damaged and is made anew: search again in a while")]
    Damaged,
    /// There is none.
    #[error("this host does not search: it was started without an index")]
    Disabled,
    /// Anything else that SQLite says.
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
