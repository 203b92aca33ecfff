use hostler_driver::TurnOutcome;

use super::{AgentPhase, Effect, End, Input, MessageId, Need, TurnId, TurnPhase};

/// The machine. See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnMachine {
    turn: TurnPhase,
    agent: AgentPhase,
    /// What the agent is busy with answers no prompt.
    unasked: bool,
    head: Option<MessageId>,
    /// The queue waits for a person.
    paused: bool,
    /// A turn is on its way into the store.
    starting: bool,
    stopped: bool,
}

impl Default for TurnMachine {
    fn default() -> Self {
        Self {
            turn: TurnPhase::None,
            agent: AgentPhase::Absent,
            unasked: false,
            head: None,
            paused: false,
            starting: false,
            stopped: false,
        }
    }
}

impl TurnMachine {
    /// A machine whose queue waits for a person: nothing of an earlier life starts by itself.
    pub fn restored(head: Option<MessageId>) -> Self {
        Self { paused: head.is_some(), head, ..Self::default() }
    }

    /// What clients see.
    pub fn turn(&self) -> &TurnPhase {
        &self.turn
    }

    /// What the process does.
    pub fn agent(&self) -> AgentPhase {
        self.agent
    }

    /// Whether what the agent says now answers the turn's own message. It may be busy with something of its own first, or
    /// still with a turn that is over.
    pub fn is_answering(&self) -> bool {
        let asked = matches!(self.turn, TurnPhase::Running { own, .. } if own || !self.unasked);
        asked && self.agent == AgentPhase::Busy
    }

    /// Whether messages wait until a person says something.
    pub fn is_paused(&self) -> bool {
        self.paused && self.head.is_some()
    }

    /// Whether a new turn can be accepted now.
    pub fn can_accept(&self) -> bool {
        !self.stopped && !self.starting && self.turn == TurnPhase::None
    }

    /// Whether this turn can be cancelled now.
    pub fn can_cancel(&self, turn: &str) -> bool {
        let living = match &self.turn {
            TurnPhase::Pending(id) | TurnPhase::Running { turn: id, .. } | TurnPhase::Local(id) => id == turn,
            TurnPhase::None | TurnPhase::Ending(_) => false,
        };
        !self.stopped && living
    }

