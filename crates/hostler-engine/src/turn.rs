//! The turn machine of one chat: what happens next, as a pure function.
//!
//! Two small machines side by side. The *turn* is what clients see; the *agent* is what the process is doing. They part
//! company after a cancel: the turn is over at once, the agent still has to settle.
//!
//! ```text
//!  turn:   none ──accepted──► pending ──sent──► running ──ended──► ending ──stored──► none
//!            ▲                   │                 │
//!            └─────cancelled─────┴────cancelled────┘          (the client's own action is the end)
//!
//!  agent:  absent ──open──► opening ──► idle ⇄ busy ──cancel──► interrupting ──result──► idle
//!            ▲                 │         │                          │ too long
//!            └──── closed ── closing ◄───┴──────────────────────────┘
//! ```
//!
//! No clock, no I/O, no channels: the session's actor feeds inputs and carries out effects.

use hostler_driver::TurnOutcome;

/// A turn's id, chosen by the client.
pub type TurnId = String;

/// What clients see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnPhase {
    /// No turn.
    None,
    /// Accepted; its prompt has not been written to the agent.
    Pending(TurnId),
    /// The agent works on it.
    Running(TurnId),
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
    /// It works.
    Busy,
    /// It was told to stop and has not said that it did.
    Interrupting,
    /// Its tree is being ended.
    Closing,
}

/// Why a turn is over.
#[derive(Debug, Clone, PartialEq)]
pub enum End<R> {
    /// The agent said how.
    Agent(TurnOutcome),
    /// The host is going down, or the session is disposed.
    Cancelled,
    /// The agent could not be opened, or it died.
    Failed(R),
}

/// What the actor tells the machine. `R` is the reason of a failure, opaque here.
#[derive(Debug, Clone, PartialEq)]
pub enum Input<R> {
    /// A turn was accepted and its acceptance is durable. `reopen`: the live agent cannot take it as it is.
    Accepted {
        /// The turn.
        turn: TurnId,
        /// Close and open again before the prompt.
        reopen: bool,
    },
    /// The turn was cancelled; the cancellation is durable and published.
    Cancelled(TurnId),
    /// The agent is open and its handshake finished.
    Opened,
    /// The agent could not be opened.
    OpenFailed(R),
    /// The agent began to work without a prompt.
    BeganUnasked,
    /// The agent said something that belongs into the transcript.
    Output,
    /// The agent's work is over.
    Ended(TurnOutcome),
    /// It makes no sense to let the agent go on: end the turn now.
    GiveUp(R),
    /// The agent cannot be trusted to work under the policy that holds: end the turn and the process now.
    Distrusted(R),
    /// The process is gone.
    Gone(R),
    /// The turn's end is durable.
    EndStored,
    /// The agent did not react to an interrupt.
    InterruptExpired,
    /// Open an agent before there is a turn for it.
    Prepare,
    /// The agent is not needed: if it has no turn, close it.
    Retire,
    /// The tree is empty.
    Closed,
    /// No more turns: dispose or shutdown.
    Stop,
}

/// What the actor has to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect<R> {
    /// Open an agent.
    Open,
    /// Write this turn's prompt to the agent.
    Send(TurnId),
    /// Put the output into the transcript.
    Show,
    /// Forget the output: its turn is over.
    Drop,
    /// Ask the agent to stop, and start the clock.
    Interrupt,
    /// End the tree now (this also gives up an attempt to open).
    Close,
    /// End the tree politely; the conversation is continued by another process.
    CloseGracefully,
    /// Store and publish the turn's end, then say [`Input::EndStored`].
    End(TurnId, End<R>),
}

/// The machine. See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnMachine {
    turn: TurnPhase,
    agent: AgentPhase,
    stopped: bool,
}

impl Default for TurnMachine {
    fn default() -> Self {
        Self { turn: TurnPhase::None, agent: AgentPhase::Absent, stopped: false }
    }
}

impl TurnMachine {
    /// What clients see.
    pub fn turn(&self) -> &TurnPhase {
        &self.turn
    }

    /// What the process does.
    pub fn agent(&self) -> AgentPhase {
        self.agent
    }

    /// Whether a new turn can be accepted now.
    pub fn can_accept(&self) -> bool {
        !self.stopped && self.turn == TurnPhase::None
    }

