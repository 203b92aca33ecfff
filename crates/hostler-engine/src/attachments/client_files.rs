//! Port for files that only the dispatching client can read. Surfaces implement it with host-to-client requests.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_attachments::AttachmentErrorCode;

/// Reads files of the dispatching client.
pub trait ClientFileReader: Send + Sync {
    /// Reads the contents of a client's URI, up to `most` bytes.
    fn read<'a>(&'a self, uri: &'a str, most: usize) -> BoxFuture<'a, Result<Vec<u8>, ClientFileError>>;

    /// Lists a client's directory, at most `most` entries; `None` if it is not a directory.
    fn list<'a>(
        &'a self,
        uri: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Option<DirectoryListing>, ClientFileError>>;
}

/// The contents of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryListing {
    /// Its directories and files, by name.
    pub entries: Vec<ClientDirectoryEntry>,
    /// Whether entries are missing.
    pub is_truncated: bool,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientDirectoryEntry {
    /// Its name.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// Why a client's file could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClientFileError {
    /// The client is not connected.
    #[error("the client that has the file is disconnected; send the message again from that client")]
    Gone,
    /// The client did not answer in time.
    #[error("the client did not send the file in time; try again")]
    TimedOut,
    /// The client has too many requests in progress.
    #[error("too many files of this client are being read; try again later")]
    Busy,
    /// The client reports that there is no such file.
    #[error("the client does not have the file")]
    NotFound,
    /// The client does not allow it.
    #[error("the client does not allow this host to read the file; allow it there and send the message again")]
    Denied,
    /// The client answered with another error.
    #[error("the client failed to read the file")]
    Failed,
    /// The client's answer is invalid.
    #[error("the client sent an invalid answer that cannot be read")]
    Malformed,
    /// The contents are larger than the limit.
    #[error("the file is larger than the limit of the host")]
    TooLarge,
}

impl ClientFileError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.attachment_code().as_str()
    }

    pub(super) fn attachment_code(self) -> AttachmentErrorCode {
        match self {
            Self::NotFound => AttachmentErrorCode::ArtifactMissing,
            Self::TooLarge => AttachmentErrorCode::TooLarge,
            Self::Malformed => AttachmentErrorCode::Corrupt,
            Self::Gone | Self::TimedOut | Self::Busy | Self::Denied | Self::Failed => {
                AttachmentErrorCode::TransportFailed
            }
        }
    }
}

/// A reader for clients without files.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoClientFiles;

impl ClientFileReader for NoClientFiles {
    fn read<'a>(&'a self, _: &'a str, _: usize) -> BoxFuture<'a, Result<Vec<u8>, ClientFileError>> {
        std::future::ready(Err(ClientFileError::Gone)).boxed()
    }

    fn list<'a>(&'a self, _: &'a str, _: usize) -> BoxFuture<'a, Result<Option<DirectoryListing>, ClientFileError>> {
        std::future::ready(Err(ClientFileError::Gone)).boxed()
    }
}