    /// Moves the machine and says what follows.
    pub fn step<R>(&mut self, input: Input<R>) -> Vec<Effect<R>> {
        if self.stopped {
            return self.step_stopped(input);
        }
        match input {
            Input::Accepted { turn, need } => self.accepted(turn, need),
            Input::AcceptedLocal(turn) => self.accepted_local(turn),
            Input::LocalOver(turn) => self.local_over(turn),
            Input::Queue { head, go_on } => {
                self.head = head;
                self.paused &= !go_on;
                self.start_next()
            }
            Input::NotStarted => {
                self.starting = false;
                Vec::new()
            }
            Input::Cancelled(turn) => self.cancelled(&turn),
            Input::Opened => self.opened(),
            Input::OpenFailed(reason) => self.lost(reason, AgentPhase::Opening),
            Input::Adapted => self.adapted(),
            Input::NotAdapted => self.not_adapted(),
            Input::Unsent { turn, reason } => self.unsent(&turn, reason),
            Input::Reopen(turn) => self.reopen(&turn),
            Input::Began => self.began(),
            Input::BeganUnasked(reason) => self.began_unasked(reason),
            Input::OwnTurn(turn) => self.own_turn(turn),
            Input::Output => vec![if self.is_shown() { Effect::Show } else { Effect::Drop }],
            Input::Split(next) => {
                if let TurnPhase::Running { turn, .. } = &mut self.turn {
                    *turn = next;
                }
                Vec::new()
            }
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
                self.start_next()
            }
            Input::InterruptExpired => match self.agent {
                AgentPhase::Interrupting => self.close(Effect::Close),
                _ => Vec::new(),
            },
            Input::Prepare => match (&self.turn, self.agent) {
                (TurnPhase::None, AgentPhase::Absent) if !self.starting => {
                    self.agent = AgentPhase::Opening;
                    vec![Effect::Open]
                }
                _ => Vec::new(),
            },
            // A turn that is accepted from now on waits for the close.
            Input::Retire => match (&self.turn, self.agent) {
                (TurnPhase::None, AgentPhase::Idle) if !self.starting => self.close(Effect::CloseGracefully),
                (TurnPhase::None, AgentPhase::Opening) if !self.starting => self.close(Effect::Close),
                _ => Vec::new(),
            },
            Input::Hold => {
                if self.turn == TurnPhase::None && self.agent == AgentPhase::Absent && !self.starting {
                    self.agent = AgentPhase::Closing;
                }
                Vec::new()
            }
            Input::Closed => self.closed(),
            Input::Stop => self.stop(),
        }
    }

    // ── Turns begin ───────────────────────────────────────────────────────────────────────────────────────────────

    fn accepted<R>(&mut self, turn: TurnId, need: Need) -> Vec<Effect<R>> {
        self.starting = false;
        if self.turn != TurnPhase::None {
            return Vec::new();
        }
        // A person has said something, so what waits goes on after it.
        self.paused = false;
        self.turn = TurnPhase::Pending(turn);
        match (self.agent, need) {
            (AgentPhase::Idle, Need::Reopen) => self.close(Effect::CloseGracefully),
            // It was opened ahead, for another message than this one.
            (AgentPhase::Opening, Need::Reopen | Need::Adapt) => self.close(Effect::Close),
            (AgentPhase::Idle, Need::Adapt) => {
                self.agent = AgentPhase::Adapting;
                vec![Effect::Adapt]
            }
            _ => self.proceed(),
        }
    }

    fn accepted_local<R>(&mut self, turn: TurnId) -> Vec<Effect<R>> {
        self.starting = false;
        if self.turn != TurnPhase::None {
            return Vec::new();
        }
        self.paused = false;
        self.turn = TurnPhase::Local(turn.clone());
        vec![Effect::RunLocal(turn)]
    }

    fn local_over<R>(&mut self, turn: TurnId) -> Vec<Effect<R>> {
        if self.turn != TurnPhase::Local(turn.clone()) {
            return Vec::new();
        }
        if self.agent == AgentPhase::Busy && self.unasked {
            // What the agent does by itself is shown in it, so it ends with that.
            self.turn = TurnPhase::Running { turn, own: true };
            return Vec::new();
        }
        self.end(turn, End::Agent(TurnOutcome::Completed { empty: false }))
    }

    /// The next message that waits, if it may start by itself.
    fn start_next<R>(&mut self) -> Vec<Effect<R>> {
        match &self.head {
            Some(head) if self.turn == TurnPhase::None && !self.paused && !self.starting => {
                self.starting = true;
                vec![Effect::StartQueued(head.clone())]
            }
            _ => Vec::new(),
        }
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
                self.turn = TurnPhase::Running { turn: turn.clone(), own: false };
                self.agent = AgentPhase::Busy;
                self.unasked = false;
                vec![Effect::Send(turn)]
            }
            AgentPhase::Opening
            | AgentPhase::Adapting
            | AgentPhase::Busy
            | AgentPhase::Interrupting
            | AgentPhase::Closing => Vec::new(),
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

    fn adapted<R>(&mut self) -> Vec<Effect<R>> {
        if self.agent != AgentPhase::Adapting {
            return Vec::new();
        }
        self.agent = AgentPhase::Idle;
        self.proceed()
    }

    fn not_adapted<R>(&mut self) -> Vec<Effect<R>> {
        match self.agent {
            AgentPhase::Adapting => self.close(Effect::CloseGracefully),
            _ => Vec::new(),
        }
    }

    fn began<R>(&mut self) -> Vec<Effect<R>> {
        match self.agent {
            AgentPhase::Busy => {
                self.unasked = false;
                Vec::new()
            }
            // Nobody waits for an answer, so it is the agent's own affair.
            AgentPhase::Idle => self.began_unasked("The agent goes on by itself.".to_owned()),
            _ => Vec::new(),
        }
    }

    fn began_unasked<R>(&mut self, reason: String) -> Vec<Effect<R>> {
        match (&self.turn, self.agent) {
            (TurnPhase::None, AgentPhase::Idle) if !self.starting => {
                self.agent = AgentPhase::Busy;
                self.unasked = true;
                self.starting = true;
                vec![Effect::StartOwn(reason)]
            }
            (_, AgentPhase::Idle | AgentPhase::Adapting) => {
                self.agent = AgentPhase::Busy;
                self.unasked = true;
                vec![Effect::Note(reason)]
            }
            // It began before it read our prompt.
            (TurnPhase::Running { own: false, .. }, AgentPhase::Busy) if !self.unasked => {
                self.unasked = true;
                vec![Effect::Note(reason)]
            }
            (_, AgentPhase::Busy) => vec![Effect::Note(reason)],
            _ => Vec::new(),
        }
    }

    fn own_turn<R>(&mut self, turn: TurnId) -> Vec<Effect<R>> {
        self.starting = false;
        if self.turn == TurnPhase::None && self.agent == AgentPhase::Busy {
            self.turn = TurnPhase::Running { turn, own: true };
            return Vec::new();
        }
        // It is shown already, so it has to end.
        self.turn = TurnPhase::Ending(turn.clone());
        vec![Effect::End(turn, End::Agent(TurnOutcome::Completed { empty: false }))]
    }

    /// Whether what the agent says belongs to a turn that clients see.
    fn is_shown(&self) -> bool {
        match (&self.turn, self.agent) {
            (TurnPhase::Running { .. }, AgentPhase::Busy) => true,
            (TurnPhase::Pending(_) | TurnPhase::Local(_), AgentPhase::Busy) => self.unasked,
            _ => false,
        }
    }

    // ── Turns end ─────────────────────────────────────────────────────────────────────────────────────────────────

    fn cancelled<R>(&mut self, turn: &str) -> Vec<Effect<R>> {
        if !self.can_cancel(turn) {
            return Vec::new();
        }
        self.paused = true;
        let was = std::mem::replace(&mut self.turn, TurnPhase::None);
        match (was, self.agent) {
            // What the agent does by itself belongs to nobody's turn now.
            (TurnPhase::Local(_), AgentPhase::Busy) if self.unasked => {
                self.agent = AgentPhase::Interrupting;
                vec![Effect::StopLocal, Effect::Interrupt]
            }
            (TurnPhase::Local(_), _) => vec![Effect::StopLocal],
            // Its prompt is written, and the agent has not come to it: nobody could tell its answer from a later one.
            (TurnPhase::Running { own: false, .. }, AgentPhase::Busy) if self.unasked => self.close(Effect::Close),
            (TurnPhase::Running { .. }, AgentPhase::Busy) => {
                self.agent = AgentPhase::Interrupting;
                vec![Effect::Interrupt]
            }
            (_, AgentPhase::Opening) => self.close(Effect::Close),
            _ => Vec::new(),
        }
    }

    fn ended<R>(&mut self, outcome: TurnOutcome) -> Vec<Effect<R>> {
        match (&self.turn, self.agent) {
            (TurnPhase::Running { own: false, .. }, AgentPhase::Busy) if self.unasked => {
                // Its own affair is over; our prompt comes next.
                self.unasked = false;
                Vec::new()
            }
            (TurnPhase::Running { turn, .. }, AgentPhase::Busy) => {
                let turn = turn.clone();
                self.agent = AgentPhase::Idle;
                self.end(turn, End::Agent(outcome))
            }
            (_, AgentPhase::Busy | AgentPhase::Interrupting) => {
                self.agent = AgentPhase::Idle;
                self.proceed()
            }
            _ => Vec::new(),
        }
    }

    /// The agent has nothing of the turn: it is as free as it was, and what it does by itself goes on.
    fn unsent<R>(&mut self, unsent: &str, reason: R) -> Vec<Effect<R>> {
        match (&self.turn, self.agent) {
            (TurnPhase::Running { turn, own: false }, AgentPhase::Busy) if turn == unsent => {
                let turn = turn.clone();
                if !self.unasked {
                    self.agent = AgentPhase::Idle;
                }
                self.end(turn, End::Failed(reason))
            }
            // Its turn was cancelled meanwhile, and nobody will report the end of what never began.
            (_, AgentPhase::Interrupting) => {
                self.agent = AgentPhase::Idle;
                self.proceed()
            }
            _ => Vec::new(),
        }
    }

    /// Another agent has to take the turn, of which this one has nothing.
    fn reopen<R>(&mut self, unsent: &str) -> Vec<Effect<R>> {
        match (&self.turn, self.agent) {
            (TurnPhase::Running { turn, own: false }, AgentPhase::Busy) if turn == unsent => {
                self.turn = TurnPhase::Pending(turn.clone());
                self.close(Effect::CloseGracefully)
            }
            _ => Vec::new(),
        }
    }

    fn end<R>(&mut self, turn: TurnId, end: End<R>) -> Vec<Effect<R>> {
        // After a failure a person looks first.
        self.paused |= !matches!(end, End::Agent(TurnOutcome::Completed { .. }));
        self.turn = TurnPhase::Ending(turn.clone());
        vec![Effect::End(turn, end)]
    }

    fn give_up<R>(&mut self, reason: R) -> Vec<Effect<R>> {
        let (TurnPhase::Running { turn, .. }, AgentPhase::Busy) = (&self.turn, self.agent) else { return Vec::new() };
        let turn = turn.clone();
        self.agent = AgentPhase::Interrupting;
        let mut effects = vec![Effect::Interrupt];
        effects.extend(self.end(turn, End::Failed(reason)));
        effects
    }

    fn distrusted<R>(&mut self, reason: R) -> Vec<Effect<R>> {
        use AgentPhase::{Adapting, Busy, Idle, Interrupting};
        if !matches!(self.agent, Idle | Adapting | Busy | Interrupting) {
            return Vec::new();
        }
        let mut effects = self.close(Effect::Close);
        if let TurnPhase::Running { turn, .. } = &self.turn {
            let turn = turn.clone();
            effects.extend(self.end(turn, End::Failed(reason)));
        }
        effects
    }

    // ── The agent goes ────────────────────────────────────────────────────────────────────────────────────────────

    fn close<R>(&mut self, how: Effect<R>) -> Vec<Effect<R>> {
        self.agent = AgentPhase::Closing;
        vec![how]
    }

    /// The agent is not there (any more).
    fn lost<R>(&mut self, reason: R, phase: AgentPhase) -> Vec<Effect<R>> {
        if self.agent != phase {
            return Vec::new();
        }
        self.agent = AgentPhase::Absent;
        match (&self.turn, phase) {
            (TurnPhase::Running { turn, .. }, _) | (TurnPhase::Pending(turn), AgentPhase::Opening) => {
                let turn = turn.clone();
                self.end(turn, End::Failed(reason))
            }
            // A turn that was waiting for the lost agent to settle gets a new one.
            _ => self.proceed(),
        }
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
            TurnPhase::Local(turn) => {
                self.turn = TurnPhase::Ending(turn.clone());
                effects.extend([Effect::StopLocal, Effect::End(turn, End::Cancelled)]);
            }
            TurnPhase::Pending(turn) | TurnPhase::Running { turn, .. } => {
                self.turn = TurnPhase::Ending(turn.clone());
                effects.push(Effect::End(turn, End::Cancelled));
            }
            other => self.turn = other,
        }
        if !matches!(self.agent, AgentPhase::Absent | AgentPhase::Closing) {
            effects.extend(self.close(Effect::Close));
        }
        effects
    }

    /// After a stop only what is still under way may finish.
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