    /// Whether this turn can be cancelled now.
    pub fn can_cancel(&self, turn: &str) -> bool {
        !self.stopped && matches!(&self.turn, TurnPhase::Pending(id) | TurnPhase::Running(id) if id == turn)
    }

    /// Moves the machine and says what follows.
    pub fn step<R>(&mut self, input: Input<R>) -> Vec<Effect<R>> {
        if self.stopped {
            return self.step_stopped(input);
        }
        match input {
            Input::Accepted { turn, reopen } => self.accepted(turn, reopen),
            Input::Cancelled(turn) => self.cancelled(&turn),
            Input::Opened => self.opened(),
            Input::OpenFailed(reason) => self.lost(reason, AgentPhase::Opening),
            Input::BeganUnasked => {
                if self.agent == AgentPhase::Idle {
                    self.agent = AgentPhase::Busy;
                }
                Vec::new()
            }
            Input::Output => match (&self.turn, self.agent) {
                (TurnPhase::Running(_), AgentPhase::Busy) => vec![Effect::Show],
                _ => vec![Effect::Drop],
            },
            Input::Ended(outcome) => self.ended(outcome),
            Input::GiveUp(reason) => self.give_up(reason),
            Input::Distrusted(reason) => self.distrusted(reason),
            Input::Gone(reason) => match self.agent {
                // The close in progress reports by itself.
                AgentPhase::Closing | AgentPhase::Absent => Vec::new(),
                phase => self.lost(reason, phase),
            },
            Input::EndStored => {
                if matches!(self.turn, TurnPhase::Ending(_)) {
                    self.turn = TurnPhase::None;
                }
                Vec::new()
            }
            Input::InterruptExpired => match self.agent {
                AgentPhase::Interrupting => {
                    self.agent = AgentPhase::Closing;
                    vec![Effect::Close]
                }
                _ => Vec::new(),
            },
            Input::Prepare => match (&self.turn, self.agent) {
                (TurnPhase::None, AgentPhase::Absent) => {
                    self.agent = AgentPhase::Opening;
                    vec![Effect::Open]
                }
                _ => Vec::new(),
            },
            Input::Retire => self.retire(),
            Input::Closed => self.closed(),
            Input::Stop => self.stop(),
        }
    }

    fn accepted<R>(&mut self, turn: TurnId, reopen: bool) -> Vec<Effect<R>> {
        if self.turn != TurnPhase::None {
            return Vec::new();
        }
        self.turn = TurnPhase::Pending(turn);
        match self.agent {
            AgentPhase::Idle if reopen => {
                self.agent = AgentPhase::Closing;
                vec![Effect::CloseGracefully]
            }
            // It was opened ahead, for another message than this one.
            AgentPhase::Opening if reopen => {
                self.agent = AgentPhase::Closing;
                vec![Effect::Close]
            }
            _ => self.proceed(),
        }
    }

    /// Closes an agent that has nothing to do. A turn that is accepted from now on waits for the close.
    fn retire<R>(&mut self) -> Vec<Effect<R>> {
        let effect = match (&self.turn, self.agent) {
            (TurnPhase::None, AgentPhase::Idle) => Effect::CloseGracefully,
            (TurnPhase::None, AgentPhase::Opening) => Effect::Close,
            _ => return Vec::new(),
        };
        self.agent = AgentPhase::Closing;
        vec![effect]
    }

    /// Brings a pending turn as far as the agent's phase allows.
    fn proceed<R>(&mut self) -> Vec<Effect<R>> {
        let TurnPhase::Pending(turn) = &self.turn else { return Vec::new() };
        match self.agent {
            AgentPhase::Absent => {
                self.agent = AgentPhase::Opening;
                vec![Effect::Open]
            }
            AgentPhase::Idle => {
                let turn = turn.clone();
                self.turn = TurnPhase::Running(turn.clone());
                self.agent = AgentPhase::Busy;
                vec![Effect::Send(turn)]
            }
            AgentPhase::Opening | AgentPhase::Busy | AgentPhase::Interrupting | AgentPhase::Closing => Vec::new(),
        }
    }

