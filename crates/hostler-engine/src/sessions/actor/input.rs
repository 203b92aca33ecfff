//! The inputs of a session's actor.

use hostler_driver::{AgentRequestId, DriverEvent, ExternalConversation, ImageSelection, TranscriptStoreError};
use hostler_store::AuditEntry;
use tokio::sync::oneshot;

use super::agent::AgentTaskEvent;
use super::agent_requests::PreparedRequest;
use super::answers::AnswerWithRules;
use super::background_tasks::{BackgroundOutput, StopTaskResult};
use super::external_sync::SyncEvent;
use super::folder_assessment::StoredFolderDecision;
use super::idle_timer::IdleTimerEvent;
use super::image_removal::ImageRemovalResult;
use super::local_turns::LocalCommandEvent;
use super::unload::DisposeResult;
use crate::EngineError;
use crate::attachments::ChatView;
use crate::clients::broadcaster::Subscriber;
use crate::clients::completion::CompletionContext;
use crate::external_sessions::{ImportBatch, SyncPass};
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::paging::{PreparedTurns, SnapshotTurns, StoredPart};
use crate::sessions::session::Dispatch;
use crate::sessions::turn::TurnEndReason;

/// Inputs of a session's actor.
pub(crate) enum SessionInput {
    /// A client's action.
    Dispatch(Box<Dispatch>),
    /// A client subscribes to a channel.
    Subscribe(SubscribeRequest),
    /// Asks whether a channel belongs to this session.
    HasChannel(String, oneshot::Sender<bool>),
    /// Asks for the current state of a chat.
    ViewChat(String, oneshot::Sender<Option<ChatView>>),
    /// The session summary is due for publication.
    PublishSummary,
    /// The time for a client to reconnect is over.
    ClientReconnectTimeout(String),
    /// A client has left the session.
    ClientLeft(String),
    /// An event of the agent.
    AgentEvent(DriverEvent),
    /// A task for the agent has finished.
    AgentTask(AgentTaskEvent),
    /// The gate has made a decision.
    GateDecided(AuditEntry),
    /// The host's rules have changed.
    RulesChanged,
    /// A trust decision was made.
    TrustChanged,
    /// The idle window has ended, or the pool needs the agent's slot.
    IdleTimer(IdleTimerEvent),
    /// What is displayed with a request was read, or its time limit is over.
    RequestPrepared(Box<PreparedRequest>),
    /// The unattended policy answers a request.
    RequestTimedOut(AgentRequestId),
    /// The permanent rules of an answer were stored, or storing them failed.
    AnswerRulesStored(Box<AnswerWithRules>),
    /// A decision about the folder was stored, or storing it failed.
    FolderDecisionStored(Box<StoredFolderDecision>),
    /// Usage, limits or waits for limits have changed.
    BudgetChanged,
    /// The totals are due for publication.
    PublishBudget,
    /// Starting a queued message failed; try again.
    RetryQueue,
    /// Storing the turn's end failed; try again.
    RetryTurnEnd(String, TurnEndReason<TurnErrorDetails>),
    /// Storing the ends of sub-agents failed; try again.
    RetrySubAgentEnds,
    /// Stops a piece of background work.
    StopBackgroundTask(String, oneshot::Sender<StopTaskResult>),
    /// Reads the output of a piece of background work.
    ReadBackgroundOutput(String, oneshot::Sender<Result<BackgroundOutput, EngineError>>),
    /// Removes images from the conversation.
    RemoveImages(ImageSelection, oneshot::Sender<ImageRemovalResult>),
    /// Asks for the completion context of a chat.
    CompletionContext(String, oneshot::Sender<Option<CompletionContext>>),
    /// Output or end of a local command.
    LocalCommand(LocalCommandEvent),
    /// A timer of the transcript sync has elapsed.
    Sync(Box<SyncEvent<Dispatch>>),
    /// A pass of the transcript sync has ended, or failed.
    SyncPassed(Box<Result<SyncPass, TranscriptStoreError>>),
    /// Older turns were loaded from the transcript, or loading failed.
    OlderTurnsLoaded(Result<Box<ImportBatch>, TranscriptStoreError>),
    /// Retries the import of older turns.
    RetryImport,
    /// The transcript has changed; its current metadata.
    TranscriptChanged(Box<ExternalConversation>),
    /// A person sets or removes the session's tag.
    SetTag(Option<String>, oneshot::Sender<Result<(), EngineError>>),
    /// The git branch of the directory was read.
    GitBranchRead(Option<String>),
    /// Deletes the session.
    Dispose(oneshot::Sender<DisposeResult>),
    /// The host is shutting down.
    Shutdown(oneshot::Sender<()>),
}

/// A subscription request for the actor.
pub(crate) struct SubscribeRequest {
    pub(crate) channel: String,
    pub(crate) extent: SnapshotTurns,
    pub(crate) subscriber: Subscriber,
    pub(crate) token: u64,
    /// What was read from the store for the snapshot.
    pub(crate) prepared: PreparedTurns,
    pub(crate) reply: oneshot::Sender<Result<SubscribeOutcome, EngineError>>,
}

/// Result of a subscription request.
pub(crate) enum SubscribeOutcome {
    /// The snapshot is in the subscriber's queue.
    Subscribed,
    /// This part has to be read from the store first; then the request is repeated.
    ReadFirst(StoredPart, PreparedTurns),
}

impl SessionInput {
    /// Whether the input comes from the agent or a person; it restarts the window of an agent with a pending request.
    pub(super) fn is_activity(&self) -> bool {
        matches!(self, Self::Dispatch(_) | Self::AgentEvent(_))
    }
}
