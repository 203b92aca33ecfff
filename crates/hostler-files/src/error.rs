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
    /// A pipe, a socket or a device.
    #[error("it is neither a file nor a directory")]
    Special,
    /// It is a directory where a file is wanted, or the other way round.
    #[error("it is not of the kind that is needed")]
    WrongKind,
    /// It is larger than the caller takes.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// It was written to while it was read.
    #[error("it changed while it was read")]
    Changed,
    /// The system refused.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}
