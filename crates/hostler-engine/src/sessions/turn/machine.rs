//! The turn machine's state and transitions. The inputs, effects and phases are in the parent module.

use hostler_driver::TurnOutcome;

use super::{AgentPhase, AgentPreparation, QueuedMessageId, TurnEffect, TurnEndReason, TurnId, TurnInput, TurnPhase};

/// The turn machine. See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnMachine {
    turn: TurnPhase,
    agent: AgentPhase,
    /// Whether the agent works on something that answers no prompt.
    is_agent_initiated: bool,
    queue_head: Option<QueuedMessageId>,
    /// Whether the queue waits for a person.
    queue_paused: bool,
    /// Whether a turn is being stored.
    turn_starting: bool,
    stopped: bool,
}

impl Default for TurnMachine {
    fn default() -> Self {
        Self {
            turn: TurnPhase::None,
            agent: AgentPhase::Absent,
            is_agent_initiated: false,
            queue_head: None,
            queue_paused: false,
            turn_starting: false,
            stopped: false,
        }
    }
}

impl TurnMachine {
    /// Creates a machine whose queue is paused: nothing from before a restart starts automatically.
    pub fn restored(queue_head: Option<QueuedMessageId>) -> Self {
        Self { queue_paused: queue_head.is_some(), queue_head, ..Self::default() }
    }

    /// The phase of the turn, as clients see it.
    pub fn turn_phase(&self) -> &TurnPhase {
        &self.turn
    }

    /// The phase of the agent's process.
    pub fn agent_phase(&self) -> AgentPhase {
        self.agent
    }

    /// Whether the agent's output answers the turn's own message. The agent may work on something of its own first, or
    /// still on a turn that is over.
    pub fn is_answering(&self) -> bool {
        let asked = matches!(self.turn, TurnPhase::Running { agent_initiated, .. } if agent_initiated || !self.is_agent_initiated);
        asked && self.agent == AgentPhase::Busy
    }

    /// Whether queued messages wait for a person's action.
    pub fn is_queue_paused(&self) -> bool {
        self.queue_paused && self.queue_head.is_some()
    }

    /// Whether a new turn can be accepted now.
    pub fn can_accept_turn(&self) -> bool {
        !self.stopped && !self.turn_starting && self.turn == TurnPhase::None
    }

    /// Whether this turn can be cancelled now.
    pub fn can_cancel_turn(&self, turn: &str) -> bool {
        let living = match &self.turn {
            TurnPhase::Pending(id) | TurnPhase::Running { turn: id, .. } | TurnPhase::Local(id) => id == turn,
            TurnPhase::None | TurnPhase::Ending(_) => false,
        };
        !self.stopped && living
    }

