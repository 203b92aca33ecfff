//! Errors of file operations.

use std::io;

/// Why a file operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is outside the granted roots, by itself or through a link.
    #[error("it lies outside of the directories that this session may use")]
    Outside,
    /// The file is a hard link to a file in an excluded directory.
    #[error("it is a hard link to one of the host's own files")]
    Private,
    /// The path does not exist.
    #[error("there is no such file")]
    NotFound,
    /// A pipe, a socket, a device, or an entry of procfs.
    #[error("it is neither a file nor a directory")]
    Special,
    /// A directory where a file is expected, or the other way round.
    #[error("it is not of the kind that is needed")]
    WrongKind,
    /// The file exceeds the caller's size limit.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// A directory has more entries than the caller's limit.
    #[error("it has more than {0} entries")]
    TooMany(usize),
    /// Directories are nested more deeply than the caller's limit.
    #[error("it is more than {0} directories deep")]
    TooDeep(usize),
    /// The file was written during the read.
    #[error("it changed while it was read")]
    Changed,
    /// The name is already in use.
    #[error("there is something of that name already")]
    AlreadyExists,
    /// The file is not the version that the caller has seen.
    #[error("it has changed since it was looked at; look again")]
    Conflict,
    /// The directory to be removed is not empty.
    #[error("the directory is not empty; say so if everything in it is to be removed")]
    NotEmpty,
    /// One of source and target contains the other.
    #[error("one of the two lies within the other")]
    Nested,
    /// Another file system is mounted within the tree.
    #[error("another file system is mounted within it")]
    MountPoint,
    /// Too many levels of symbolic links.
    #[error("its links lead in a circle")]
    LinkLoop,
    /// The name cannot belong to a file.
    #[error("{0}")]
    InvalidName(&'static str),
    /// Another error of the operating system.
    #[error("the system refuses: {0}")]
    Io(#[from] io::Error),
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
