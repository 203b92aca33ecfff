//! What an agent does, as events: turns, streamed parts, tool calls, requests, usage, background work and process
//! exit.
//!
//! Owns the categories of failures and the advice for each. Does not know how a driver derives events from the
//! agent's output.

use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    AgentRequestId, FileEdit, GateDecision, PermissionRequest, PlanRequest, QuestionRequest, ResumeToken, StderrTail,
    SteeringMessageId, SubAgentEvent, SubAgentId, ToolDisplay,
};

/// Names a streamed part within one connection. Never reused by a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartId(pub u64);

/// What a streamed part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// Text for the user.
    Text,
    /// The model's reasoning.
    Reasoning,
}

/// One event of an agent.
///
/// The order is that of the agent's output: a part starts before its deltas, usage comes before the turn's end.
#[derive(Clone)]
pub enum DriverEvent {
    /// A turn starts: the agent answers a prompt or works on its own initiative.
    TurnStarted(TurnCause),
    /// The model starts an answer to the agent itself (not to a sub-agent). The answer covers every steer injected
    /// before it.
    MessageStarted,
    /// A part starts.
    PartStarted {
        /// The new part.
        part: PartId,
        /// Text or reasoning.
        kind: PartKind,
    },
    /// Text is appended to a part.
    PartDelta {
        /// The part.
        part: PartId,
        /// What is appended.
        text: String,
    },
    /// The model starts to write a tool call.
    ToolStarted {
        /// The call's id, the agent's own.
        id: String,
        /// The tool's name as the agent knows it.
        name: String,
        /// How the call is shown before its input is known.
        display: ToolDisplay,
    },
    /// A piece of the call's input, as JSON text.
    ToolInputDelta {
        /// The call.
        id: String,
        /// The next piece.
        json: String,
    },
    /// The call's input is complete.
    ToolReady {
        /// The call.
        id: String,
        /// The whole input.
        input: Arc<RawValue>,
        /// How the call is shown.
        display: ToolDisplay,
    },
    /// The permission gate has decided on a call. Comes after [`ToolReady`](Self::ToolReady) if the call is
    /// displayed.
    ToolDecided {
        /// The call.
        id: String,
        /// The decision.
        decision: GateDecision,
    },
    /// A running call reports progress.
    ToolProgress {
        /// The call.
        id: String,
        /// How long it has been running.
        elapsed: Duration,
    },
    /// The call is over.
    ToolFinished {
        /// The call.
        id: String,
        /// How.
        outcome: ToolOutcome,
        /// The output that the model receives, bounded by the driver.
        output: String,
        /// The file that it changed.
        edit: Option<FileEdit>,
    },
    /// A person must decide whether a tool may run.
    PermissionRequested(PermissionRequest),
    /// The agent has questions for a person.
    QuestionsAsked(QuestionRequest),
    /// The agent proposes a plan.
    PlanProposed(PlanRequest),
    /// The agent no longer waits for an answer.
    RequestWithdrawn(AgentRequestId),
    /// Token use of the running turn so far; the last one before the end counts.
    Usage(TokenUsage),
    /// The token that continues the conversation from now on.
    ResumeToken(ResumeToken),
    /// The permission mode has changed: by the agent itself (it started to plan), or because it was set. The name is
    /// the agent's own. Comes within a turn or between turns.
    PermissionModeChanged(String),
    /// The agent waits before it calls its model again.
    Retrying {
        /// The number of the next attempt, from 1.
        attempt: u32,
        /// The maximum number of attempts.
        max_attempts: u32,
        /// The delay before the attempt.
        delay: Duration,
        /// The HTTP status that caused it.
        status: Option<u16>,
        /// What kind of failure that is.
        category: ApiErrorCategory,
    },
    /// A note about the running turn, for display.
    Notice(String),
    /// The model received a steer. Comes before the [`MessageStarted`] that answers it.
    ///
    /// [`MessageStarted`]: Self::MessageStarted
    SteerInjected(SteeringMessageId),
    /// The turn ended and the model will not receive the steer. Comes before [`TurnEnded`](Self::TurnEnded), or at
    /// once if no turn was running when the steer arrived.
    SteerUndelivered(SteeringMessageId),
    /// The agent starts to compact the conversation.
    CompactionStarted,
    /// The conversation was compacted.
    CompactionFinished {
        /// Its size before, in tokens.
        tokens_before: Option<u64>,
        /// Its size after, in tokens.
        tokens_after: Option<u64>,
    },
    /// Compaction failed, with the reason.
    CompactionFailed(String),
    /// A background task started or changed.
    BackgroundTaskChanged(BackgroundTask),
    /// A background task ended.
    BackgroundTaskEnded {
        /// The task.
        id: String,
    },
    /// An event of a sub-agent. Sub-agents that the turn waits for end before the turn does.
    SubAgent {
        /// The sub-agent.
        agent: SubAgentId,
        /// What happens.
        event: SubAgentEvent,
    },
    /// The agent's work on the current turn is over.
    TurnEnded(TurnOutcome),
    /// The process has exited and its tree is empty; no event follows.
    ProcessExited {
        /// `exit code 1`, `signal 9`.
        status: String,
        /// The redacted end of stderr.
        stderr: StderrTail,
    },
}