    fn cancelled<R>(&mut self, turn: &str) -> Vec<Effect<R>> {
        if !self.can_cancel(turn) {
            return Vec::new();
        }
        let was_running = matches!(self.turn, TurnPhase::Running(_));
        self.turn = TurnPhase::None;
        match self.agent {
            AgentPhase::Busy if was_running => {
                self.agent = AgentPhase::Interrupting;
                vec![Effect::Interrupt]
            }
            AgentPhase::Opening => {
                self.agent = AgentPhase::Closing;
                vec![Effect::Close]
            }
            _ => Vec::new(),
        }
    }

    fn opened<R>(&mut self) -> Vec<Effect<R>> {
        if self.agent != AgentPhase::Opening {
            // An attempt that was given up finished all the same; its close is under way.
            return Vec::new();
        }
        self.agent = AgentPhase::Idle;
        self.proceed()
    }

    /// The agent is not there (any more).
    fn lost<R>(&mut self, reason: R, phase: AgentPhase) -> Vec<Effect<R>> {
        if self.agent != phase {
            return Vec::new();
        }
        self.agent = AgentPhase::Absent;
        match (&self.turn, phase) {
            (TurnPhase::Running(turn), _) | (TurnPhase::Pending(turn), AgentPhase::Opening) => {
                let turn = turn.clone();
                self.turn = TurnPhase::Ending(turn.clone());
                vec![Effect::End(turn, End::Failed(reason))]
            }
            // A turn that was waiting for the lost agent to settle gets a new one.
            _ => self.proceed(),
        }
    }

    fn ended<R>(&mut self, outcome: TurnOutcome) -> Vec<Effect<R>> {
        match self.agent {
            AgentPhase::Busy => {
                self.agent = AgentPhase::Idle;
                if let TurnPhase::Running(turn) = &self.turn {
                    let turn = turn.clone();
                    self.turn = TurnPhase::Ending(turn.clone());
                    return vec![Effect::End(turn, End::Agent(outcome))];
                }
                self.proceed()
            }
            AgentPhase::Interrupting => {
                self.agent = AgentPhase::Idle;
                self.proceed()
            }
            AgentPhase::Absent | AgentPhase::Opening | AgentPhase::Idle | AgentPhase::Closing => Vec::new(),
        }
    }

    fn give_up<R>(&mut self, reason: R) -> Vec<Effect<R>> {
        let (TurnPhase::Running(turn), AgentPhase::Busy) = (&self.turn, self.agent) else { return Vec::new() };
        let turn = turn.clone();
        self.turn = TurnPhase::Ending(turn.clone());
        self.agent = AgentPhase::Interrupting;
        vec![Effect::Interrupt, Effect::End(turn, End::Failed(reason))]
    }

    fn distrusted<R>(&mut self, reason: R) -> Vec<Effect<R>> {
        if !matches!(self.agent, AgentPhase::Idle | AgentPhase::Busy | AgentPhase::Interrupting) {
            return Vec::new();
        }
        self.agent = AgentPhase::Closing;
        let mut effects = vec![Effect::Close];
        if let TurnPhase::Running(turn) = &self.turn {
            let turn = turn.clone();
            self.turn = TurnPhase::Ending(turn.clone());
            effects.push(Effect::End(turn, End::Failed(reason)));
        }
        effects
    }

    fn closed<R>(&mut self) -> Vec<Effect<R>> {
        if self.agent != AgentPhase::Closing {
            return Vec::new();
        }
        self.agent = AgentPhase::Absent;
        self.proceed()
    }

    fn stop<R>(&mut self) -> Vec<Effect<R>> {
        self.stopped = true;
        let mut effects = Vec::new();
        match std::mem::replace(&mut self.turn, TurnPhase::None) {
            TurnPhase::Pending(turn) | TurnPhase::Running(turn) => {
                self.turn = TurnPhase::Ending(turn.clone());
                effects.push(Effect::End(turn, End::Cancelled));
            }
            other => self.turn = other,
        }
        if !matches!(self.agent, AgentPhase::Absent | AgentPhase::Closing) {
            self.agent = AgentPhase::Closing;
            effects.push(Effect::Close);
        }
        effects
    }

    /// After a stop only the two things that are still under way may finish.
    fn step_stopped<R>(&mut self, input: Input<R>) -> Vec<Effect<R>> {
        match input {
            Input::EndStored => self.turn = TurnPhase::None,
            Input::Closed => self.agent = AgentPhase::Absent,
            Input::Output => return vec![Effect::Drop],
            _ => {}
        }
        Vec::new()
    }
}
