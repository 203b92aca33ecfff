//! The turn machine of one chat: decides what follows from an event, as a pure function.
//!
//! It consists of two small machines. The *turn* is what clients see; the *agent* is what the process is doing. They
//! differ after a cancel: the turn is over at once, while the agent is still interrupting.
//!
//! ```text
//!  turn:   none ──accepted──► pending ──sent──► running ──ended──► ending ──stored──► none ──► the queue's head
//!            ▲ │                 │                 │  ▲
//!            │ └──agent started by itself──────────┼──┘
//!            └───────cancelled───┴────cancelled────┘          (the client's own action is the end)
//!
//!  agent:  absent ──open──► opening ──► idle ⇄ busy ──cancel──► interrupting ──result──► idle
//!            ▲                 │        │ ▲                         │ timeout
//!            │                 │        │ └─► applying settings     │
//!            └──── closed ── closing ◄──┴───────────────────────────┘
//! ```
//!
//! A message that is accepted while the agent is interrupting is held. A turn ends when its end is stored; nothing
//! starts in between. If the agent starts a turn of its own while a prompt is being written, a note in that turn
//! reports it, and the end of the agent's work is not taken for the prompt's end.
//!
//! A local turn (`!command`, `/rename`) excludes the agent; if the agent is working by itself when the local turn
//! finishes, the turn continues as the agent's.
//!
//! No clock, no I/O, no channels: the session's actor passes inputs and carries out effects. The queue is part of the
//! chat's state; the machine knows its head, and whether it may start automatically: not after a stop, a failure or a
//! restart, until a person sends, queues or reorders a message. One action (`turnStarted` with the queued message's id)
//! removes the head and starts it.
//!
//! The machine does not know sub-agents.

mod machine;

use hostler_driver::TurnOutcome;

pub use self::machine::TurnMachine;

/// A turn's id, chosen by the client, or by the host for turns that it starts.
pub type TurnId = String;

/// The id of a queued message.
pub type QueuedMessageId = String;

/// Phase of the turn, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnPhase {
    /// No turn.
    None,
    /// Accepted; its prompt has not been written to the agent.
    Pending(TurnId),
    /// The agent works on it.
    Running {
        /// The turn.
        turn: TurnId,
        /// Whether the agent started it by itself.
        agent_initiated: bool,
    },
    /// The host carries it out itself, without the agent.
    Local(TurnId),
    /// It is over, but its end is not durable yet.
    Ending(TurnId),
}

/// Phase of the agent's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPhase {
    /// No process.
    Absent,
    /// The process is starting.
    Opening,
    /// Waiting for a prompt.
    Idle,
    /// Settings are being applied.
    ApplyingSettings,
    /// Working.
    Busy,
    /// An interrupt was sent and is not confirmed yet.
    Interrupting,
    /// The process tree is being ended.
    Closing,
}

/// What a live agent needs before a turn's prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPreparation {
    /// Nothing: its settings match.
    None,
    /// Other settings, which a live agent accepts.
    ApplySettings,
    /// To be closed and opened again.
    Reopen,
}

/// Why a turn is over.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEndReason<R> {
    /// The agent reported the outcome.
    AgentOutcome(TurnOutcome),
    /// The host is stopping, or the session is being disposed of.
    Cancelled,
    /// The agent could not be opened, or its process ended.
    Failed(R),
}

/// An input of the machine, from the actor. `R` is the reason of a failure, opaque here.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnInput<R> {
    /// A turn was accepted and its acceptance is durable.
    Accepted {
        /// The turn.
        turn: TurnId,
        /// What the live agent, if there is one, needs first.
        preparation: AgentPreparation,
    },
    /// A local turn was accepted and its acceptance is durable.
    AcceptedLocal(TurnId),
    /// The host has carried out a local turn.
    LocalFinished(TurnId),
    /// The queue has changed.
    QueueChanged {
        /// Its first message.
        head: Option<QueuedMessageId>,
        /// Whether a person resumed the queue.
        resume: bool,
    },
    /// A turn that the host wanted to start could not be accepted.
    StartFailed,
    /// The turn was cancelled; the cancellation is durable and published.
    Cancelled(TurnId),
    /// The agent is open and its handshake is complete.
    AgentOpened,
    /// The agent could not be opened.
    AgentOpenFailed(R),
    /// The agent has accepted the settings.
    SettingsApplied,
    /// The agent has not accepted the settings; it has to be reopened.
    SettingsRefused,
    /// The prompt of a turn could not be created, or was too late, so it was not written.
    PromptNotSent {
        /// The turn.
        turn: TurnId,
        /// Why.
        reason: R,
    },
    /// The prompt of this turn was not written, and the agent has to be reopened for it.
    Reopen(TurnId),
    /// The agent started to work on the prompt.
    PromptStarted,
    /// The agent started to work without a prompt, for this reason.
    AgentStartedByItself(String),
    /// The turn for the agent's own work is accepted, durable and published.
    AgentTurnAccepted(TurnId),
    /// The agent produced output for the chat.
    Output,
    /// The agent's output belongs to another turn from here on; the split is durable and published.
    Split(TurnId),
    /// The agent has finished its work.
    AgentFinished(TurnOutcome),
    /// The agent cannot usefully continue: end the turn now.
    Abort(R),
    /// The agent may not work under the present permissions: end the turn and the process now.
    AbortAndClose(R),
    /// The process has ended.
    AgentExited(R),
    /// The turn's end is durable.
    EndStored,
    /// The agent did not react to an interrupt in time.
    InterruptTimedOut,
    /// Open an agent before there is a turn for it.
    Prewarm,
    /// The agent is not needed: close it if it has no turn.
    RetireAgent,
    /// There is no agent, and none may be opened until [`TurnInput::AgentClosed`].
    BlockOpening,
    /// The process tree is empty.
    AgentClosed,
    /// No more turns: dispose or shutdown.
    Stop,
}

/// An effect that the actor carries out, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEffect<R> {
    /// Start a turn from the queue's head, then pass [`TurnInput::Accepted`] or [`TurnInput::StartFailed`].
    StartQueued(QueuedMessageId),
    /// Start a turn for the agent's own work, then pass [`TurnInput::AgentTurnAccepted`] or [`TurnInput::StartFailed`].
    StartAgentTurn(String),
    /// Add a note to the turn that the agent works on something else first.
    NoteAgentWork(String),
    /// Open an agent.
    OpenAgent,
    /// Apply settings to the agent, then pass [`TurnInput::SettingsApplied`] or [`TurnInput::SettingsRefused`].
    ApplySettings,
    /// Write this turn's prompt to the agent.
    SendPrompt(TurnId),
    /// Carry out this local turn, then pass [`TurnInput::LocalFinished`].
    RunLocal(TurnId),
    /// Stop carrying out local turns.
    StopLocal,
    /// Publish the output in the chat.
    PublishOutput,
    /// Discard the output: its turn is over.
    DiscardOutput,
    /// Interrupt the agent, and start the timeout.
    Interrupt,
    /// End the process tree now (this also gives up an attempt to open).
    CloseNow,
    /// End the process tree gracefully; another process continues the conversation.
    CloseGracefully,
    /// Store and publish the turn's end, then pass [`TurnInput::EndStored`].
    EndTurn(TurnId, TurnEndReason<R>),
}