/// Why a turn started.
#[derive(Clone, PartialEq, Eq)]
pub enum TurnCause {
    /// The agent answers a prompt of the host.
    Prompt,
    /// The agent started it by itself, for this reason (a sentence for display).
    Agent(String),
}

/// Work that runs beside the turns.
#[derive(Clone, PartialEq, Eq)]
pub struct BackgroundTask {
    /// The agent's id for it, by which it is stopped.
    pub id: String,
    /// What it is.
    pub kind: BackgroundTaskKind,
    /// A short description of it.
    pub description: String,
    /// The call that started it.
    pub call_id: Option<String>,
}

/// What works in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundTaskKind {
    /// A command in a shell.
    Shell,
    /// A sub-agent.
    SubAgent,
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolOutcome {
    /// It succeeded.
    Succeeded,
    /// It ran and failed.
    Failed,
    /// It was not allowed to run.
    Denied,
}

/// Tokens and money of one turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenUsage {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
    /// The model that answered.
    pub model: Option<String>,
    /// The model's context window, if the agent reports it.
    pub context_window: Option<u64>,
    /// The part of it that the conversation fills after the latest answer.
    pub context_tokens: Option<u64>,
    /// What the turn costs by the agent's own prices, in US dollars.
    pub cost_usd: Option<f64>,
}

/// How the agent's work on a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnOutcome {
    /// Normally. `empty` if the turn produced nothing at all.
    Completed {
        /// An empty success is not displayed as a success.
        empty: bool,
    },
    /// It was interrupted.
    Interrupted,
    /// It failed.
    Failed(TurnFailure),
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFailure {
    /// The kind of failure.
    pub category: ApiErrorCategory,
    /// One sentence, redacted.
    pub message: String,
    /// The HTTP status, if one was involved.
    pub status: Option<u16>,
}

/// The kind of failure of the model's API or of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiErrorCategory {
    /// The credential is missing or refused (401, 403).
    Auth,
    /// Too many requests (429).
    RateLimit,
    /// The provider is overloaded (529, 5xx).
    Overloaded,
    /// The provider does not accept the request (400, 404).
    InvalidRequest,
    /// The provider does not accept an image or a document of the conversation (400).
    AttachmentRejected,
    /// The request is too large (413).
    TooLarge,
    /// The provider could not be reached.
    Network,
    /// A limit of turns or cost that was set for the agent.
    Limit,
    /// The agent's working directory does not exist.
    WorkingDirectory,
    /// The agent itself failed.
    Agent,
}

impl ApiErrorCategory {
    /// From an HTTP status.
    pub fn from_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            413 => Self::TooLarge,
            429 => Self::RateLimit,
            400..=499 => Self::InvalidRequest,
            502 | 504 => Self::Network,
            500..=599 => Self::Overloaded,
            _ => Self::Agent,
        }
    }

    /// The machine-readable name that clients see as the error's type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimit => "rateLimit",
            Self::Overloaded => "overloaded",
            Self::InvalidRequest => "invalidRequest",
            Self::AttachmentRejected => hostler_attachments::AttachmentErrorCode::ProviderRejected.as_str(),
            Self::TooLarge => "tooLarge",
            Self::Network => "network",
            Self::Limit => "limit",
            Self::WorkingDirectory => "workingDirectoryMissing",
            Self::Agent => "agent",
        }
    }

    /// What the user can do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Auth => "Check the provider's API key (HOSTLER_UPSTREAM_KEY), then send the message again.",
            Self::RateLimit => "Wait a moment, then send the message again.",
            Self::Overloaded => "The provider is overloaded. Try again later.",
            Self::InvalidRequest => "The provider rejected the request. Try another model or a shorter message.",
            Self::AttachmentRejected => {
                "The provider rejected an image or document in this conversation. Remove it and continue without it."
            }
            Self::TooLarge => "The conversation is too large for the provider. Start a new session.",
            Self::Network => "The provider could not be reached. Check the network, then send the message again.",
            Self::Limit => "Raise the limit or start a new session.",
            Self::WorkingDirectory => {
                "Create the directory again and resend the message, or start a session in another directory."
            }
            Self::Agent => "Send the message again, or start a new session.",
        }
    }
}
