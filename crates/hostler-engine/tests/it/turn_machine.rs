//! Property test of the turn machine against a simple model: random interleavings of all events.

use std::collections::{HashSet, VecDeque};

use hostler_driver::TurnOutcome;
use hostler_engine::{AgentPhase, AgentPreparation, TurnEffect, TurnEndReason, TurnInput, TurnMachine, TurnPhase};
use proptest::prelude::*;

/// An event around the machine.
#[derive(Debug, Clone)]
enum Step {
    Accept(AgentPreparation),
    /// A message for a local turn.
    AcceptLocal,
    LocalOver,
    Queue,
    Unqueue,
    Reorder,
    Cancel,
    Opened,
    OpenFailed,
    Adapted(bool),
    Unsent,
    Reopen,
    Began,
    Unasked,
    Output,
    Split,
    Ended(bool),
    GiveUp,
    Distrusted,
    Gone,
    Stored,
    Expired,
    Prepare,
    Retire,
    Closed,
    /// The store accepts new turns from now on, or does not.
    Disk(bool),
    Stop,
}

fn need() -> impl Strategy<Value = AgentPreparation> {
    prop_oneof![6 => Just(AgentPreparation::None), 1 => Just(AgentPreparation::ApplySettings), 1 => Just(AgentPreparation::Reopen)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => need().prop_map(Step::Accept),
        2 => Just(Step::AcceptLocal),
        3 => Just(Step::LocalOver),
        5 => Just(Step::Queue),
        1 => Just(Step::Unqueue),
        1 => Just(Step::Reorder),
        3 => Just(Step::Cancel),
        7 => Just(Step::Opened),
        1 => Just(Step::OpenFailed),
        3 => any::<bool>().prop_map(Step::Adapted),
        1 => Just(Step::Unsent),
        1 => Just(Step::Reopen),
        2 => Just(Step::Began),
        2 => Just(Step::Unasked),
        4 => Just(Step::Output),
        1 => Just(Step::Split),
        7 => any::<bool>().prop_map(Step::Ended),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Distrusted),
        1 => Just(Step::Gone),
        8 => Just(Step::Stored),
        1 => Just(Step::Expired),
        1 => Just(Step::Prepare),
        2 => Just(Step::Retire),
        4 => Just(Step::Closed),
        1 => any::<bool>().prop_map(Step::Disk),
        1 => Just(Step::Stop),
    ]
}

/// The model: its turns, its queue and its agent.
#[derive(Default)]
struct World {
    machine: TurnMachine,
    next: usize,
    accepted: HashSet<String>,
    over: HashSet<String>,
    sent: Vec<String>,
    queue: VecDeque<String>,
    consumed: HashSet<String>,
    /// The local turn in progress.
    local: Option<String>,
    /// Whether a turn was cancelled or failed, without an action of a person since.
    quiet: bool,
    agents: i32,
    full: bool,
    stopped: bool,
}

