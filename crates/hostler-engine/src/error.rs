use ahp_types::state::ProtectedResourceMetadata;
use hostler_driver::TranscriptStoreError;
use hostler_rules::RuleStoreError;
use hostler_search::SearchError;
use hostler_store::StoreError;
use hostler_trust::TrustError;

/// What the engine refuses, each with a sentence for a person.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// Nobody knows this channel.
    #[error("there is no channel {0}")]
    ChannelNotFound(String),
    /// Nobody knows this session.
    #[error("there is no session {0}")]
    SessionNotFound(String),
    /// The URI is taken.
    #[error("the session {0} exists already; choose another URI")]
    SessionExists(String),
    /// The provider is not offered here.
    #[error("this host does not offer the agent {0:?}")]
    ProviderNotFound(String),
    /// Nobody of that name was here lately.
    #[error("this host does not know the client; initialize instead")]
    ClientUnknown,
    /// Somebody has to sign in first, or with another token.
    #[error("{message}")]
    SignInNeeded {
        /// What to do.
        message: String,
        /// To what.
        resources: Vec<ProtectedResourceMetadata>,
    },
    /// Something in the request is wrong.
    #[error("{0}")]
    Invalid(String),
    /// There are no such contents.
    #[error("there is nothing under {0}")]
    ContentNotFound(String),
    /// The agent's own record of a conversation is in trouble.
    #[error(transparent)]
    TranscriptStore(#[from] TranscriptStoreError),
    /// Older turns are still to be taken in from the agent's record, which is in trouble.
    #[error("{0}; older turns are missing until it can be read, and asking again is fine")]
    ImportIncomplete(TranscriptStoreError),
    /// The host's rules are in trouble.
    #[error(transparent)]
    Rules(#[from] RuleStoreError),
    /// A decision about a folder was not taken.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The store is in trouble.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing can be found at the moment.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The host is going down.
    #[error("the host is stopping")]
    Stopping,
}
