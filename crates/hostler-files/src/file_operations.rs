use crate::path_locks::PathLocks;

/// Changes files within roots. There is one for a host: who changes the same file is served one after the other.
#[derive(Debug, Default)]
pub struct FileOperations {
    pub(crate) locks: PathLocks,
}