    /// Applies an input and returns the effects that follow.
    pub fn step<R>(&mut self, input: TurnInput<R>) -> Vec<TurnEffect<R>> {
        if self.stopped {
            return self.step_stopped(input);
        }
        match input {
            TurnInput::Accepted { turn, preparation: need } => self.accept_turn(turn, need),
            TurnInput::AcceptedLocal(turn) => self.accept_local_turn(turn),
            TurnInput::LocalFinished(turn) => self.finish_local_turn(turn),
            TurnInput::QueueChanged { head, resume: go_on } => {
                self.queue_head = head;
                self.queue_paused &= !go_on;
                self.start_next_queued()
            }
            TurnInput::StartFailed => {
                self.turn_starting = false;
                Vec::new()
            }
            TurnInput::Cancelled(turn) => self.cancel_turn(&turn),
            TurnInput::AgentOpened => self.finish_opening(),
            TurnInput::AgentOpenFailed(reason) => self.lose_agent(reason, AgentPhase::Opening),
            TurnInput::SettingsApplied => self.finish_applying_settings(),
            TurnInput::SettingsRefused => self.reopen_after_refusal(),
            TurnInput::PromptNotSent { turn, reason } => self.fail_unsent_turn(&turn, reason),
            TurnInput::Reopen(turn) => self.reopen_for_turn(&turn),
            TurnInput::PromptStarted => self.begin_prompt(),
            TurnInput::AgentStartedByItself(reason) => self.begin_agent_work(reason),
            TurnInput::AgentTurnAccepted(turn) => self.accept_agent_turn(turn),
            TurnInput::Output => {
                vec![if self.is_output_visible() { TurnEffect::PublishOutput } else { TurnEffect::DiscardOutput }]
            }
            TurnInput::Split(next) => {
                if let TurnPhase::Running { turn, .. } = &mut self.turn {
                    *turn = next;
                }
                Vec::new()
            }
            TurnInput::AgentFinished(outcome) => self.finish_agent_work(outcome),
            TurnInput::Abort(reason) => self.abort_turn(reason),
            TurnInput::AbortAndClose(reason) => self.abort_and_close(reason),
            TurnInput::AgentExited(reason) => match self.agent {
                // The close in progress reports its end.
                AgentPhase::Closing | AgentPhase::Absent => Vec::new(),
                phase => self.lose_agent(reason, phase),
            },
            TurnInput::EndStored => {
                if matches!(self.turn, TurnPhase::Ending(_)) {
                    self.turn = TurnPhase::None;
                }
                self.start_next_queued()
            }
            TurnInput::InterruptTimedOut => match self.agent {
                AgentPhase::Interrupting => self.close_agent(TurnEffect::CloseNow),
                _ => Vec::new(),
            },
            TurnInput::Prewarm => match (&self.turn, self.agent) {
                (TurnPhase::None, AgentPhase::Absent) if !self.turn_starting => {
                    self.agent = AgentPhase::Opening;
                    vec![TurnEffect::OpenAgent]
                }
                _ => Vec::new(),
            },
            // A turn that is accepted from now on waits for the close.
            TurnInput::RetireAgent => match (&self.turn, self.agent) {
                (TurnPhase::None, AgentPhase::Idle) if !self.turn_starting => {
                    self.close_agent(TurnEffect::CloseGracefully)
                }
                (TurnPhase::None, AgentPhase::Opening) if !self.turn_starting => self.close_agent(TurnEffect::CloseNow),
                _ => Vec::new(),
            },
            TurnInput::BlockOpening => {
                if self.turn == TurnPhase::None && self.agent == AgentPhase::Absent && !self.turn_starting {
                    self.agent = AgentPhase::Closing;
                }
                Vec::new()
            }
            TurnInput::AgentClosed => self.finish_closing(),
            TurnInput::Stop => self.stop(),
        }
    }

    // ── Turn start ────────────────────────────────────────────────────────────────────────────────────────────────

    fn accept_turn<R>(&mut self, turn: TurnId, need: AgentPreparation) -> Vec<TurnEffect<R>> {
        self.turn_starting = false;
        if self.turn != TurnPhase::None {
            return Vec::new();
        }
        // A person has sent a message, so the queue continues after it.
        self.queue_paused = false;
        self.turn = TurnPhase::Pending(turn);
        match (self.agent, need) {
            (AgentPhase::Idle, AgentPreparation::Reopen) => self.close_agent(TurnEffect::CloseGracefully),
            // The agent was prewarmed with other settings than this message needs.
            (AgentPhase::Opening, AgentPreparation::Reopen | AgentPreparation::ApplySettings) => {
                self.close_agent(TurnEffect::CloseNow)
            }
            (AgentPhase::Idle, AgentPreparation::ApplySettings) => {
                self.agent = AgentPhase::ApplyingSettings;
                vec![TurnEffect::ApplySettings]
            }
            _ => self.advance_pending_turn(),
        }
    }

    fn accept_local_turn<R>(&mut self, turn: TurnId) -> Vec<TurnEffect<R>> {
        self.turn_starting = false;
        if self.turn != TurnPhase::None {
            return Vec::new();
        }
        self.queue_paused = false;
        self.turn = TurnPhase::Local(turn.clone());
        vec![TurnEffect::RunLocal(turn)]
    }

    fn finish_local_turn<R>(&mut self, turn: TurnId) -> Vec<TurnEffect<R>> {
        if self.turn != TurnPhase::Local(turn.clone()) {
            return Vec::new();
        }
        if self.agent == AgentPhase::Busy && self.is_agent_initiated {
            // The agent's own work is displayed in this turn, so the turn ends with that work.
            self.turn = TurnPhase::Running { turn, agent_initiated: true };
            return Vec::new();
        }
        self.end_turn(turn, TurnEndReason::AgentOutcome(TurnOutcome::Completed { empty: false }))
    }

