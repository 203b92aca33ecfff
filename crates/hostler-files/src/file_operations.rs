//! Owner of the locks under which files are changed.

use crate::path_locks::PathLocks;

/// Changes files within roots. A host has one instance, so concurrent changes of the same file run one after the other.
#[derive(Debug, Default)]
pub struct FileOperations {
    pub(crate) locks: PathLocks,
}
