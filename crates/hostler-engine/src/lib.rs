//! The engine: one actor per session, a pure turn machine, state that only the AHP reducers change, and the broadcaster
//! that publishes to subscribers.
//!
//! **Architecture Invariant:** the engine knows no JSON-RPC, no protocol version and no particular agent. Surfaces call
//! [`Engine`]; agents are behind `hostler_driver::Driver`; the gateway is behind the [`ModelGateway`] port.

#![forbid(unsafe_code)]

mod agents;
mod attachments;
mod catalog;
mod clients;
mod clock;
mod engine;
mod error;
mod external_sessions;
mod host;
mod host_tasks;
mod permissions;
mod resources;
mod sessions;
mod terminals;
mod uri;

pub use agents::install_progress::{ProgressRequest, ProgressUpdate};
pub use agents::model_gateway::{
    AgentStatus, ModelGateway, ModelInfo, ModelLease, SignInNeed, SignInResource, UpstreamSignInError,
    UpstreamSignInSequence,
};
pub use agents::pool::{AgentPoolConfig, AgentPoolLimits, AgentPoolStatus};
pub use attachments::{
    AttachmentContents, AttachmentPlanSummary, AttachmentRejection, ClientDirectoryEntry, ClientFileError,
    ClientFileReader, DirectoryListing, NoClientFiles,
};
pub use catalog::SessionPage;
pub use catalog::search::{SearchRequest, SearchResults};
pub use clients::broadcaster::{
    ChannelSnapshot, Deliveries, Delivery, HostNotification, HostNotificationKind, Subscriber, SubscriberId,
};
pub use clients::reconnect::{PresenceGuard, ReconnectOutcome};
pub use clock::SystemClock;
pub use engine::{
    CreateSession, DEFAULT_CLIENT_ABSENCE_TIMEOUT, DEFAULT_MAX_QUEUED_MESSAGES, DEFAULT_TURNS_IN_MEMORY, Engine,
    EngineConfig, StoredContent, TrustedFolders,
};
pub use error::{EngineError, InvalidParams};
pub use external_sessions::{ExternalSessionFilter, TranscriptCheckReport, TranscriptIssue, TranscriptIssueKind};
pub use hostler_attachments::AttachmentLimits;
pub use hostler_driver::{Clock, ImageSelection};
pub use hostler_files::{EntryKind, FileAccess, FileError, FileKind, WriteMode};
pub use hostler_search::{SearchError, SearchHit, SessionHits, TextKind};
pub use hostler_store::{
    AuditEntry, AuditRow, BlobOptions, JournalRetention, PublishedAction, PublishedRejection, StoreOptions,
};
pub use hostler_trust::{
    TrustAssessment, TrustDecision, TrustEntry, TrustError, TrustListing, TrustOptions, TrustState, TrustedBy,
};
pub use permissions::pending_requests::AnswerError;
pub use permissions::{PermissionConfig, UnattendedAnswer, UnattendedPolicy};
pub use resources::{
    GrantPolicy, MAX_RESOURCE_BYTES, ResourceContents, ResourceError, ResourceGrant, ResourceMetadata, Resources,
    SessionRoots, WatchPatternError, WatchResource, WriteResource,
};
pub use sessions::actor::{BackgroundOutput, ImageRemovalError};
pub use sessions::annotations::AnnotationError;
pub use sessions::background_on_stop::BackgroundOnStop;
pub use sessions::budget::{LimitKind, LimitReached, LimitWait, SessionBudget, SessionBudgetLimits, SessionUsage};
pub use sessions::config::ConfigValueError;
pub use sessions::dispatch_facts::DispatchFacts;
pub use sessions::paging::{OlderTurns, SnapshotTurns};
pub use sessions::rejection::ActionRejection;
pub use sessions::session::Dispatch;
pub use sessions::session_config::{SessionConfig, SessionConfigRequest};
pub use sessions::state::{ApplyError, ApplyOutcome, ChannelState, Reduce};
pub use sessions::turn::{
    AgentPhase, AgentPreparation, QueuedMessageId, TurnEffect, TurnEndReason, TurnId, TurnInput, TurnMachine, TurnPhase,
};
pub use terminals::command_runner::{
    CommandExit, CommandProgram, CommandRunner, CommandSpec, CommandStartError, RunningCommand,
};
pub use terminals::{
    ClaimError, CreateTerminal, DEFAULT_MAX_TERMINALS, DEFAULT_SCROLLBACK_BYTES, ShellLauncher, ShellSpec,
    ShellStartError, TerminalActionError, TerminalError, TerminalShell, TerminalSize, TerminalsConfig,
};
pub use uri::{
    ROOT_CHANNEL_URI, annotated_session, annotations_uri, default_chat_uri, is_session_uri, is_terminal_channel,
    session_of, sub_agent_chat_uri,
};