    /// Starts the head of the queue, if it may start automatically.
    fn start_next_queued<R>(&mut self) -> Vec<TurnEffect<R>> {
        match &self.queue_head {
            Some(head) if self.turn == TurnPhase::None && !self.queue_paused && !self.turn_starting => {
                self.turn_starting = true;
                vec![TurnEffect::StartQueued(head.clone())]
            }
            _ => Vec::new(),
        }
    }

    /// Advances a pending turn as far as the agent's phase allows.
    fn advance_pending_turn<R>(&mut self) -> Vec<TurnEffect<R>> {
        let TurnPhase::Pending(turn) = &self.turn else { return Vec::new() };
        match self.agent {
            AgentPhase::Absent => {
                self.agent = AgentPhase::Opening;
                vec![TurnEffect::OpenAgent]
            }
            AgentPhase::Idle => {
                let turn = turn.clone();
                self.turn = TurnPhase::Running { turn: turn.clone(), agent_initiated: false };
                self.agent = AgentPhase::Busy;
                self.is_agent_initiated = false;
                vec![TurnEffect::SendPrompt(turn)]
            }
            AgentPhase::Opening
            | AgentPhase::ApplyingSettings
            | AgentPhase::Busy
            | AgentPhase::Interrupting
            | AgentPhase::Closing => Vec::new(),
        }
    }

    fn finish_opening<R>(&mut self) -> Vec<TurnEffect<R>> {
        if self.agent != AgentPhase::Opening {
            // The attempt was given up before it finished; its close is in progress.
            return Vec::new();
        }
        self.agent = AgentPhase::Idle;
        self.advance_pending_turn()
    }

    fn finish_applying_settings<R>(&mut self) -> Vec<TurnEffect<R>> {
        if self.agent != AgentPhase::ApplyingSettings {
            return Vec::new();
        }
        self.agent = AgentPhase::Idle;
        self.advance_pending_turn()
    }

    fn reopen_after_refusal<R>(&mut self) -> Vec<TurnEffect<R>> {
        match self.agent {
            AgentPhase::ApplyingSettings => self.close_agent(TurnEffect::CloseGracefully),
            _ => Vec::new(),
        }
    }

    fn begin_prompt<R>(&mut self) -> Vec<TurnEffect<R>> {
        match self.agent {
            AgentPhase::Busy => {
                self.is_agent_initiated = false;
                Vec::new()
            }
            // No turn waits for an answer, so the agent started by itself.
            AgentPhase::Idle => self.begin_agent_work("The agent goes on by itself.".to_owned()),
            _ => Vec::new(),
        }
    }

    fn begin_agent_work<R>(&mut self, reason: String) -> Vec<TurnEffect<R>> {
        match (&self.turn, self.agent) {
            (TurnPhase::None, AgentPhase::Idle) if !self.turn_starting => {
                self.agent = AgentPhase::Busy;
                self.is_agent_initiated = true;
                self.turn_starting = true;
                vec![TurnEffect::StartAgentTurn(reason)]
            }
            (_, AgentPhase::Idle | AgentPhase::ApplyingSettings) => {
                self.agent = AgentPhase::Busy;
                self.is_agent_initiated = true;
                vec![TurnEffect::NoteAgentWork(reason)]
            }
            // The agent started its own work before it read the prompt.
            (TurnPhase::Running { agent_initiated: false, .. }, AgentPhase::Busy) if !self.is_agent_initiated => {
                self.is_agent_initiated = true;
                vec![TurnEffect::NoteAgentWork(reason)]
            }
            (_, AgentPhase::Busy) => vec![TurnEffect::NoteAgentWork(reason)],
            _ => Vec::new(),
        }
    }

    fn accept_agent_turn<R>(&mut self, turn: TurnId) -> Vec<TurnEffect<R>> {
        self.turn_starting = false;
        if self.turn == TurnPhase::None && self.agent == AgentPhase::Busy {
            self.turn = TurnPhase::Running { turn, agent_initiated: true };
            return Vec::new();
        }
        // The turn is already published, so it has to end.
        self.turn = TurnPhase::Ending(turn.clone());
        vec![TurnEffect::EndTurn(turn, TurnEndReason::AgentOutcome(TurnOutcome::Completed { empty: false }))]
    }

