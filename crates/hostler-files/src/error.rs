//! Errors of file operations.

use std::io;

/// Why a file operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is outside the granted roots, by itself or through a link.
    #[error("the path is outside the directories that this session can use")]
    Outside,
    /// The file is a hard link to a file in an excluded directory.
    #[error("the file is a hard link to one of the host's own files")]
    Private,
    /// The path does not exist.
    #[error("no such file or directory")]
    NotFound,
    /// A pipe, a socket, a device, or an entry of procfs.
    #[error("not a regular file or directory")]
    Special,
    /// A directory where a file is expected, or the other way round.
    #[error("the path is a directory where a file is expected, or a file where a directory is expected")]
    WrongKind,
    /// The file exceeds the caller's size limit.
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    /// A directory has more entries than the caller's limit.
    #[error("the directory has more than {0} entries")]
    TooMany(usize),
    /// Directories are nested more deeply than the caller's limit.
    #[error("the directory tree is more than {0} levels deep")]
    TooDeep(usize),
    /// The file was written during the read.
    #[error("the file changed while it was read")]
    Changed,
    /// The name is already in use.
    #[error("a file or directory with that name already exists")]
    AlreadyExists,
    /// The file is not the version that the caller has seen.
    #[error("the file has changed since it was read; read it again")]
    Conflict,
    /// The directory to be removed is not empty.
    #[error("the directory is not empty; set `recursive` to delete its contents")]
    NotEmpty,
    /// One of source and target contains the other.
    #[error("the source and the target must not contain each other")]
    Nested,
    /// Another file system is mounted within the tree.
    #[error("another file system is mounted in the directory")]
    MountPoint,
    /// Too many levels of symbolic links.
    #[error("too many levels of symbolic links")]
    LinkLoop,
    /// The name cannot belong to a file.
    #[error("{0}")]
    InvalidName(&'static str),
    /// Another error of the operating system.
    #[error("the file operation failed: {0}")]
    Io(#[from] io::Error),
}

impl FileError {
    /// The code for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Outside => "pathOutsideRoots",
            Self::Private => "privateFile",
            Self::NotFound => "fileNotFound",
            Self::Special => "specialFile",
            Self::WrongKind => "wrongFileKind",
            Self::TooLarge(_) => "fileTooLarge",
            Self::TooMany(_) => "tooManyEntries",
            Self::TooDeep(_) => "directoryTooDeep",
            Self::Changed => "fileChanged",
            Self::AlreadyExists => "fileExists",
            Self::Conflict => "fileConflict",
            Self::NotEmpty => "directoryNotEmpty",
            Self::Nested => "nestedPaths",
            Self::MountPoint => "mountPoint",
            Self::LinkLoop => "symlinkLoop",
            Self::InvalidName(_) => "invalidPath",
            Self::Io(_) => "fileOperationFailed",
        }
    }
}

impl From<rustix::io::Errno> for FileError {
    fn from(errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match errno {
            // `INVAL` is the error of a name with a zero byte, which no file has.
            Errno::NOENT | Errno::NOTDIR | Errno::INVAL => Self::NotFound,
            // The error of opening a socket.
            Errno::NXIO => Self::Special,
            Errno::LOOP => Self::LinkLoop,
            Errno::EXIST => Self::AlreadyExists,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::ISDIR => Self::WrongKind,
            other => Self::Io(other.into()),
        }
    }
}
