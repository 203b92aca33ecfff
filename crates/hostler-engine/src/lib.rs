//! The engine: one actor per session, a pure turn machine, state that only the AHP reducers change, and the broadcaster
//! that publishes to subscribers.
//!
//! **Architecture Invariant:** the engine knows no JSON-RPC, no protocol version and no particular agent. Surfaces call
//! [`Engine`]; agents are behind `hostler_driver::Driver`; the gateway is behind the [`ModelGateway`] port.

#![forbid(unsafe_code)]

mod action_mapper;
mod actor;
mod agent_pool;
mod annotations;
mod attachments;
mod background_on_stop;
mod broadcaster;
mod budget;
mod client_registry;
mod clock;
mod command_runner;
mod completion;
mod config;
mod diff_preview;
mod engine;
mod error;
mod external_sessions;
mod git;
mod host;
mod install_progress;
mod local_command;
mod model_gateway;
mod paging;
mod pending_requests;
mod permissions;
mod prompt_ids;
mod reconnect;
mod rejection;
mod resources;
mod root_channel;
mod search;
mod session;
mod session_catalog;
mod session_config;
mod session_gate;
mod session_record;
mod session_restore;
mod session_summary;
mod sign_in;
mod state;
mod sub_agent_chat;
mod terminals;
mod turn;
mod turn_storage;
mod uri;

pub use actor::{BackgroundOutput, ImageRemovalError};
pub use agent_pool::{AgentPoolConfig, AgentPoolLimits, AgentPoolStatus};
pub use annotations::AnnotationError;
pub use attachments::{
    AttachmentContents, AttachmentPlanSummary, AttachmentRejection, ClientDirectoryEntry, ClientFileError,
    ClientFileReader, DirectoryListing, NoClientFiles,
};
pub use background_on_stop::BackgroundOnStop;
pub use broadcaster::{
    ChannelSnapshot, Deliveries, Delivery, HostNotification, HostNotificationKind, Subscriber, SubscriberId,
};
pub use budget::{LimitKind, LimitReached, LimitWait, SessionBudget, SessionBudgetLimits, SessionUsage};
pub use clock::SystemClock;
pub use command_runner::{CommandExit, CommandProgram, CommandRunner, CommandSpec, CommandStartError, RunningCommand};
pub use config::ConfigValueError;
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
pub use install_progress::{ProgressRequest, ProgressUpdate};
pub use model_gateway::{
    AgentStatus, ModelGateway, ModelInfo, ModelLease, SignInNeed, SignInResource, UpstreamSignInError,
    UpstreamSignInSequence,
};
pub use paging::{OlderTurns, SnapshotTurns};
pub use pending_requests::AnswerError;
pub use permissions::{PermissionConfig, UnattendedAnswer, UnattendedPolicy};
pub use reconnect::{PresenceGuard, ReconnectOutcome};
pub use rejection::ActionRejection;
pub use resources::{
    GrantPolicy, MAX_RESOURCE_BYTES, ResourceContents, ResourceError, ResourceGrant, ResourceMetadata, Resources,
    SessionRoots, WatchPatternError, WatchResource, WriteResource,
};
pub use search::{SearchRequest, SearchResults};
pub use session::Dispatch;
pub use session_catalog::SessionPage;
pub use session_config::{SessionConfig, SessionConfigRequest};
pub use state::{ApplyError, ApplyOutcome, ChannelState, Reduce};
pub use terminals::{
    ClaimError, CreateTerminal, DEFAULT_MAX_TERMINALS, DEFAULT_SCROLLBACK_BYTES, ShellLauncher, ShellSpec,
    ShellStartError, TerminalActionError, TerminalError, TerminalShell, TerminalSize, TerminalsConfig,
};
pub use turn::{
    AgentPhase, AgentPreparation, QueuedMessageId, TurnEffect, TurnEndReason, TurnId, TurnInput, TurnMachine, TurnPhase,
};
pub use uri::{
    ROOT_CHANNEL_URI, annotated_session, annotations_uri, default_chat_uri, is_session_uri, is_terminal_channel,
    session_of, sub_agent_chat_uri,
};
