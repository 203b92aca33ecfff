//! The turn machine against a simple model: random interleavings of everything that can happen.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::collections::HashSet;

use hostler_driver::TurnOutcome;
use hostler_engine::{AgentPhase, Effect, End, TurnInput, TurnMachine, TurnPhase};
use proptest::prelude::*;

type Machine = TurnMachine;

/// What a world around the machine may do next.
#[derive(Debug, Clone)]
enum Step {
    Accept { reopen: bool },
    Cancel,
    Opened,
    OpenFailed,
    Unasked,
    Output,
    Ended(bool),
    GiveUp,
    Distrusted,
    Gone,
    Stored,
    Expired,
    Prepare,
    Retire,
    Closed,
    Stop,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any::<bool>().prop_map(|reopen| Step::Accept { reopen }),
        2 => Just(Step::Cancel),
        5 => Just(Step::Opened),
        1 => Just(Step::OpenFailed),
        1 => Just(Step::Unasked),
        4 => Just(Step::Output),
        5 => any::<bool>().prop_map(Step::Ended),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Distrusted),
        1 => Just(Step::Gone),
        6 => Just(Step::Stored),
        1 => Just(Step::Expired),
        1 => Just(Step::Prepare),
        2 => Just(Step::Retire),
        3 => Just(Step::Closed),
        1 => Just(Step::Stop),
    ]
}

/// The world: what it knows of turns and of the one agent.
#[derive(Default)]
struct World {
    machine: Machine,
    next: usize,
    accepted: HashSet<String>,
    over: HashSet<String>,
    sent: Vec<String>,
    agents: i32,
    stopped: bool,
}

impl World {
    fn feed(&mut self, input: TurnInput<()>) {
        let gone = match (&input, self.machine.agent()) {
            (TurnInput::Closed, AgentPhase::Closing) | (TurnInput::OpenFailed(()), AgentPhase::Opening) => true,
            (TurnInput::Gone(()), phase) => phase != AgentPhase::Closing,
            _ => false,
        };
        if gone {
            self.agents = 0;
        }
        for effect in self.machine.step(input) {
            match effect {
                Effect::Open => {
                    assert!(!self.stopped, "nothing starts after a stop");
                    self.agents += 1;
                    assert_eq!(self.agents, 1, "one agent at a time");
                }
                Effect::Send(turn) => {
                    assert!(!self.stopped);
                    assert!(self.accepted.contains(&turn) && !self.over.contains(&turn), "only a living turn is sent");
                    assert!(!self.sent.contains(&turn), "no turn is sent twice");
                    self.sent.push(turn);
                }
                Effect::End(turn, end) => {
                    assert!(self.accepted.contains(&turn));
                    assert!(self.over.insert(turn), "a turn ends once");
                    assert!(!self.stopped || end == End::Cancelled);
                }
                Effect::Show => assert!(matches!(self.machine.turn(), TurnPhase::Running(_))),
                Effect::Drop | Effect::Interrupt => {}
                Effect::Close | Effect::CloseGracefully => assert_eq!(self.machine.agent(), AgentPhase::Closing),
            }
        }
        assert_eq!(self.agents == 0, self.machine.agent() == AgentPhase::Absent);
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Accept { reopen } => {
                if self.machine.can_accept() {
                    self.next += 1;
                    let turn = format!("t{}", self.next);
                    self.accepted.insert(turn.clone());
                    self.feed(TurnInput::Accepted { turn, reopen: *reopen });
                }
            }
            Step::Cancel => {
                let turn = format!("t{}", self.next);
                if self.machine.can_cancel(&turn) {
                    assert!(self.over.insert(turn.clone()), "a cancel is an end");
                    self.feed(TurnInput::Cancelled(turn));
                }
            }
            Step::Opened => self.feed(TurnInput::Opened),
            Step::OpenFailed => self.feed(TurnInput::OpenFailed(())),
            Step::Unasked => self.feed(TurnInput::BeganUnasked),
            Step::Output => self.feed(TurnInput::Output),
            Step::Ended(ok) => self.feed(TurnInput::Ended(if *ok {
                TurnOutcome::Completed { empty: false }
            } else {
                TurnOutcome::Interrupted
            })),
            Step::GiveUp => self.feed(TurnInput::GiveUp(())),
            Step::Distrusted => self.feed(TurnInput::Distrusted(())),
            Step::Gone => self.feed(TurnInput::Gone(())),
            Step::Stored => self.feed(TurnInput::EndStored),
            Step::Expired => self.feed(TurnInput::InterruptExpired),
            Step::Prepare => self.feed(TurnInput::Prepare),
            Step::Retire => {
                let idle = *self.machine.turn() == TurnPhase::None;
                let before = self.machine.agent();
                self.feed(TurnInput::Retire);
                assert!(idle || self.machine.agent() == before, "an agent with a turn is not retired");
            }
            Step::Closed => self.feed(TurnInput::Closed),
            Step::Stop => {
                let before = self.over.clone();
                self.stopped = true;
                self.feed(TurnInput::Stop);
                assert!(self.over.is_superset(&before));
            }
        }
    }

    /// Lets everything that is under way come to its end.
    fn settle(&mut self) {
        for _ in 0..20 {
            match self.machine.agent() {
                AgentPhase::Opening => self.feed(TurnInput::Opened),
                AgentPhase::Busy | AgentPhase::Interrupting => {
                    self.feed(TurnInput::Ended(TurnOutcome::Completed { empty: false }));
                }
                AgentPhase::Closing => self.feed(TurnInput::Closed),
                AgentPhase::Absent | AgentPhase::Idle => {}
            }
            self.feed(TurnInput::EndStored);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_accepted_turn_ends_exactly_once_whatever_happens(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::default();
        for step in &steps {
            world.apply(step);
        }
        world.settle();
        prop_assert_eq!(&world.over, &world.accepted);
        prop_assert_eq!(world.machine.turn(), &TurnPhase::None);
        prop_assert!(matches!(world.machine.agent(), AgentPhase::Absent | AgentPhase::Idle));
        if world.stopped {
            prop_assert_eq!(world.machine.agent(), AgentPhase::Absent);
        }
        let order: Vec<_> = world.sent.iter().map(|turn| turn.trim_start_matches('t').parse::<usize>().unwrap()).collect();
        prop_assert!(order.windows(2).all(|pair| pair[0] < pair[1]), "turns are sent in the order of their acceptance");
    }
}
