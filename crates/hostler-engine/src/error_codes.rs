//! Codes of other crates' errors that the engine passes on.

use hostler_driver::{ConnectionError, RemoveImagesError, TranscriptStoreError};
use hostler_files::FileError;
use hostler_rules::RuleStoreError;
use hostler_search::SearchError;
use hostler_store::StoreError;
use hostler_trust::TrustError;

/// An error with a stable code for programs.
pub(crate) trait ErrorCode {
    /// The code.
    fn code(&self) -> &'static str;
}

impl ErrorCode for StoreError {
    fn code(&self) -> &'static str {
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

impl ErrorCode for SearchError {
    fn code(&self) -> &'static str {
        match self {
            Self::DiskFull => "diskFull",
            Self::NoAccess => "searchIndexInaccessible",
            Self::Damaged => "searchIndexDamaged",
            Self::Disabled => "searchDisabled",
            Self::Database(_) => "searchIndexFailed",
        }
    }
}

impl ErrorCode for RuleStoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::File(_) => "rulesNotAvailable",
            Self::Set(_) => "invalidRules",
        }
    }
}

impl ErrorCode for TrustError {
    fn code(&self) -> &'static str {
        match self {
            Self::File(_) => "trustNotAvailable",
            Self::NotAFolder { .. } => "notADirectory",
            Self::TooBroad { .. } | Self::TooBroadWithSubfolders { .. } => "folderTooBroad",
            Self::InvalidConfiguration { .. } => "invalidConfiguration",
            Self::Changed { .. } => "folderChanged",
            Self::BelowTrusted { .. } => "parentFolderTrusted",
            Self::NotUtf8 { .. } => "pathNotUtf8",
            Self::TooManyFolders => "tooManyFolders",
        }
    }
}

impl ErrorCode for TranscriptStoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::Missing => "transcriptNotFound",
            Self::Failed(_) => "transcriptNotReadable",
            Self::Unreadable(_) => "transcriptInvalid",
        }
    }
}

impl ErrorCode for ConnectionError {
    fn code(&self) -> &'static str {
        match self {
            Self::RequestNotOpen => "requestNotPending",
            Self::Exited(_) => "agentExited",
            Self::Refused(_) => "agentRefused",
        }
    }
}

impl ErrorCode for RemoveImagesError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unsupported => "imageRemovalUnsupported",
            Self::Missing => "transcriptNotFound",
            Self::Busy => "agentBusy",
            Self::Failed(_) => "transcriptNotWritable",
        }
    }
}

impl ErrorCode for FileError {
    fn code(&self) -> &'static str {
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
