use std::collections::BTreeMap;

use proptest::prelude::*;

use super::seats::{Caps, Order, SeatId, Seats, Use};
use super::{Fleet, FleetConfig, FleetStatus, Place};

#[derive(Debug, Clone)]
enum Step {
    Ask,
    AskWarm,
    Set(usize, Use),
    Release(usize),
    GiveUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let usage = prop_oneof![Just(Use::Working), Just(Use::Idle), Just(Use::Idle), Just(Use::Leaving)];
    prop_oneof![
        4 => Just(Step::Ask),
        1 => Just(Step::AskWarm),
        5 => (any::<usize>(), usage).prop_map(|(which, usage)| Step::Set(which, usage)),
        3 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::GiveUp),
    ]
}

/// A world that believes the orders and checks each of them.
struct World {
    seats: Seats,
    caps: Caps,
    waiting: Vec<SeatId>,
    /// In the order in which they came to their use, longest first.
    taken: Vec<(SeatId, Use)>,
}

impl World {
    fn balance(&mut self) {
        for order in self.seats.balance() {
            match order {
                Order::Admit(id) => {
                    assert_eq!(Some(&id), self.waiting.first(), "who asked first is first");
                    self.waiting.remove(0);
                    self.taken.push((id, Use::Working));
                }
                Order::Evict(id) => {
                    let longest = |usage| self.taken.iter().find(|(_, known)| *known == usage).map(|(id, _)| *id);
                    let expected = longest(Use::Warm).or_else(|| longest(Use::Idle));
                    assert_eq!(Some(id), expected, "warm ones first, then the least recently used");
                    self.moved(id, Use::Leaving);
                }
            }
        }
        assert!(self.taken.len() <= self.caps.live, "never more agents than seats");
        let count = |usage| self.taken.iter().filter(|(_, known)| *known == usage).count();
        assert!(count(Use::Warm) <= self.caps.warm);
        if !self.waiting.is_empty() {
            assert_eq!(self.taken.len(), self.caps.live, "nobody waits beside a free seat");
            let spare = count(Use::Warm) + count(Use::Idle);
            assert!(spare == 0 || count(Use::Leaving) >= self.waiting.len(), "nobody waits for one who is idle");
        }
        for (id, usage) in &self.taken {
            assert_eq!(self.seats.usage(*id), Some(*usage));
        }
        let status = FleetStatus {
            live: self.taken.len(),
            idle: count(Use::Idle),
            warm: count(Use::Warm),
            waiting: self.waiting.len(),
        };
        assert_eq!(self.seats.status(), status);
    }

    fn moved(&mut self, id: SeatId, usage: Use) {
        self.taken.retain(|(known, _)| *known != id);
        self.taken.push((id, usage));
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Ask => {
                let id = self.seats.ask();
                self.waiting.push(id);
            }
            Step::AskWarm => {
                if let Some(id) = self.seats.ask_warm() {
                    assert!(self.waiting.is_empty(), "a message goes before an idea");
                    self.taken.push((id, Use::Warm));
                }
            }
            Step::Set(which, usage) if !self.taken.is_empty() => {
                let (id, before) = self.taken[which % self.taken.len()];
                self.seats.set(id, *usage);
                let stays = before == Use::Leaving && *usage != Use::Working;
                if before != *usage && !stays {
                    self.moved(id, *usage);
                }
            }
            Step::Release(which) if !self.taken.is_empty() => {
                let (id, _) = self.taken.remove(which % self.taken.len());
                self.seats.release(id);
            }
            Step::GiveUp(which) if !self.waiting.is_empty() => {
                let id = self.waiting.remove(which % self.waiting.len());
                self.seats.release(id);
            }
            _ => {}
        }
        self.balance();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn caps_hold_and_nobody_waits_in_vain(
        live in 1_usize..5,
        warm in 0_usize..3,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let caps = Caps { live, warm };
        let mut world = World { seats: Seats::new(caps), caps, waiting: Vec::new(), taken: Vec::new() };
        for step in &steps {
            world.apply(step);
        }
        // When everybody leaves, everybody who waits gets in, in order.
        while let Some((id, _)) = world.taken.first().copied() {
            world.taken.remove(0);
            world.seats.release(id);
            world.balance();
        }
        prop_assert!(world.waiting.is_empty());
    }
}

fn now(place: Place) -> super::Seat {
    match place {
        Place::Now(seat) => seat,
        Place::Later(waiting) => panic!("{}", waiting.sentence()),
    }
}

fn later(place: Place) -> super::Waiting {
    match place {
        Place::Now(_) => panic!("there should be no seat"),
        Place::Later(waiting) => waiting,
    }
}

#[tokio::test]
async fn a_seat_that_is_dropped_goes_to_the_first_in_the_line() {
    let fleet = Fleet::new(FleetConfig { caps: Caps { live: 1, warm: 1 }, ..FleetConfig::default() });
    let seat = now(fleet.ask());
    let (first, gives_up, last) = (later(fleet.ask()), later(fleet.ask()), later(fleet.ask()));
    assert_eq!(first.sentence(), "Waiting for a free agent (1 of 1 are working)");
    assert!(fleet.ask_warm().is_none());
    drop(gives_up);
    seat.set(Use::Idle);
    seat.asked_to_leave().await;
    assert!(seat.is_leaving());
    assert_eq!(last.sentence(), "Making room for the agent");
    drop(seat);
    let seat = first.seat().await;
    // It is given back in the very moment in which it is passed on.
    drop(seat);
    drop(last);
    let warm = fleet.ask_warm().unwrap();
    warm.set(Use::Working);
    drop(warm);
    assert_eq!(fleet.status(), FleetStatus::default());
}

#[test]
fn counts_are_by_use() {
    let mut seats = Seats::new(Caps { live: 0, warm: 0 });
    assert_eq!(seats.caps().live, 1, "there is always one seat");
    let ids: BTreeMap<_, _> = [("a", seats.ask()), ("b", seats.ask())].into();
    assert_eq!(seats.balance(), [Order::Admit(ids["a"])]);
    seats.set(ids["a"], Use::Idle);
    assert_eq!(seats.balance(), [Order::Evict(ids["a"])]);
    seats.set(ids["a"], Use::Working);
    assert!(!matches!(seats.usage(ids["a"]), Some(Use::Leaving)), "it got a message in the last moment");
    assert_eq!(seats.balance(), []);
}
