//! The contract between the engine and agent drivers.
//!
//! A [`Driver`] starts one provider's executable and translates its output; an [`AgentConnection`] is one live agent
//! process for one conversation. Everything that an agent does reaches the engine as [`DriverEvent`]s. A
//! [`TranscriptStore`] reads the conversations that an agent has stored itself.
//!
//! **Architecture Invariant:** this crate knows nothing of AHP, clients, sequence numbers or any particular agent.

#![forbid(unsafe_code)]

mod clock;
mod connection;
mod event;
mod installer;
mod permission;
mod provider;
mod redacted_debug;
mod redacted_text;
mod sub_agent;
mod tool;
mod transcript_store;
mod workspace;

pub use clock::Clock;
pub use connection::{
    AgentConnection, AgentSettingChange, CloseMode, ConnectionError, ConnectionInfo, ConversationStart,
    GatewayEndpoint, MAX_STEERING_UTF16_UNITS, OpenError, OpenErrorKind, OpenSpec, OpenedConnection, ResumeToken,
    SlashCommand, SteeringMessage, SteeringMessageId,
};
pub use event::{
    ApiErrorCategory, BackgroundTask, BackgroundTaskKind, DriverEvent, PartId, PartKind, TokenUsage, ToolOutcome,
    TurnCause, TurnFailure, TurnOutcome,
};
pub use installer::{InstallError, InstallErrorKind, InstallProgress, InstallProgressSink, InstalledBuild, Installer};
pub use permission::{
    AgentRequestId, Answer, DenyAllGate, GateDecision, GatedCall, PermissionGate, PermissionRequest, PlanRequest,
    Question, QuestionAnswer, QuestionKind, QuestionOption, QuestionRequest,
};
pub use provider::{Driver, ImageSelection, ProviderInfo, RemoveImagesError};
pub use redacted_text::{Prompt, StderrTail};
pub use sub_agent::{SubAgentEvent, SubAgentId, SubAgentOutcome, SubAgentStart};
pub use tool::{FileEdit, ToolDisplay, ToolKind};
pub use transcript_store::{
    AbandonedTurn, ExternalActivity, ExternalConversation, LoadedTurn, Transcript, TranscriptScan, TranscriptStore,
    TranscriptStoreError, TurnIndexEntry, TurnOrigin,
};
pub use workspace::{ConfigurationItem, ConfigurationKind, FolderConfiguration, FolderRule, WorkspaceConfiguration};
