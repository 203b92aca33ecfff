//! `EngineError`: the errors of the engine's API. Surfaces map them to their protocols' codes.

use ahp_types::state::ProtectedResourceMetadata;
use hostler_driver::TranscriptStoreError;
use hostler_rules::RuleStoreError;
use hostler_search::SearchError;
use hostler_store::StoreError;
use hostler_trust::TrustError;

/// Errors of the engine, each with a message for a person.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// There is no such channel.
    #[error("there is no channel {0}")]
    ChannelNotFound(String),
    /// There is no such session.
    #[error("there is no session {0}")]
    SessionNotFound(String),
    /// The URI is in use.
    #[error("the session {0} exists already; choose another URI")]
    SessionExists(String),
    /// The host does not offer this provider.
    #[error("this host does not offer the agent {0:?}")]
    ProviderNotFound(String),
    /// No client with this id was connected recently.
    #[error("this host does not know the client; initialize instead")]
    ClientUnknown,
    /// The request needs a sign-in, or a sign-in with another token.
    #[error("{message}")]
    SignInNeeded {
        /// The message for a person: what to do.
        message: String,
        /// The resources that need the sign-in.
        resources: Vec<ProtectedResourceMetadata>,
    },
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// There is no such content.
    #[error("there is nothing under {0}")]
    ContentNotFound(String),
    /// The agent's transcript cannot be read or written.
    #[error(transparent)]
    TranscriptStore(#[from] TranscriptStoreError),
    /// Older turns are not imported yet, and the agent's transcript cannot be read.
    #[error("{0}; older turns are missing until it can be read, and asking again is fine")]
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
    /// The host is shutting down.
    #[error("the host is stopping")]
    Stopping,
}