    /// Whether the agent's output belongs to a turn that clients see.
    /// Whether the agent's output belongs to the chat now; otherwise its turn is over.
    pub fn is_output_visible(&self) -> bool {
        match (&self.turn, self.agent) {
            _ if self.stopped => false,
            (TurnPhase::Running { .. }, AgentPhase::Busy) => true,
            (TurnPhase::Pending(_) | TurnPhase::Local(_), AgentPhase::Busy) => self.is_agent_initiated,
            _ => false,
        }
    }

    // ── Turn end ──────────────────────────────────────────────────────────────────────────────────────────────────

    fn cancel_turn<R>(&mut self, turn: &str) -> Vec<TurnEffect<R>> {
        if !self.can_cancel_turn(turn) {
            return Vec::new();
        }
        self.queue_paused = true;
        let was = std::mem::replace(&mut self.turn, TurnPhase::None);
        match (was, self.agent) {
            // The agent's own work belongs to no turn any more.
            (TurnPhase::Local(_), AgentPhase::Busy) if self.is_agent_initiated => {
                self.agent = AgentPhase::Interrupting;
                vec![TurnEffect::StopLocal, TurnEffect::Interrupt]
            }
            (TurnPhase::Local(_), _) => vec![TurnEffect::StopLocal],
            // The prompt is written, but the agent has not started it: its answer could not be distinguished from a
            // later one.
            (TurnPhase::Running { agent_initiated: false, .. }, AgentPhase::Busy) if self.is_agent_initiated => {
                self.close_agent(TurnEffect::CloseNow)
            }
            (TurnPhase::Running { .. }, AgentPhase::Busy) => {
                self.agent = AgentPhase::Interrupting;
                vec![TurnEffect::Interrupt]
            }
            (_, AgentPhase::Opening) => self.close_agent(TurnEffect::CloseNow),
            _ => Vec::new(),
        }
    }

    fn finish_agent_work<R>(&mut self, outcome: TurnOutcome) -> Vec<TurnEffect<R>> {
        match (&self.turn, self.agent) {
            (TurnPhase::Running { agent_initiated: false, .. }, AgentPhase::Busy) if self.is_agent_initiated => {
                // The agent's own work is done; the prompt comes next.
                self.is_agent_initiated = false;
                Vec::new()
            }
            (TurnPhase::Running { turn, .. }, AgentPhase::Busy) => {
                let turn = turn.clone();
                self.agent = AgentPhase::Idle;
                self.end_turn(turn, TurnEndReason::AgentOutcome(outcome))
            }
            (_, AgentPhase::Busy | AgentPhase::Interrupting) => {
                self.agent = AgentPhase::Idle;
                self.advance_pending_turn()
            }
            _ => Vec::new(),
        }
    }

    /// Ends a turn whose prompt was not written. The agent's state does not change, and its own work continues.
    fn fail_unsent_turn<R>(&mut self, unsent: &str, reason: R) -> Vec<TurnEffect<R>> {
        match (&self.turn, self.agent) {
            (TurnPhase::Running { turn, agent_initiated: false }, AgentPhase::Busy) if turn == unsent => {
                let turn = turn.clone();
                if !self.is_agent_initiated {
                    self.agent = AgentPhase::Idle;
                }
                self.end_turn(turn, TurnEndReason::Failed(reason))
            }
            // The turn was cancelled meanwhile, and the agent will not report the end of a turn that never started.
            (_, AgentPhase::Interrupting) => {
                self.agent = AgentPhase::Idle;
                self.advance_pending_turn()
            }
            _ => Vec::new(),
        }
    }

    /// Reopens the agent for a turn whose prompt was not written.
    fn reopen_for_turn<R>(&mut self, unsent: &str) -> Vec<TurnEffect<R>> {
        match (&self.turn, self.agent) {
            (TurnPhase::Running { turn, agent_initiated: false }, AgentPhase::Busy) if turn == unsent => {
                self.turn = TurnPhase::Pending(turn.clone());
                self.close_agent(TurnEffect::CloseGracefully)
            }
            _ => Vec::new(),
        }
    }

