//! Tests of the budget's view: events in, effects out.

use super::*;
use crate::sessions::budget::{LimitKind, SessionUsage};

fn used(requests: u64) -> SessionBudget {
    SessionBudget { usage: SessionUsage { requests, ..SessionUsage::default() }, ..SessionBudget::default() }
}

fn waiting(requests: u64) -> SessionBudget {
    let limit = LimitReached {
        kind: LimitKind::PerMinute,
        host_wide: false,
        used: 1,
        allowed: 1,
        description: "one request per minute".to_owned(),
        advice: "Wait.".to_owned(),
    };
    SessionBudget { waiting_for: Some(LimitWait { limit, since: "2026-01-01T00:00:00Z".to_owned() }), ..used(requests) }
}

/// The kinds of effects: W for a displayed wait, w for a cleared one, P for a publication, S for a scheduled one.
fn kinds(effects: &[BudgetEffect]) -> String {
    let kind = |effect: &BudgetEffect| match effect {
        BudgetEffect::DisplayWait(Some(_)) => 'W',
        BudgetEffect::DisplayWait(None) => 'w',
        BudgetEffect::Publish(_) => 'P',
        BudgetEffect::SchedulePublish(_) => 'S',
    };
    effects.iter().map(kind).collect()
}

#[test]
fn totals_are_published_at_most_once_per_interval() {
    let (mut view, start) = (BudgetView::default(), Instant::now());
    let mut on =
        |event, requests, ms| kinds(&view.on(event, Some(&used(requests)), None, start + Duration::from_millis(ms)));
    assert_eq!(on(BudgetEvent::Changed, 1, 0), "P");
    assert_eq!(on(BudgetEvent::Changed, 2, 100), "S");
    assert_eq!(on(BudgetEvent::Changed, 3, 200), "", "scheduled once");
    assert_eq!(on(BudgetEvent::PublishDue, 3, 250), "P");
    assert_eq!(on(BudgetEvent::TurnEnded, 4, 260), "P", "a turn's end publishes at once");
    assert_eq!(on(BudgetEvent::Changed, 5, 600), "P");
}

#[test]
fn wait_for_a_limit_is_published_at_once() {
    let (mut view, now) = (BudgetView::default(), Instant::now());
    let mut on = |event, budget: SessionBudget| kinds(&view.on(event, Some(&budget), None, now));
    assert_eq!(on(BudgetEvent::Changed, used(1)), "P");
    assert_eq!(on(BudgetEvent::Changed, waiting(1)), "WP");
    assert_eq!(on(BudgetEvent::Changed, waiting(2)), "S", "the same wait");
    assert_eq!(on(BudgetEvent::Changed, used(2)), "wP");
    on(BudgetEvent::Changed, waiting(3));
    on(BudgetEvent::TurnEnded, waiting(3));
    assert_eq!(on(BudgetEvent::Changed, waiting(3)), "WP", "the next turn displays it again");
}

#[test]
fn unchanged_or_unknown_budget_is_not_published() {
    let (mut view, now) = (BudgetView::default(), Instant::now());
    assert_eq!(view.on(BudgetEvent::Opened, None, None, now), []);
    assert_eq!(view.on(BudgetEvent::Opened, Some(&SessionBudget::default()), None, now), []);
    let meta = used(1).merge_into_meta(None).unwrap();
    assert_eq!(view.on(BudgetEvent::Opened, Some(&used(1)), Some(&meta), now), []);
}
