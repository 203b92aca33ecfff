//! Tests of the external sync: events in, effects out. A dispatch is a number.

use super::*;

const DONE: SyncEvent<u8> = SyncEvent::PassEnded(PassResult::Complete(None));
const SHOW_IDLE: SyncEffect<u8> = SyncEffect::ShowActivity(false);

fn release(queue: bool, held: &[u8]) -> SyncEffect<u8> {
    SyncEffect::Release { queue, held: held.iter().copied().collect() }
}

#[test]
fn one_sync_runs_at_a_time_and_a_change_meanwhile_causes_another() {
    let mut sync = ExternalSync::default();
    assert_eq!(sync.on(SyncEvent::Changed, false), [SyncEffect::StartPass]);
    assert_eq!(sync.on(SyncEvent::Changed, false), []);
    assert_eq!(sync.on(SyncEvent::PassEnded(PassResult::Partial), false), [SyncEffect::StartPass]);
    assert_eq!(sync.on(DONE, false), [SHOW_IDLE, SyncEffect::StartPass]);
    assert_eq!(sync.on(DONE, false), [SHOW_IDLE]);
    assert!(sync.is_idle());
}

#[test]
fn message_and_queue_wait_for_a_sync_that_starts_after_them() {
    let mut sync = ExternalSync::default();
    sync.on(SyncEvent::Changed, false);
    assert_eq!(sync.on(SyncEvent::Held(7), false), [SyncEffect::StartDeadline]);
    assert_eq!(sync.on(SyncEvent::QueueHeld, false), []);
    assert_eq!(sync.on(DONE, false), [SHOW_IDLE, SyncEffect::StartPass]);
    assert_eq!(sync.on(DONE, false), [SHOW_IDLE, release(true, &[7])]);
    assert_eq!(sync.on(SyncEvent::DeadlineElapsed, false), [], "nothing waits");
}

#[test]
fn message_is_released_at_its_deadline() {
    let mut sync = ExternalSync::default();
    assert_eq!(sync.on(SyncEvent::Held(7), false), [SyncEffect::StartDeadline, SyncEffect::StartPass]);
    assert_eq!(sync.on(SyncEvent::DeadlineElapsed, false), [release(false, &[7])]);
    assert!(sync.is_syncing(), "the sync continues");
}

#[test]
fn running_turn_defers_syncs_until_its_end() {
    let mut sync = ExternalSync::<u8>::default();
    assert_eq!(sync.on(SyncEvent::Changed, true), []);
    assert_eq!(sync.on(SyncEvent::TurnEnded, false), [SyncEffect::StartPass]);
    // The next turn starts while the pass runs.
    assert_eq!(sync.on(SyncEvent::PassEnded(PassResult::Interrupted), true), []);
    assert_eq!(sync.on(SyncEvent::TurnEnded, false), [SyncEffect::StartPass]);
    assert_eq!(sync.on(DONE, false), [SHOW_IDLE]);
    assert_eq!(sync.on(SyncEvent::TurnEnded, false), []);
}

#[test]
fn turn_of_another_process_is_displayed_and_polled_and_the_queue_waits() {
    let mut sync = ExternalSync::default();
    sync.on(SyncEvent::QueueHeld, false);
    sync.on(SyncEvent::Held(7), false);
    let pause = Duration::from_secs(2);
    let active = SyncEvent::PassEnded(PassResult::Complete(Some(pause)));
    assert_eq!(sync.on(active.clone(), false)[..1], [SyncEffect::ShowActivity(true)]);
    assert_eq!(sync.on(active, false), [SyncEffect::ShowActivity(true), release(false, &[7])], "one poll is scheduled");
    assert!(sync.is_active_elsewhere() && !sync.is_idle());
    sync.on(SyncEvent::PollElapsed, false);
    let missing = sync.on(SyncEvent::PassEnded(PassResult::Missing), false);
    assert_eq!(missing, [SHOW_IDLE, release(true, &[])], "no process continues in a missing transcript");
}

#[test]
fn unreadable_transcript_is_retried_with_increasing_delays_until_it_is_given_up() {
    let mut sync = ExternalSync::<u8>::default();
    let mut delays = Vec::new();
    for _ in 0..MAX_SYNC_FAILURES {
        sync.on(SyncEvent::PollElapsed, false);
        let effects = sync.on(SyncEvent::PassEnded(PassResult::Failed), false);
        delays.extend(effects.iter().filter_map(|effect| match effect {
            SyncEffect::SchedulePoll(delay) => Some(delay.as_secs()),
            _ => None,
        }));
    }
    assert_eq!(delays, [60, 120, 240, 480, 600, 600, 600, 600, 600]);
    assert!(sync.is_idle());
    assert_eq!(sync.on(SyncEvent::Opened, false), [SyncEffect::StartPass]);
}
