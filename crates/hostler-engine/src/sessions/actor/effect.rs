//! What a component's step requires of another component. The actor's loop routes these effects.

use hostler_driver::{AgentRequestId, DriverEvent, ResumeToken, SubAgentEvent, SubAgentId};
use tokio::sync::oneshot;

use super::agent::AgentEvent;
use super::answers::FolderAnswer;
use super::background_work::BackgroundEvent;
use super::external_sync::SyncEvent;
use super::folder_trust::FolderEvent;
use super::image_removal::{ImageRemovalEvent, ImageRemovalResult};
use super::pending_messages::MessageEvent;
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::session::Dispatch;
use crate::sessions::turn::TurnInput;

/// An effect on another component. Effects are carried out in order; those that follow from one are carried out before
/// the next one, as if each were a call.
pub(super) enum SessionEffect {
    // ── Turns and messages ──
    /// Pass an input to the turn machine.
    Turn(TurnInput<TurnErrorDetails>),
    /// Pass the head of the queue to the turn machine; `resume` if a person continues the queue.
    QueueChanged { resume: bool },
    /// Publish whether the queue waits for a person.
    PublishQueuePaused,
    /// Pass an event to the pending messages. A failure is logged.
    Messages(MessageEvent),
    /// Update the summaries.
    UpdateSummaries,

    // ── The agent ──
    /// Pass an event to the agent's connection.
    Agent(AgentEvent),
    /// The agent reports a resume token.
    ResumeToken(ResumeToken),
    /// Store a client's change of the permission mode.
    AcceptModeChange(Box<Dispatch>),
    /// Pass an event to the image removal.
    ImageRemoval(ImageRemovalEvent<oneshot::Sender<ImageRemovalResult>>),
    /// Pass an event to the folder's trust, with the attempt to open an agent that it belongs to.
    Folder(u64, FolderEvent),
    /// Apply a person's answer about the folder.
    DecideFolder(FolderAnswer),

    // ── Requests, background work and sub-agents ──
    /// Display a request of the agent.
    DisplayRequest(DriverEvent),
    /// The agent has withdrawn a request.
    WithdrawRequest(AgentRequestId),
    /// Evaluate the pending calls again.
    ReevaluateCalls,
    /// Close the pending request of a finished call.
    CloseFinishedCall(String),
    /// Withdraw the requests of an ended sub-agent.
    WithdrawSubAgentRequests(String),
    /// Pass an event to the background work.
    Background(BackgroundEvent),
    /// Stop these pieces of background work.
    StopTasks(Vec<String>),
    /// An event of a sub-agent.
    SubAgent(SubAgentId, SubAgentEvent),

    // ── The transcript ──
    /// Pass an event to the transcript sync, if there is a transcript.
    Sync(Box<SyncEvent<Dispatch>>),
    /// Start a pass of the transcript sync.
    StartSyncPass,
    /// The queue has waited for the transcript sync, or continues to wait.
    SetQueueReleased(bool),
    /// Handle a dispatch that has waited for the transcript sync.
    AcceptDispatch(Box<Dispatch>),
}

impl SessionEffect {
    /// Whether it is an input of the turn machine. After the last one of a series, the state of the queue is published.
    pub(super) fn is_turn_input(&self) -> bool {
        matches!(self, Self::Turn(_) | Self::QueueChanged { .. })
    }
}
