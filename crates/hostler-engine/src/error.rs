//! `EngineError`: the errors of the engine's API. Surfaces map them to their protocols' codes.

use std::path::PathBuf;

use ahp_types::state::ProtectedResourceMetadata;
use hostler_driver::{ConnectionError, TranscriptStoreError};
use hostler_rules::RuleStoreError;
use hostler_search::SearchError;
use hostler_store::StoreError;
use hostler_trust::TrustError;

use crate::agents::model_gateway::UpstreamSignInError;
use crate::resources::MAX_SESSION_DIRECTORIES;
use crate::sessions::actor::ImageRemovalError;
use crate::sessions::config::ConfigValueError;

/// Errors of the engine, each with a message for a person and a code for programs.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// There is no such channel.
    #[error("channel {0} does not exist")]
    ChannelNotFound(String),
    /// There is no such session.
    #[error("session {0} does not exist")]
    SessionNotFound(String),
    /// The URI is in use.
    #[error("session {0} already exists; choose another URI")]
    SessionExists(String),
    /// The host does not offer this provider.
    #[error("this host does not offer the agent {0:?}")]
    ProviderNotFound(String),
    /// No client with this id was connected recently.
    #[error("this host does not know the client; send initialize instead of reconnect")]
    ClientUnknown,
    /// The request needs a sign-in, or a sign-in with another token.
    #[error("{message}")]
    SignInNeeded {
        /// The message for a person: what to do.
        message: String,
        /// The resources that need the sign-in.
        resources: Vec<ProtectedResourceMetadata>,
    },
    /// A parameter of the request is invalid.
    #[error(transparent)]
    InvalidParams(#[from] InvalidParams),
    /// There is no such content.
    #[error("this host has no content {0}")]
    ContentNotFound(String),
    /// Another process is running a turn of the session.
    #[error("another process is running a turn in this conversation; try again after that turn")]
    ActiveElsewhere,
    /// There is no such background work.
    #[error("no background work has the ID {0:?}")]
    BackgroundWorkNotFound(String),
    /// The background work has ended.
    #[error("the background work {0:?} has already ended")]
    BackgroundWorkEnded(String),
    /// The output of background work is not available.
    #[error("the output of the background work {id:?} is not available: {reason}")]
    BackgroundOutputUnavailable {
        /// The id of the work.
        id: String,
        /// Why.
        reason: String,
    },
    /// The agent did not carry out a request.
    #[error(transparent)]
    Agent(#[from] ConnectionError),
    /// Images were not removed.
    #[error(transparent)]
    ImageRemoval(#[from] ImageRemovalError),
    /// The agent's transcript cannot be read or written.
    #[error(transparent)]
    TranscriptStore(#[from] TranscriptStoreError),
    /// Older turns are not imported yet, and the agent's transcript cannot be read.
    #[error("{0}; older turns are missing until it can be read: try again later")]
    ImportIncomplete(TranscriptStoreError),
    /// The host's rules cannot be read or written.
    #[error(transparent)]
    Rules(#[from] RuleStoreError),
    /// A trust decision was not accepted.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The search index failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The key of the prompt ids cannot be read or created.
    #[error("failed to read or create the key of prompt IDs in the state directory: {0}")]
    PromptIdKey(String),
    /// The host has no driver.
    #[error("the host has no agent; configure at least one")]
    NoDriver,
    /// A task of the host failed.
    #[error("an internal task of the host failed: {0}")]
    TaskFailed(String),
    /// The host is shutting down.
    #[error("the host is stopping")]
    Stopping,
}

impl EngineError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ChannelNotFound(_) => "channelNotFound",
            Self::SessionNotFound(_) => "sessionNotFound",
            Self::SessionExists(_) => "sessionExists",
            Self::ProviderNotFound(_) => "providerNotFound",
            Self::ClientUnknown => "clientUnknown",
            Self::SignInNeeded { .. } => "signInNeeded",
            Self::InvalidParams(error) => error.code(),
            Self::ContentNotFound(_) => "contentNotFound",
            Self::ActiveElsewhere => "activeElsewhere",
            Self::BackgroundWorkNotFound(_) => "backgroundWorkNotFound",
            Self::BackgroundWorkEnded(_) => "backgroundWorkEnded",
            Self::BackgroundOutputUnavailable { .. } => "backgroundOutputUnavailable",
            Self::Agent(error) => error.code(),
            Self::ImageRemoval(error) => error.code(),
            Self::TranscriptStore(error) => error.code(),
            Self::ImportIncomplete(_) => "importIncomplete",
            Self::Rules(error) => error.code(),
            Self::Trust(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Search(error) => error.code(),
            Self::PromptIdKey(_) => "promptIdKeyNotAvailable",
            Self::NoDriver => "noAgent",
            Self::TaskFailed(_) => "internalError",
            Self::Stopping => "hostStopping",
        }
    }
}

/// Why a parameter of a request is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidParams {
    /// The URI is not a session URI.
    #[error("{0:?} is not a session URI; use claude:/<uuid>")]
    SessionUri(String),
    /// The URI is not a file URI.
    #[error("{0:?} is not a file URI")]
    FileUri(String),
    /// The path is relative.
    #[error("{} is not an absolute path", .0.display())]
    RelativePath(PathBuf),
    /// The directory does not exist.
    #[error("the directory {} does not exist", .0.display())]
    DirectoryNotFound(PathBuf),
    /// The directory belongs to the host.
    #[error("no session can work in {}: it belongs to the host itself, regardless of `session-roots`; choose another directory", .0.display())]
    PrivateDirectory(PathBuf),
    /// The directory is outside of the session roots.
    #[error(
        "no session can work in {}: it is outside of `session-roots`; choose another directory, or add it to that setting of the host",
        .0.display()
    )]
    OutsideSessionRoots(PathBuf),
    /// The session would have too many working directories.
    #[error("a session can have at most {MAX_SESSION_DIRECTORIES} working directories")]
    TooManyDirectories,
    /// A configuration value is invalid.
    #[error(transparent)]
    Config(#[from] ConfigValueError),
    /// The tag is empty, too long, or has several lines.
    #[error("a tag must be one line of 1 to {max_chars} characters")]
    Tag {
        /// Maximum length in characters.
        max_chars: usize,
    },
    /// The position is not in the text.
    #[error("the offset {0} is not a position in the text")]
    TextOffset(i64),
    /// The client is not subscribed to the chat.
    #[error("subscribe to the chat first: turns are loaded into its state")]
    NotSubscribed,
    /// The request needs a cursor.
    #[error("the request needs a cursor, because this connection has not received the state of the chat")]
    CursorRequired,
    /// The cursor is not one of this chat.
    #[error("the cursor was not issued by this host for this chat")]
    ForeignTurnCursor,
    /// The cursor does not match the first turn that the connection has.
    #[error("the cursor is not the chat's latest one on this connection; use the current turnsNextCursor")]
    StaleTurnCursor,
    /// The cursor is not one of the session list.
    #[error("the cursor was not issued by this host; list from the start")]
    SessionCursor,
    /// The sign-in cannot be accepted.
    #[error(transparent)]
    SignIn(#[from] UpstreamSignInError),
}

impl InvalidParams {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::SessionUri(_) => "invalidSessionUri",
            Self::FileUri(_) => "invalidFileUri",
            Self::RelativePath(_) => "pathNotAbsolute",
            Self::DirectoryNotFound(_) => "directoryNotFound",
            Self::PrivateDirectory(_) | Self::OutsideSessionRoots(_) => "directoryNotAllowed",
            Self::TooManyDirectories => "tooManyDirectories",
            Self::Config(error) => error.code(),
            Self::Tag { .. } => "invalidTag",
            Self::TextOffset(_) => "invalidOffset",
            Self::NotSubscribed => "notSubscribed",
            Self::CursorRequired => "cursorRequired",
            Self::ForeignTurnCursor | Self::SessionCursor => "invalidCursor",
            Self::StaleTurnCursor => "staleCursor",
            Self::SignIn(error) => error.code(),
        }
    }
}

impl From<ConfigValueError> for EngineError {
    fn from(error: ConfigValueError) -> Self {
        Self::InvalidParams(error.into())
    }
}
