//! Tests of the idle timer: activities and events in, effects out.

use super::*;

use AgentActivity::{Absent, AwaitingAnswer, Background, Closing, Idle, Prewarmed, Working};
use IdleTimerEffect::{
    AbortUnanswered, ReleaseSlot, ReportStall, ReportUse, Retire, RetireIfEvicting, RetireWithBackgroundWork, SetTimer,
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn config() -> AgentPoolConfig {
    AgentPoolConfig {
        idle_timeout: seconds(10),
        max_idle_timeout: seconds(100),
        stall_timeout: seconds(5),
        ..AgentPoolConfig::default()
    }
}

/// An input that comes from the agent or a person if `is_activity`.
fn input(timer: &mut IdleTimer, at: u64, activity: AgentActivity, is_activity: bool) -> Vec<IdleTimerEffect> {
    let event = IdleTimerEvent::InputHandled { now: seconds(at), is_activity, is_busy: activity == Working };
    timer.on(event, activity, &config())
}

fn elapsed(timer: &mut IdleTimer, activity: AgentActivity) -> Vec<IdleTimerEffect> {
    timer.on(IdleTimerEvent::Elapsed, activity, &config())
}

#[test]
fn idle_window_starts_with_the_end_of_the_work() {
    let mut timer = IdleTimer::default();
    assert_eq!(input(&mut timer, 1, Working, true), [ReportUse(SlotUse::Working), SetTimer(Some(seconds(6)))]);
    assert_eq!(input(&mut timer, 3, Idle, true), [ReportUse(SlotUse::Idle), SetTimer(Some(seconds(13)))]);
    assert_eq!(input(&mut timer, 5, Idle, true), [ReportUse(SlotUse::Idle)], "an input does not extend the window");
    assert_eq!(elapsed(&mut timer, Idle), [Retire]);
}

#[test]
fn activity_counts_when_the_window_ends() {
    let mut timer = IdleTimer::default();
    input(&mut timer, 1, Idle, false);
    assert_eq!(elapsed(&mut timer, Closing), []);
    assert_eq!(elapsed(&mut timer, Absent), []);
}

#[test]
fn window_after_background_work_is_limited_by_the_last_work() {
    let mut timer = IdleTimer::default();
    input(&mut timer, 0, Working, true);
    let effects = input(&mut timer, 1, Background, true);
    assert_eq!(effects, [ReportUse(SlotUse::Working), SetTimer(Some(seconds(101)))]);
    assert_eq!(input(&mut timer, 95, Idle, false), [ReportUse(SlotUse::Idle)], "still 101 s");
    input(&mut timer, 96, Background, false);
    assert_eq!(elapsed(&mut timer, Background), [RetireWithBackgroundWork]);
}

#[test]
fn unanswered_request_ends_the_turn() {
    let mut timer = IdleTimer::default();
    input(&mut timer, 0, Working, true);
    let effects = input(&mut timer, 2, AwaitingAnswer, true);
    assert_eq!(effects, [ReportUse(SlotUse::Working), SetTimer(Some(seconds(102)))]);
    let effects = input(&mut timer, 50, AwaitingAnswer, true);
    assert_eq!(effects, [ReportUse(SlotUse::Working), SetTimer(Some(seconds(150)))], "a person is there");
    assert_eq!(input(&mut timer, 60, AwaitingAnswer, false), [ReportUse(SlotUse::Working)]);
    assert_eq!(elapsed(&mut timer, AwaitingAnswer), [AbortUnanswered]);
}

#[test]
fn stall_is_reported_once_until_the_agent_sends_something() {
    let mut timer = IdleTimer::default();
    input(&mut timer, 0, Working, true);
    assert_eq!(elapsed(&mut timer, Working), [ReportStall]);
    assert_eq!(input(&mut timer, 5, Working, false), [ReportUse(SlotUse::Working)], "no timer");
    assert_eq!(input(&mut timer, 6, Working, true), [ReportUse(SlotUse::Working), SetTimer(Some(seconds(11)))]);
}

#[test]
fn agent_that_is_about_to_work_has_no_timer() {
    let mut timer = IdleTimer::default();
    let event = IdleTimerEvent::InputHandled { now: seconds(1), is_activity: true, is_busy: false };
    assert_eq!(timer.on(event, Working, &config()), [ReportUse(SlotUse::Working)]);
    input(&mut timer, 2, Idle, true);
    assert_eq!(input(&mut timer, 3, Closing, false), [ReportUse(SlotUse::Evicting), SetTimer(None)]);
}

#[test]
fn pool_gets_the_slot_of_an_unused_agent_only() {
    for (activity, effects) in [
        (Idle, vec![RetireIfEvicting]),
        (Prewarmed, vec![RetireIfEvicting]),
        (Working, vec![]),
        (AwaitingAnswer, vec![]),
        (Background, vec![]),
        (Closing, vec![]),
    ] {
        assert_eq!(IdleTimer::default().on(IdleTimerEvent::SlotRequested, activity, &config()), effects);
    }
}

#[test]
fn absent_agent_needs_no_slot_and_no_timer() {
    let mut timer = IdleTimer::default();
    input(&mut timer, 1, Prewarmed, true);
    assert_eq!(input(&mut timer, 2, Absent, true), [ReleaseSlot]);
    let effects = input(&mut timer, 3, Prewarmed, true);
    assert_eq!(effects, [ReportUse(SlotUse::Prewarmed), SetTimer(Some(seconds(13)))], "a new window");
}

#[test]
fn format_duration_uses_the_largest_exact_unit() {
    let texts = [7200, 3600, 5400, 61, 0].map(|seconds| format_duration(Duration::from_secs(seconds)));
    assert_eq!(texts, ["2 hours", "1 hour", "90 minutes", "61 seconds", "0 seconds"]);
}
