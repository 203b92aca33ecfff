//! The turn machine of one chat: what happens next, as a pure function.
//!
//! Two small machines side by side. The *turn* is what clients see; the *agent* is what the process is doing. They part
//! company after a cancel: the turn is over at once, the agent still has to settle.
//!
//! ```text
//!  turn:   none ──accepted──► pending ──sent──► running ──ended──► ending ──stored──► none ──► the queue's head
//!            ▲ │                 │                 │  ▲
//!            │ └──the agent began by itself────────┼──┘
//!            └───────cancelled───┴────cancelled────┘          (the client's own action is the end)
//!
//!  agent:  absent ──open──► opening ──► idle ⇄ busy ──cancel──► interrupting ──result──► idle
//!            ▲                 │        │ ▲                         │ too long
//!            │                 │        │ └── adapted ── adapting   │
//!            └──── closed ── closing ◄──┴───────────────────────────┘
//! ```
//!
//! A turn that the host itself works on is *local* from its acceptance to its end. The agent may do what it likes meanwhile;
//! if it works by itself when the host is done, the turn goes on as the agent's own.
//!
//! No clock, no I/O, no channels: the session's actor feeds inputs and carries out effects. The queue itself is part of
//! the chat's state; the machine knows its head, and whether it may start by itself.

mod machine;

use hostler_driver::TurnOutcome;

pub use self::machine::TurnMachine;

/// A turn's id, chosen by the client, or by the host for turns that it starts.
pub type TurnId = String;

/// The id of a message that waits for its turn.
pub type QueuedMessageId = String;

/// What clients see.
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
        /// Nobody asked for it: the agent began by itself.
        agent_initiated: bool,
    },
    /// The host itself works on it; the agent has nothing to do with it.
    Local(TurnId),
    /// It is over, but its end is not durable yet.
    Ending(TurnId),
}

/// What the process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPhase {
    /// There is none.
    Absent,
    /// It starts.
    Opening,
    /// It waits for a prompt.
    Idle,
    /// It is being told how to work from now on.
    ApplyingSettings,
    /// It works.
    Busy,
    /// It was told to stop and has not said that it did.
    Interrupting,
    /// Its tree is being ended.
    Closing,
}

/// What a live agent needs before it can take a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPreparation {
    /// Nothing: it works as it should.
    None,
    /// To be told how to work from now on.
    ApplySettings,
    /// To be closed and opened again.
    Reopen,
}

/// Why a turn is over.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEndReason<R> {
    /// The agent said how.
    AgentOutcome(TurnOutcome),
    /// The host is going down, or the session is disposed.
    Cancelled,
    /// The agent could not be opened, or it died.
    Failed(R),
}

/// What the actor tells the machine. `R` is the reason of a failure, opaque here.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnInput<R> {
    /// A turn was accepted and its acceptance is durable.
    Accepted {
        /// The turn.
        turn: TurnId,
        /// What the live agent, if there is one, needs first.
        preparation: AgentPreparation,
    },
    /// A turn was accepted that the host itself works on, and its acceptance is durable.
    AcceptedLocal(TurnId),
    /// The host has done what such a turn wants.
    LocalFinished(TurnId),
    /// The queue has changed.
    QueueChanged {
        /// Its first message.
        head: Option<QueuedMessageId>,
        /// A person wants it to go on.
        resume: bool,
    },
    /// A turn that the host wanted to start could not be accepted.
    StartFailed,
    /// The turn was cancelled; the cancellation is durable and published.
    Cancelled(TurnId),
    /// The agent is open and its handshake finished.
    AgentOpened,
    /// The agent could not be opened.
    AgentOpenFailed(R),
    /// The agent works as it should from now on.
    SettingsApplied,
    /// It cannot be told; it has to be opened anew.
    SettingsRefused,
    /// The prompt of a turn could not be made, or came too late, so it was not written.
    PromptNotSent {
        /// The turn.
        turn: TurnId,
        /// Why.
        reason: R,
    },
    /// The prompt of this turn was not written to the agent, and another agent has to take the turn.
    Reopen(TurnId),
    /// The agent began to work on our prompt.
    PromptStarted,
    /// The agent began to work without a prompt, for this reason.
    AgentStartedByItself(String),
    /// The turn that shows it is accepted, durable and published.
    AgentTurnAccepted(TurnId),
    /// The agent said something that belongs into the transcript.
    Output,
    /// What the agent does from here on belongs to another turn; this is durable and published.
    Split(TurnId),
    /// The agent's work is over.
    AgentFinished(TurnOutcome),
    /// It makes no sense to let the agent go on: end the turn now.
    Abort(R),
    /// The agent cannot be trusted to work under the policy that holds: end the turn and the process now.
    AbortAndClose(R),
    /// The process is gone.
    AgentExited(R),
    /// The turn's end is durable.
    EndStored,
    /// The agent did not react to an interrupt.
    InterruptTimedOut,
    /// Open an agent before there is a turn for it.
    Prewarm,
    /// The agent is not needed: if it has no turn, close it.
    RetireAgent,
    /// There is no agent, and until [`Input::Closed`] none may be opened.
    BlockOpening,
    /// The tree is empty.
    AgentClosed,
    /// No more turns: dispose or shutdown.
    Stop,
}

/// What the actor has to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEffect<R> {
    /// Make a turn of the queue's head, then say [`Input::Accepted`] or [`Input::NotStarted`].
    StartQueued(QueuedMessageId),
    /// Make a turn for what the agent does by itself, then say [`Input::OwnTurn`] or [`Input::NotStarted`].
    StartAgentTurn(String),
    /// Say in the turn that the agent does something else first.
    NoteAgentWork(String),
    /// Open an agent.
    OpenAgent,
    /// Tell the agent how to work from now on, then say [`Input::Adapted`] or [`Input::NotAdapted`].
    ApplySettings,
    /// Write this turn's prompt to the agent.
    SendPrompt(TurnId),
    /// Do what this turn wants, then say [`Input::LocalOver`].
    RunLocal(TurnId),
    /// End whatever the host does for turns.
    StopLocal,
    /// Put the output into the transcript.
    PublishOutput,
    /// Forget the output: its turn is over.
    DiscardOutput,
    /// Ask the agent to stop, and start the clock.
    Interrupt,
    /// End the tree now (this also gives up an attempt to open).
    CloseNow,
    /// End the tree politely; the conversation is continued by another process.
    CloseGracefully,
    /// Store and publish the turn's end, then say [`Input::EndStored`].
    EndTurn(TurnId, TurnEndReason<R>),
}
