//! Property test of slot assignment against a model, and tests of the pool.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::agent_slots::{AgentPoolLimits, AgentSlotId, AgentSlots, SlotCommand, SlotUse};
use super::{AgentPool, AgentPoolConfig, AgentPoolStatus, SlotAcquisition};

#[derive(Debug, Clone)]
enum Step {
    Ask,
    AskWarm,
    Set(usize, SlotUse),
    Release(usize),
    GiveUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let usage = prop_oneof![Just(SlotUse::Working), Just(SlotUse::Idle), Just(SlotUse::Idle), Just(SlotUse::Evicting)];
    prop_oneof![
        4 => Just(Step::Ask),
        1 => Just(Step::AskWarm),
        5 => (any::<usize>(), usage).prop_map(|(which, usage)| Step::Set(which, usage)),
        3 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::GiveUp),
    ]
}

/// A model of the pool that carries out all commands and checks each of them.
struct World {
    slots: AgentSlots,
    caps: AgentPoolLimits,
    waiting: Vec<AgentSlotId>,
    /// In the order in which they entered their use, longest first.
    taken: Vec<(AgentSlotId, SlotUse)>,
}

impl World {
    fn balance(&mut self) {
        for order in self.slots.rebalance() {
            match order {
                SlotCommand::Admit(id) => {
                    assert_eq!(Some(&id), self.waiting.first(), "who asked first is first");
                    self.waiting.remove(0);
                    self.taken.push((id, SlotUse::Working));
                }
                SlotCommand::Evict(id) => {
                    let longest = |usage| self.taken.iter().find(|(_, known)| *known == usage).map(|(id, _)| *id);
                    let expected = longest(SlotUse::Prewarmed).or_else(|| longest(SlotUse::Idle));
                    assert_eq!(Some(id), expected, "warm ones first, then the least recently used");
                    self.moved(id, SlotUse::Evicting);
                }
            }
        }
        assert!(self.taken.len() <= self.caps.max_agents, "never more agents than slots");
        let count = |usage| self.taken.iter().filter(|(_, known)| *known == usage).count();
        assert!(count(SlotUse::Prewarmed) <= self.caps.max_prewarmed);
        if !self.waiting.is_empty() {
            assert_eq!(self.taken.len(), self.caps.max_agents, "no waiter while a slot is free");
            let spare = count(SlotUse::Prewarmed) + count(SlotUse::Idle);
            assert!(
                spare == 0 || count(SlotUse::Evicting) >= self.waiting.len(),
                "idle agents are evicted for waiters"
            );
        }
        for (id, usage) in &self.taken {
            assert_eq!(self.slots.slot_use(*id), Some(*usage));
        }
        let status = AgentPoolStatus {
            live: self.taken.len(),
            idle: count(SlotUse::Idle),
            prewarmed: count(SlotUse::Prewarmed),
            waiting: self.waiting.len(),
        };
        assert_eq!(self.slots.status(), status);
    }

    fn moved(&mut self, id: AgentSlotId, usage: SlotUse) {
        self.taken.retain(|(known, _)| *known != id);
        self.taken.push((id, usage));
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Ask => {
                let id = self.slots.enqueue();
                self.waiting.push(id);
            }
            Step::AskWarm => {
                if let Some(id) = self.slots.try_occupy_prewarm() {
                    assert!(self.waiting.is_empty(), "a message goes before an idea");
                    self.taken.push((id, SlotUse::Prewarmed));
                }
            }
            Step::Set(which, usage) if !self.taken.is_empty() => {
                let (id, before) = self.taken[which % self.taken.len()];
                self.slots.set_use(id, *usage);
                let stays = before == SlotUse::Evicting && *usage != SlotUse::Working;
                if before != *usage && !stays {
                    self.moved(id, *usage);
                }
            }
            Step::Release(which) if !self.taken.is_empty() => {
                let (id, _) = self.taken.remove(which % self.taken.len());
                self.slots.release(id);
            }
            Step::GiveUp(which) if !self.waiting.is_empty() => {
                let id = self.waiting.remove(which % self.waiting.len());
                self.slots.release(id);
            }
            _ => {}
        }
        self.balance();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn limits_hold_and_every_waiter_gets_a_slot(
        live in 1_usize..5,
        warm in 0_usize..3,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let caps = AgentPoolLimits { max_agents: live, max_prewarmed: warm };
        let mut world = World { slots: AgentSlots::new(caps), caps, waiting: Vec::new(), taken: Vec::new() };
        for step in &steps {
            world.apply(step);
        }
        // When all slots are released, all waiting requests get one, in order.
        while let Some((id, _)) = world.taken.first().copied() {
            world.taken.remove(0);
            world.slots.release(id);
            world.balance();
        }
        prop_assert!(world.waiting.is_empty());
    }
}

fn now(place: SlotAcquisition) -> super::AgentSlot {
    match place {
        SlotAcquisition::Acquired(slot) => slot,
        SlotAcquisition::Waiting(waiting) => panic!("{}", waiting.status_text()),
    }
}

fn later(place: SlotAcquisition) -> super::SlotWaiter {
    match place {
        SlotAcquisition::Acquired(_) => panic!("there should be no free slot"),
        SlotAcquisition::Waiting(waiting) => waiting,
    }
}

#[tokio::test]
async fn dropped_slot_goes_to_the_first_waiter() {
    let pool = AgentPool::new(AgentPoolConfig {
        limits: AgentPoolLimits { max_agents: 1, max_prewarmed: 1 },
        ..AgentPoolConfig::default()
    });
    let slot = now(pool.acquire());
    let (first, gives_up, last) = (later(pool.acquire()), later(pool.acquire()), later(pool.acquire()));
    assert_eq!(first.status_text(), "Waiting for a free agent (1 of 1 are working)");
    assert!(pool.try_acquire_prewarm().is_none());
    drop(gives_up);
    slot.set_use(SlotUse::Idle);
    slot.eviction_requested().await;
    assert!(slot.is_evicting());
    assert_eq!(last.status_text(), "Closing an idle agent to make room");
    drop(slot);
    let slot = first.acquired().await;
    // The slot is released as soon as it is assigned.
    drop(slot);
    drop(last);
    let warm = pool.try_acquire_prewarm().unwrap();
    warm.set_use(SlotUse::Working);
    drop(warm);
    assert_eq!(pool.status(), AgentPoolStatus::default());
}

#[test]
fn status_counts_agents_by_use() {
    let mut slots = AgentSlots::new(AgentPoolLimits { max_agents: 0, max_prewarmed: 0 });
    assert_eq!(slots.limits().max_agents, 1, "there is always one slot");
    let ids: BTreeMap<_, _> = [("a", slots.enqueue()), ("b", slots.enqueue())].into();
    assert_eq!(slots.rebalance(), [SlotCommand::Admit(ids["a"])]);
    slots.set_use(ids["a"], SlotUse::Idle);
    assert_eq!(slots.rebalance(), [SlotCommand::Evict(ids["a"])]);
    slots.set_use(ids["a"], SlotUse::Working);
    assert!(!matches!(slots.slot_use(ids["a"]), Some(SlotUse::Evicting)), "it got a message in the last moment");
    assert_eq!(slots.rebalance(), []);
}
