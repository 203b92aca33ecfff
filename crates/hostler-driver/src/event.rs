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

/// One thing that an agent did.
///
/// Order is the order of the agent's output: a part starts before its deltas, usage comes before the turn's end.
#[derive(Clone)]
pub enum DriverEvent {
    /// The agent began to work on something: a prompt of ours, or its own idea.
    TurnStarted(TurnCause),
    /// The model begins an answer to the agent itself (not to a sub-agent). What was folded in before is part of it.
    MessageStarted,
    /// A part begins.
    PartStarted {
        /// The new part.
        part: PartId,
        /// Text or reasoning.
        kind: PartKind,
    },
    /// A part grows.
    PartDelta {
        /// The part.
        part: PartId,
        /// What is appended.
        text: String,
    },
    /// The model began to write a tool call.
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
    /// The gate has decided on a call. Comes after [`ToolReady`](Self::ToolReady) where the call is shown at all.
    ToolDecided {
        /// The call.
        id: String,
        /// The decision.
        decision: GateDecision,
    },
    /// A call that runs gives a sign of life.
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
        /// What the model is told, bounded by the driver.
        output: String,
        /// The file that it changed.
        edit: Option<FileEdit>,
    },
    /// A person must say whether a tool may run.
    PermissionRequested(PermissionRequest),
    /// The agent has questions to a person.
    QuestionsAsked(QuestionRequest),
    /// The agent proposes a plan.
    PlanProposed(PlanRequest),
    /// The agent does not wait for an answer any longer.
    RequestWithdrawn(AgentRequestId),
    /// Token use of the running turn so far; the last one before the end counts.
    Usage(TokenUsage),
    /// How the conversation can be continued from now on.
    ResumeToken(ResumeToken),
    /// The agent works under another permission mode now: on its own (it began to plan), or because it was set. The name is
    /// the agent's own. Comes inside of a turn or between turns.
    PermissionModeChanged(String),
    /// The agent waits before it calls its model again.
    Retrying {
        /// Which attempt comes next, from 1.
        attempt: u32,
        /// How many there are at most.
        max_attempts: u32,
        /// How long it waits.
        delay: Duration,
        /// The HTTP status that caused it.
        status: Option<u16>,
        /// What kind of failure that is.
        category: ApiErrorCategory,
    },
    /// Something a person should know about the running turn.
    Notice(String),
    /// The model was told what a person said while it was working. Comes before the [`MessageStarted`] that answers it.
    ///
    /// [`MessageStarted`]: Self::MessageStarted
    SteerInjected(SteeringMessageId),
    /// The turn is over and the model was not told: it never will be. Comes before [`TurnEnded`](Self::TurnEnded), or
    /// when the words came, if the turn was over then.
    SteerUndelivered(SteeringMessageId),
    /// The agent shortens the conversation.
    CompactionStarted,
    /// The conversation was shortened.
    CompactionFinished {
        /// Its size before, in tokens.
        tokens_before: Option<u64>,
        /// And after.
        tokens_after: Option<u64>,
    },
    /// The conversation could not be shortened, and why.
    CompactionFailed(String),
    /// Work goes on beside the turns: it is new, or something about it has changed.
    BackgroundTaskChanged(BackgroundTask),
    /// It no longer does.
    BackgroundTaskEnded {
        /// The task.
        id: String,
    },
    /// Something happens to a sub-agent. What its parent waits for ends before the turn does.
    SubAgent {
        /// The sub-agent.
        agent: SubAgentId,
        /// What happens.
        event: SubAgentEvent,
    },
    /// The agent's work on the current turn is over.
    TurnEnded(TurnOutcome),
    /// The process is gone and its tree is swept; nothing follows.
    ProcessExited {
        /// `exit code 1`, `signal 9`.
        status: String,
        /// The redacted end of stderr.
        stderr: StderrTail,
    },
}

/// Why the agent works.
#[derive(Clone, PartialEq, Eq)]
pub enum TurnCause {
    /// It answers a prompt of ours.
    Prompt,
    /// It started by itself, for this reason, said to a person.
    Agent(String),
}

/// Work that goes on beside the turns.
#[derive(Clone, PartialEq, Eq)]
pub struct BackgroundTask {
    /// The agent's name for it, by which it is stopped.
    pub id: String,
    /// What it is.
    pub kind: BackgroundTaskKind,
    /// What it does, in a few words.
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
    /// It did what it should.
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
    /// The model's context window, where the agent tells it.
    pub context_window: Option<u64>,
    /// How much of it the conversation fills after the latest answer.
    pub context_tokens: Option<u64>,
    /// What the turn costs by the agent's own prices, in US dollars.
    pub cost_usd: Option<f64>,
}

/// How the agent's work on a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnOutcome {
    /// Normally. `empty` if the turn produced nothing at all.
    Completed {
        /// An empty success is not shown as a success.
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

/// What kind of trouble the model's API (or the agent) is in.
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
    /// The provider does not accept a picture or a document of the conversation (400).
    AttachmentRejected,
    /// The request is too large (413).
    TooLarge,
    /// The provider could not be reached.
    Network,
    /// A limit of turns or money that was set for the agent.
    Limit,
    /// The directory that the agent works in is gone.
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
            Self::Auth => "Check the upstream's key (HOSTLER_UPSTREAM_KEY) and send the message again.",
            Self::RateLimit => "Wait a little and send the message again.",
            Self::Overloaded => "The provider has trouble; try again later.",
            Self::InvalidRequest => {
                "The provider did not accept the request; another model or a shorter message may help."
            }
            Self::AttachmentRejected => {
                "The provider did not accept a picture or document of this conversation; drop it and go on without it."
            }
            Self::TooLarge => "The conversation is too large for the provider; start a new session.",
            Self::Network => "The provider could not be reached; check the network and send the message again.",
            Self::Limit => "Raise the limit or start a new session.",
            Self::WorkingDirectory => "Create it again and send the message again, or start a session in another one.",
            Self::Agent => "Send the message again, or start a new session.",
        }
    }
}