    fn end_turn<R>(&mut self, turn: TurnId, end: TurnEndReason<R>) -> Vec<TurnEffect<R>> {
        // After a failure the queue waits for a person.
        self.queue_paused |= !matches!(end, TurnEndReason::AgentOutcome(TurnOutcome::Completed { .. }));
        self.turn = TurnPhase::Ending(turn.clone());
        vec![TurnEffect::EndTurn(turn, end)]
    }

    fn abort_turn<R>(&mut self, reason: R) -> Vec<TurnEffect<R>> {
        let (TurnPhase::Running { turn, .. }, AgentPhase::Busy) = (&self.turn, self.agent) else { return Vec::new() };
        let turn = turn.clone();
        self.agent = AgentPhase::Interrupting;
        let mut effects = vec![TurnEffect::Interrupt];
        effects.extend(self.end_turn(turn, TurnEndReason::Failed(reason)));
        effects
    }

    fn abort_and_close<R>(&mut self, reason: R) -> Vec<TurnEffect<R>> {
        use AgentPhase::{ApplyingSettings, Busy, Idle, Interrupting};
        if !matches!(self.agent, Idle | ApplyingSettings | Busy | Interrupting) {
            return Vec::new();
        }
        let mut effects = self.close_agent(TurnEffect::CloseNow);
        if let TurnPhase::Running { turn, .. } = &self.turn {
            let turn = turn.clone();
            effects.extend(self.end_turn(turn, TurnEndReason::Failed(reason)));
        }
        effects
    }

    // ── Agent loss ────────────────────────────────────────────────────────────────────────────────────────────────

    fn close_agent<R>(&mut self, how: TurnEffect<R>) -> Vec<TurnEffect<R>> {
        self.agent = AgentPhase::Closing;
        vec![how]
    }

    /// Handles the loss of the agent, or a failure to open it.
    fn lose_agent<R>(&mut self, reason: R, phase: AgentPhase) -> Vec<TurnEffect<R>> {
        if self.agent != phase {
            return Vec::new();
        }
        self.agent = AgentPhase::Absent;
        match (&self.turn, phase) {
            (TurnPhase::Running { turn, .. }, _) | (TurnPhase::Pending(turn), AgentPhase::Opening) => {
                let turn = turn.clone();
                self.end_turn(turn, TurnEndReason::Failed(reason))
            }
            // A turn that waited for the lost agent gets a new one.
            _ => self.advance_pending_turn(),
        }
    }

    fn finish_closing<R>(&mut self) -> Vec<TurnEffect<R>> {
        if self.agent != AgentPhase::Closing {
            return Vec::new();
        }
        self.agent = AgentPhase::Absent;
        self.advance_pending_turn()
    }

    fn stop<R>(&mut self) -> Vec<TurnEffect<R>> {
        self.stopped = true;
        let mut effects = Vec::new();
        match std::mem::replace(&mut self.turn, TurnPhase::None) {
            TurnPhase::Local(turn) => {
                self.turn = TurnPhase::Ending(turn.clone());
                effects.extend([TurnEffect::StopLocal, TurnEffect::EndTurn(turn, TurnEndReason::Cancelled)]);
            }
            TurnPhase::Pending(turn) | TurnPhase::Running { turn, .. } => {
                self.turn = TurnPhase::Ending(turn.clone());
                effects.push(TurnEffect::EndTurn(turn, TurnEndReason::Cancelled));
            }
            other => self.turn = other,
        }
        if !matches!(self.agent, AgentPhase::Absent | AgentPhase::Closing) {
            effects.extend(self.close_agent(TurnEffect::CloseNow));
        }
        effects
    }

    /// After a stop, only work in progress may finish.
    fn step_stopped<R>(&mut self, input: TurnInput<R>) -> Vec<TurnEffect<R>> {
        match input {
            TurnInput::EndStored => self.turn = TurnPhase::None,
            TurnInput::AgentClosed => self.agent = AgentPhase::Absent,
            TurnInput::Output => return vec![TurnEffect::DiscardOutput],
            _ => {}
        }
        Vec::new()
    }
}
