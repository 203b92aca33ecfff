//! The contract between the engine and the agents it hosts.
//!
//! A [`Driver`] knows how to start one provider's executable and how to read what it says; a [`Connection`] is one live
//! agent process for one conversation. Everything that an agent does reaches the engine as [`DriverEvent`]s.
//!
//! **Architecture Invariant:** this crate knows nothing of AHP, clients, sequence numbers or any particular agent.

#![forbid(unsafe_code)]

mod archive;
mod clock;
mod connection;
mod event;
mod installer;
mod permission;
mod provider;
mod shown;
mod sub_agent;
mod text;
mod tool;
mod workspace;

pub use archive::{
    Archive, ArchiveError, Chronicle, Found, FoundConversation, Lead, Said, Stray, Tag, ToldTurn, TurnMark,
};
pub use clock::Clock;
pub use connection::{
    AgentCommand, CloseMode, Connection, ConnectionError, ConnectionFacts, ConversationStart, Endpoint, MAX_STEER,
    OpenError, OpenErrorKind, OpenSpec, Opened, PolicyChange, ResumeToken, Steer, SteerId,
};
pub use event::{
    ApiErrorCategory, BackgroundKind, BackgroundTask, DriverEvent, PartId, PartKind, TokenUsage, ToolOutcome,
    TurnCause, TurnFailure, TurnOutcome,
};
pub use installer::{InstallError, InstallErrorKind, InstallProgress, Installed, Installer, ProgressSink};
pub use permission::{
    Answer, Choice, ClosedGate, Gate, GatedCall, Gatekeeper, PermissionRequest, PlanRequest, Question, QuestionAnswer,
    QuestionKind, QuestionRequest, RequestId,
};
pub use provider::{Driver, DropError, Images, ProviderInfo};
pub use sub_agent::{SubAgentEvent, SubAgentId, SubAgentOutcome, SubAgentStart};
pub use text::{Prompt, StderrTail};
pub use tool::{FileEdit, ToolDisplay, ToolKind};
pub use workspace::{ConfigurationItem, ConfigurationKind, FolderConfiguration, FolderRule, WorkspaceConfiguration};