impl World {
    fn feed(&mut self, input: TurnInput<()>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let gone = match (&input, self.machine.agent_phase()) {
                (TurnInput::AgentClosed, AgentPhase::Closing)
                | (TurnInput::AgentOpenFailed(()), AgentPhase::Opening) => true,
                (TurnInput::AgentExited(()), phase) => phase != AgentPhase::Closing,
                _ => false,
            };
            if gone {
                self.agents = 0;
            }
            for effect in self.machine.step(input) {
                inputs.extend(self.effect(effect));
            }
        }
        assert_eq!(self.agents == 0, self.machine.agent_phase() == AgentPhase::Absent);
        let living = self.accepted.difference(&self.over).count();
        assert!(living <= 1, "one turn at a time");
        assert_eq!(living == 1, !matches!(self.machine.turn_phase(), TurnPhase::None | TurnPhase::Ending(_)));
    }

    fn effect(&mut self, effect: TurnEffect<()>) -> Option<TurnInput<()>> {
        match effect {
            TurnEffect::StartQueued(message) => {
                assert!(!self.stopped && !self.quiet, "no queued message starts automatically");
                assert_eq!(self.queue.front(), Some(&message), "the first comes first");
                if self.full {
                    return Some(TurnInput::StartFailed);
                }
                self.queue.pop_front();
                assert!(self.consumed.insert(message), "a message is consumed once");
                let turn = self.turn();
                self.head(false);
                Some(match self.next.is_multiple_of(4) {
                    true => TurnInput::AcceptedLocal(turn),
                    false => TurnInput::Accepted { turn, preparation: AgentPreparation::None },
                })
            }
            TurnEffect::StartAgentTurn(_) => {
                assert!(!self.stopped);
                if self.full {
                    return Some(TurnInput::StartFailed);
                }
                Some(TurnInput::AgentTurnAccepted(self.turn()))
            }
            TurnEffect::NoteAgentWork(_) => None,
            TurnEffect::OpenAgent => {
                assert!(!self.stopped, "nothing starts after a stop");
                self.agents += 1;
                assert_eq!(self.agents, 1, "one agent at a time");
                None
            }
            TurnEffect::ApplySettings => {
                assert_eq!(self.machine.agent_phase(), AgentPhase::ApplyingSettings);
                None
            }
            TurnEffect::SendPrompt(turn) => {
                assert!(!self.stopped);
                assert!(self.accepted.contains(&turn) && !self.over.contains(&turn), "only a living turn is sent");
                assert!(!self.sent.contains(&turn), "no turn is sent twice");
                self.sent.push(turn);
                None
            }
            TurnEffect::RunLocal(turn) => {
                assert!(!self.stopped && self.local.is_none(), "one at a time");
                assert!(self.accepted.contains(&turn) && !self.over.contains(&turn), "only for a living turn");
                self.local = Some(turn);
                None
            }
            TurnEffect::StopLocal => {
                assert!(self.local.take().is_some(), "something runs that can be stopped");
                None
            }
            TurnEffect::EndTurn(turn, end) => {
                assert!(self.accepted.contains(&turn));
                assert!(self.over.insert(turn), "a turn ends once");
                assert!(!self.stopped || end == TurnEndReason::Cancelled);
                self.quiet |= !matches!(end, TurnEndReason::AgentOutcome(TurnOutcome::Completed { .. }));
                None
            }
            TurnEffect::PublishOutput => {
                assert!(
                    self.accepted.iter().any(|turn| !self.over.contains(turn)),
                    "only a living turn shows something"
                );
                None
            }
            TurnEffect::DiscardOutput | TurnEffect::Interrupt => None,
            TurnEffect::CloseNow | TurnEffect::CloseGracefully => {
                assert_eq!(self.machine.agent_phase(), AgentPhase::Closing);
                None
            }
        }
    }

    /// Stores a new turn.
    fn turn(&mut self) -> String {
        self.next += 1;
        let turn = format!("t{}", self.next);
        self.accepted.insert(turn.clone());
        turn
    }

    /// Passes the queue's head to the machine; the caller carries out the effects.
    fn head(&mut self, go_on: bool) {
        let head = self.queue.front().cloned();
        let effects = self.machine.step::<()>(TurnInput::QueueChanged { head, resume: go_on });
        assert!(effects.is_empty(), "nothing starts while a turn starts");
    }

    fn queue_changed(&mut self, go_on: bool) {
        self.quiet &= !go_on;
        let head = self.queue.front().cloned();
        self.feed(TurnInput::QueueChanged { head, resume: go_on });
    }

    fn local_over(&mut self) {
        if let Some(turn) = self.local.take() {
            self.feed(TurnInput::LocalFinished(turn));
        }
    }

    fn living(&self) -> Option<String> {
        self.accepted.difference(&self.over).next().cloned()
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Accept(need) => {
                if self.machine.can_accept_turn() && !self.full {
                    self.quiet = false;
                    let turn = self.turn();
                    self.feed(TurnInput::Accepted { turn, preparation: *need });
                }
            }
            Step::AcceptLocal => {
                if self.machine.can_accept_turn() && !self.full {
                    self.quiet = false;
                    let turn = self.turn();
                    self.feed(TurnInput::AcceptedLocal(turn));
                }
            }
            Step::LocalOver => self.local_over(),
            Step::Queue => {
                self.next += 1;
                self.queue.push_back(format!("m{}", self.next));
                self.queue_changed(true);
            }
            Step::Unqueue => {
                self.queue.pop_front();
                self.queue_changed(false);
            }
            Step::Reorder => {
                self.queue.rotate_left(usize::from(!self.queue.is_empty()));
                self.queue_changed(true);
            }
            Step::Cancel => {
                if let Some(turn) = self.living().filter(|turn| self.machine.can_cancel_turn(turn)) {
                    assert!(self.over.insert(turn.clone()), "a cancel is an end");
                    self.quiet = true;
                    self.feed(TurnInput::Cancelled(turn));
                }
            }
            Step::Opened => self.feed(TurnInput::AgentOpened),
            Step::OpenFailed => self.feed(TurnInput::AgentOpenFailed(())),
            Step::Adapted(true) => self.feed(TurnInput::SettingsApplied),
            Step::Adapted(false) => self.feed(TurnInput::SettingsRefused),
            Step::Unsent => {
                let turn = match self.machine.turn_phase() {
                    TurnPhase::Running { turn, .. } => turn.clone(),
                    // A turn that is over.
                    _ => "earlier".to_owned(),
                };
                self.feed(TurnInput::PromptNotSent { turn, reason: () });
            }
            Step::Reopen => {
                let turn = match self.machine.turn_phase() {
                    TurnPhase::Running { turn, .. } => turn.clone(),
                    // A turn that is over.
                    _ => "earlier".to_owned(),
                };
                self.feed(TurnInput::Reopen(turn.clone()));
                if matches!(self.machine.turn_phase(), TurnPhase::Pending(pending) if *pending == turn) {
                    self.sent.retain(|sent| *sent != turn);
                }
            }
            Step::Began => self.feed(TurnInput::PromptStarted),
            Step::Unasked => self.feed(TurnInput::AgentStartedByItself("a task is done".to_owned())),
            Step::Output => self.feed(TurnInput::Output),
            Step::Split => {
                if let TurnPhase::Running { turn, .. } = self.machine.turn_phase() {
                    self.over.insert(turn.clone());
                    let next = self.turn();
                    self.feed(TurnInput::Split(next));
                }
            }
            Step::Ended(ok) => self.feed(TurnInput::AgentFinished(if *ok {
                TurnOutcome::Completed { empty: false }
            } else {
                TurnOutcome::Interrupted
            })),
            Step::GiveUp => self.feed(TurnInput::Abort(())),
            Step::Distrusted => self.feed(TurnInput::AbortAndClose(())),
            Step::Gone => self.feed(TurnInput::AgentExited(())),
            Step::Stored => self.feed(TurnInput::EndStored),
            Step::Expired => self.feed(TurnInput::InterruptTimedOut),
            Step::Prepare => self.feed(TurnInput::Prewarm),
            Step::Retire => {
                let idle = *self.machine.turn_phase() == TurnPhase::None;
                let before = self.machine.agent_phase();
                self.feed(TurnInput::RetireAgent);
                assert!(idle || self.machine.agent_phase() == before, "an agent with a turn is not retired");
            }
            Step::Closed => self.feed(TurnInput::AgentClosed),
            Step::Disk(full) => self.full = *full,
            Step::Stop => {
                self.stopped = true;
                self.feed(TurnInput::Stop);
            }
        }
    }

    /// Completes everything in progress, with a working store and an agent that answers.
    fn settle(&mut self) {
        self.full = false;
        for _ in 0..(80 + 16 * self.queue.len()) {
            match self.machine.agent_phase() {
                AgentPhase::Opening => self.feed(TurnInput::AgentOpened),
                AgentPhase::ApplyingSettings => self.feed(TurnInput::SettingsApplied),
                AgentPhase::Busy | AgentPhase::Interrupting => {
                    self.feed(TurnInput::AgentFinished(TurnOutcome::Completed { empty: false }));
                }
                AgentPhase::Closing => self.feed(TurnInput::AgentClosed),
                AgentPhase::Absent | AgentPhase::Idle => {}
            }
            self.local_over();
            self.feed(TurnInput::EndStored);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_accepted_message_ends_exactly_once(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::default();
        for step in &steps {
            world.apply(step);
        }
        world.settle();
        prop_assert_eq!(&world.local, &None, "no local work remains");
        prop_assert_eq!(&world.over, &world.accepted);
        prop_assert_eq!(world.machine.turn_phase(), &TurnPhase::None);
        prop_assert!(matches!(world.machine.agent_phase(), AgentPhase::Absent | AgentPhase::Idle));
        if world.stopped {
            prop_assert_eq!(world.machine.agent_phase(), AgentPhase::Absent);
        } else {
            prop_assert_eq!(world.queue.is_empty(), !world.machine.is_queue_paused(), "what waits waits for a person");
            prop_assert!(world.quiet || world.queue.is_empty());
        }
        let order: Vec<_> = world.sent.iter().map(|turn| turn.trim_start_matches('t').parse::<usize>().unwrap()).collect();
        prop_assert!(order.windows(2).all(|pair| pair[0] < pair[1]), "turns are sent in the order of their acceptance");
    }
}

#[test]
fn late_unsent_prompt_ends_no_other_turn() {
    let mut machine = TurnMachine::default();
    machine.step::<()>(TurnInput::Accepted { turn: "b".to_owned(), preparation: AgentPreparation::None });
    machine.step::<()>(TurnInput::AgentOpened);
    let running = TurnPhase::Running { turn: "b".to_owned(), agent_initiated: false };
    assert_eq!(*machine.turn_phase(), running);
    assert_eq!(machine.step(TurnInput::PromptNotSent { turn: "a".to_owned(), reason: () }), []);
    assert_eq!((machine.turn_phase(), machine.agent_phase()), (&running, AgentPhase::Busy));
}
