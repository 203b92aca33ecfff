use std::io;

/// Why a file cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It lies outside of what was granted, by itself or by a link.
    #[error("it lies outside of the directories that this session may use")]
    Outside,
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
    /// It was written to while it was read.
    #[error("it changed while it was read")]
    Changed,
    /// The system refused.
    #[error("it cannot be read: {0}")]
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
            other => Self::Io(other.into()),
        }
    }
}
