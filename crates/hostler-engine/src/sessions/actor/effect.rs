//! What a component's step requires of another component. The actor's loop routes these effects.

use hostler_driver::{AgentRequestId, Answer};
use tokio::sync::oneshot;

use super::answers::FolderAnswer;
use super::background_work::BackgroundEvent;
use super::folder_trust::FolderSetup;
use super::image_removal::{ImageRemovalEvent, ImageRemovalResult};
use super::pending_messages::MessageEvent;
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::turn::TurnInput;

/// An effect on another component. Effects are carried out in order; those that follow from one are carried out before
/// the next one, as if each were a call.
pub(super) enum SessionEffect {
    /// Pass an input to the turn machine.
    Turn(TurnInput<TurnErrorDetails>),
    /// Pass an event to the background work.
    Background(BackgroundEvent),
    /// Pass an event of the agent to the pending messages.
    AgentMessages(MessageEvent),
    ImageRemoval(ImageRemovalEvent<oneshot::Sender<ImageRemovalResult>>),
    /// Answer a request of the agent.
    AnswerAgent(AgentRequestId, Answer),
    /// The live agent has this permission mode.
    SetAgentMode(&'static str),
    /// Stop these pieces of background work.
    StopTasks(Vec<String>),
    /// Close the pending request of a finished call.
    CloseFinishedCall(String),
    /// Withdraw the requests of an ended sub-agent.
    WithdrawSubAgentRequests(String),
    /// Evaluate the pending calls again.
    ReevaluateCalls,
    /// Apply a person's answer about the folder.
    DecideFolder(FolderAnswer),
    /// Assess the folder before the agent is opened.
    AssessBeforeOpening,
    /// Start the agent.
    StartAgent(FolderSetup),
    /// Do not prewarm an agent.
    AbandonPrewarm,
    /// Opening waits for a person's decision about the folder.
    AwaitTrustDecision,
    /// Restart opening, if it waits, with the folder configuration that applies now.
    RestartOpening,
    /// Opening was cancelled; no process exists.
    FinishClosing,
    /// Write the turn's prompt.
    SendPrompt(String),
    /// The turn's prompt is not written, because the turn has ended.
    DropPrompt(String),
}
