use std::io;

/// Why a file cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It lies outside of what was granted, by itself or by a link.
    #[error("it lies outside of the directories that this session may use")]
    Outside,
    /// It is a hard link to a file of a directory that nothing may use.
    #[error("it is a hard link to one of the host's own files")]
    Private,
    /// There is none.
    #[error("there is no such file")]
    NotFound,
    /// A pipe, a socket, a device, or what the system tells of its processes.
    #[error("it is neither a file nor a directory")]
    Special,
    /// It is a directory where a file is wanted, or the other way round.
    #[error("it is not of the kind that is needed")]
    WrongKind,
    /// It is larger than the caller takes.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// A directory has more entries than the caller takes.
    #[error("it has more than {0} entries")]
    TooMany(usize),
    /// Directories lie within directories, more than the caller takes.
    #[error("it is more than {0} directories deep")]
    TooDeep(usize),
    /// It was written to while it was read.
    #[error("it changed while it was read")]
    Changed,
    /// There is something under that name already.
    #[error("there is something of that name already")]
    AlreadyExists,
    /// It is not what the caller has seen.
    #[error("it has changed since it was looked at; look again")]
    Conflict,
    /// A directory that is to be removed holds something.
    #[error("the directory is not empty; say so if everything in it is to be removed")]
    NotEmpty,
    /// A tree that is to be copied or moved lies in the other one.
    #[error("one of the two lies within the other")]
    Nested,
    /// Another file system begins within a tree.
    #[error("another file system is mounted within it")]
    MountPoint,
    /// Links lead in a circle.
    #[error("its links lead in a circle")]
    LinkLoop,
    /// No file can have such a name.
    #[error("{0}")]
    InvalidName(&'static str),
    /// The system refused.
    #[error("the system refuses: {0}")]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for FileError {
    fn from(errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match errno {
            // A name with a zero byte in it, which no file has.
            Errno::NOENT | Errno::NOTDIR | Errno::INVAL => Self::NotFound,
            // What opening a socket is answered with.
            Errno::NXIO => Self::Special,
            Errno::LOOP => Self::LinkLoop,
            Errno::EXIST => Self::AlreadyExists,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::ISDIR => Self::WrongKind,
            other => Self::Io(other.into()),
        }
    }
}
