//! Tests of admission control on a paused clock. `tests/gateway/limits.rs` tests it over HTTP.

use std::pin::{Pin, pin};

use futures::FutureExt;
use proptest::prelude::*;

use super::*;
use crate::dollars::Dollars;
use crate::ledger::LedgerOptions;

const NINE_MINUTES: Duration = Duration::from_secs(540);

fn admission(limits: GatewayLimits, over_limit: OverLimitPolicy) -> Arc<AdmissionControl> {
    let ledger = Ledger::open(LedgerOptions::new(None)).unwrap();
    Arc::new(AdmissionControl::new(ledger, limits, over_limit))
}

fn used(tokens: u64, dollars: u64) -> UsageTotals {
    UsageTotals { input_tokens: tokens, dollars: Dollars::from_nanos(dollars), ..UsageTotals::default() }
}

/// Numbers of running and queued requests.
fn load(admission: &AdmissionControl) -> (u32, usize) {
    let state = admission.lock();
    (state.running, state.queue.len())
}

/// Admission control with one session that has used two requests, ten tokens and ten billionths of a dollar, and has
/// one request running.
async fn busy_admission(over_limit: OverLimitPolicy) -> (Arc<AdmissionControl>, Arc<SessionAccount>, RequestPermit) {
    let admission = admission(wide(), over_limit);
    let account = admission.account("one");
    drop(admission.admit(&account).await.unwrap());
    let running = admission.admit(&account).await.unwrap();
    running.charge(&used(10, 10));
    (admission, account, running)
}

/// Limits that are never reached, so that the rate window is recorded.
fn wide() -> GatewayLimits {
    let session = SessionLimits { requests_per_minute: Some(1_000), ..SessionLimits::default() };
    GatewayLimits { requests_per_minute: Some(1_000), session, ..GatewayLimits::default() }
}

/// Each limit, set to the current usage.
fn table() -> Vec<(LimitScope, LimitMetric, u64, GatewayLimits)> {
    let mut table = Vec::new();
    for (measure, used, budget) in [
        (LimitMetric::Requests, 2, UsageBudget { requests: Some(2), ..UsageBudget::default() }),
        (LimitMetric::Tokens, 10, UsageBudget { tokens: Some(10), ..UsageBudget::default() }),
        (LimitMetric::Dollars, 10, UsageBudget { dollars: Some(Dollars::from_nanos(10)), ..UsageBudget::default() }),
    ] {
        let session = SessionLimits { total: budget, ..wide().session };
        table.push((LimitScope::Session, measure, used, GatewayLimits { session, ..wide() }));
        table.push((LimitScope::Host, measure, used, GatewayLimits { day: budget, ..wide() }));
    }
    let session = wide().session;
    let one_at_a_time = SessionLimits { concurrent: Some(1), ..session };
    let two_a_minute = SessionLimits { requests_per_minute: Some(2), ..session };
    table.push((
        LimitScope::Session,
        LimitMetric::ConcurrentRequests,
        1,
        GatewayLimits { session: one_at_a_time, ..wide() },
    ));
    table.push((LimitScope::Host, LimitMetric::ConcurrentRequests, 1, GatewayLimits { concurrent: Some(1), ..wide() }));
    table.push((
        LimitScope::Session,
        LimitMetric::RequestsPerMinute,
        2,
        GatewayLimits { session: two_a_minute, ..wide() },
    ));
    table.push((
        LimitScope::Host,
        LimitMetric::RequestsPerMinute,
        2,
        GatewayLimits { requests_per_minute: Some(2), ..wide() },
    ));
    table
}

/// Polls a request that must stay queued.
async fn settle(waiting: Pin<&mut (impl Future<Output = Result<RequestPermit, LimitExceeded>> + ?Sized)>) -> bool {
    let mut waiting = waiting;
    for _ in 0..10 {
        if waiting.as_mut().now_or_never().is_some() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test(start_paused = true)]
async fn every_limit_rejects_at_once_with_the_reject_policy() {
    for (scope, measure, used, limits) in table() {
        let (admission, account, _running) = busy_admission(OverLimitPolicy::Reject).await;
        admission.set_limits(limits);
        let refused = admission.admit(&account).now_or_never().unwrap().err().unwrap();
        assert_eq!(refused.limit, ReachedLimit { scope, metric: measure, used, allowed: used }, "{limits:?}");
        assert_eq!(refused.retry_after.is_none(), refused.limit.is_budget(), "{limits:?}");
        // A rejected request is neither counted nor published as waiting.
        let status = *account.status().borrow();
        assert_eq!((status.totals.requests, status.waiting), (2, None));
        assert_eq!(status.rejected_by, Some(refused.limit).filter(ReachedLimit::is_budget));
        admission.set_limits(wide());
        let _permit = admission.admit(&account).await.unwrap();
        assert_eq!(account.status().borrow().rejected_by, None);
    }
}

#[tokio::test(start_paused = true)]
async fn every_limit_queues_requests_until_it_is_raised() {
    for (scope, measure, used, limits) in table() {
        let (admission, account, _running) = busy_admission(OverLimitPolicy::WAIT).await;
        admission.set_limits(limits);
        let mut waiting = pin!(admission.admit(&account));
        assert!(!settle(waiting.as_mut()).await, "{limits:?}");
        let held = account.status().borrow().waiting.unwrap();
        assert_eq!(held.limit, ReachedLimit { scope, metric: measure, used, allowed: used });
        admission.set_limits(wide());
        let _permit = waiting.now_or_never().unwrap().unwrap();
        let status = *account.status().borrow();
        assert_eq!((status.totals.requests, status.waiting), (3, None), "{limits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_over_a_budget_is_rejected_after_the_maximum_wait() {
    for (scope, measure, used, limits) in table() {
        let (admission, account, _running) = busy_admission(OverLimitPolicy::WAIT).await;
        admission.set_limits(limits);
        let start = Instant::now();
        let answer = admission.admit(&account).await;
        if measure == LimitMetric::RequestsPerMinute {
            // A rate limit frees up by itself.
            assert!(answer.is_ok());
            assert_eq!(start.elapsed().as_secs(), 60);
            continue;
        }
        let refused = answer.err().unwrap();
        assert_eq!(refused.limit, ReachedLimit { scope, metric: measure, used, allowed: used });
        assert_eq!(start.elapsed().as_secs(), NINE_MINUTES.as_secs(), "{limits:?}");
        assert_eq!(account.status().borrow().waiting, None);
        assert!(admission.lock().queue.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn session_limits_override_the_defaults() {
    let budget = UsageBudget { requests: Some(1), ..UsageBudget::default() };
    let limits = GatewayLimits {
        session: SessionLimits { total: budget, ..SessionLimits::default() },
        ..GatewayLimits::default()
    };
    let admission = admission(limits, OverLimitPolicy::WAIT);
    let (one, two) = (admission.account("one"), admission.account("two"));
    admission.set_session_limits("one", SessionLimits { concurrent: Some(5), ..SessionLimits::default() });
    assert_eq!(one.status().borrow().limits, SessionLimits { concurrent: Some(5), ..limits.session });
    drop(admission.admit(&one).await.unwrap());
    drop(admission.admit(&two).await.unwrap());
    let (mut first, mut second) = (pin!(admission.admit(&one)), pin!(admission.admit(&two)));
    assert!(!settle(first.as_mut()).await && !settle(second.as_mut()).await);
    let raised = UsageBudget { requests: Some(2), ..UsageBudget::default() };
    admission.set_session_limits("one", SessionLimits { total: raised, ..SessionLimits::default() });
    drop(first.now_or_never().unwrap().unwrap());
    assert!(!settle(second.as_mut()).await);
}

#[tokio::test(start_paused = true)]
async fn a_free_slot_goes_to_the_longest_waiting_request() {
    let admission = admission(GatewayLimits { concurrent: Some(1), ..GatewayLimits::default() }, OverLimitPolicy::WAIT);
    let (one, two) = (admission.account("one"), admission.account("two"));
    let running = admission.admit(&one).await.unwrap();
    let mut first = Box::pin(admission.admit(&two));
    assert!(!settle(first.as_mut()).await);
    let mut second = Box::pin(admission.admit(&one));
    assert!(!settle(second.as_mut()).await);
    drop(running);
    // A new request does not overtake the first one, even before that one has received its permit.
    let mut third = Box::pin(admission.admit(&one));
    assert!(!settle(third.as_mut()).await);
    assert!(!settle(second.as_mut()).await);
    let running = first.now_or_never().unwrap().unwrap();
    drop(running);
    let running = second.now_or_never().unwrap().unwrap();
    assert!(!settle(third.as_mut()).await);
    drop(running);
    assert!(third.now_or_never().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_session_over_its_budget_does_not_block_other_sessions() {
    let admission = admission(GatewayLimits::default(), OverLimitPolicy::WAIT);
    let (one, two) = (admission.account("one"), admission.account("two"));
    let none = UsageBudget { requests: Some(0), ..UsageBudget::default() };
    admission.set_session_limits("one", SessionLimits { total: none, ..SessionLimits::default() });
    let mut waiting = pin!(admission.admit(&one));
    assert!(!settle(waiting.as_mut()).await);
    assert!(admission.admit(&two).now_or_never().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_frees_its_slot_even_after_it_was_granted() {
    let admission = admission(GatewayLimits { concurrent: Some(1), ..GatewayLimits::default() }, OverLimitPolicy::WAIT);
    let account = admission.account("one");
    let running = admission.admit(&account).await.unwrap();
    let mut leaves = Box::pin(admission.admit(&account));
    let mut leaves_late = Box::pin(admission.admit(&account));
    let mut stays = Box::pin(admission.admit(&account));
    assert!(!settle(leaves.as_mut()).await);
    assert!(!settle(leaves_late.as_mut()).await);
    assert!(!settle(stays.as_mut()).await);
    drop(leaves);
    assert_eq!(admission.lock().queue.len(), 2);
    drop(running);
    assert_eq!(admission.lock().running, 1);
    drop(leaves_late);
    drop(stays.now_or_never().unwrap().unwrap());
    assert_eq!(load(&admission), (0, 0));
    assert_eq!(account.lock().running, 0);
    assert_eq!(account.status().borrow().waiting, None);
}

#[tokio::test(start_paused = true)]
async fn requests_over_the_rate_limit_wait_for_a_free_slot() {
    let admission =
        admission(GatewayLimits { requests_per_minute: Some(2), ..GatewayLimits::default() }, OverLimitPolicy::WAIT);
    let account = admission.account("one");
    let start = Instant::now();
    for seconds in [0, 10, 60, 70, 120] {
        drop(admission.admit(&account).await.unwrap());
        assert_eq!(start.elapsed().as_secs(), seconds);
        if seconds == 0 {
            tokio::time::advance(Duration::from_secs(10)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_queue_has_a_maximum_length() {
    let admission = admission(GatewayLimits { concurrent: Some(0), ..GatewayLimits::default() }, OverLimitPolicy::WAIT);
    let account = admission.account("one");
    let mut line = Vec::new();
    for _ in 0..MAX_QUEUED_REQUESTS {
        let mut waiting = Box::pin(admission.admit(&account));
        assert!(waiting.as_mut().now_or_never().is_none());
        line.push(waiting);
    }
    let refused = admission.admit(&account).now_or_never().unwrap().err().unwrap();
    assert_eq!(refused.retry_after, Some(CONCURRENCY_RETRY_AFTER));
    line.clear();
    assert!(admission.lock().queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn requests_over_the_daily_budget_are_admitted_on_the_next_day() {
    let start: Timestamp = "2026-11-15T23:58:00Z".parse().unwrap();
    let begin = Instant::now();
    let clock = Arc::new(move || start.checked_add(begin.elapsed()).unwrap());
    let ledger = Ledger::open(LedgerOptions { clock, ..LedgerOptions::new(None) }).unwrap();
    let day = UsageBudget { requests: Some(1), ..UsageBudget::default() };
    let admission = Arc::new(AdmissionControl::new(
        ledger,
        GatewayLimits { day, ..GatewayLimits::default() },
        OverLimitPolicy::WAIT,
    ));
    let account = admission.account("one");
    drop(admission.admit(&account).await.unwrap());
    drop(admission.admit(&account).await.unwrap());
    assert_eq!(begin.elapsed().as_secs(), 120);
    assert_eq!(admission.ledger().totals_today().requests, 1);
}

#[tokio::test]
async fn usage_of_a_deleted_session_counts_for_the_day() {
    let admission = admission(GatewayLimits::default(), OverLimitPolicy::WAIT);
    let account = admission.account("one");
    let running = admission.admit(&account).await.unwrap();
    admission.delete_session("one");
    running.charge(&used(5, 5));
    assert_eq!(admission.ledger().session_totals("one"), UsageTotals::default());
    assert_eq!(admission.ledger().totals_today().tokens(), 5);
    let anew = admission.account("one");
    assert_eq!(anew.status().borrow().totals, UsageTotals::default());
    drop(running);
    assert_eq!(anew.lock().running, 0);
}

/// Operations on admission control.
#[derive(Debug, Clone)]
enum Step {
    Arrive(usize),
    Leave(usize),
    Limit(u32),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize).prop_map(Step::Arrive),
        3 => (0..16_usize).prop_map(Step::Leave),
        1 => (0..4_u32).prop_map(Step::Limit),
        1 => (1..90_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn limits_hold_and_slots_are_freed_after_any_operations(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let session = SessionLimits { concurrent: Some(2), ..SessionLimits::default() };
            let limits = GatewayLimits { concurrent: Some(3), requests_per_minute: Some(5), session, ..GatewayLimits::default() };
            let admission = admission(limits, OverLimitPolicy::WAIT);
            let accounts = ["a", "b", "c"].map(|name| admission.account(name));
            let (mut waiting, mut running, mut admitted) = (Vec::new(), Vec::new(), 0);
            let mut allowed = 3;
            for step in steps {
                // Granted permits count, whether or not their requests have received them.
                let before = load(&admission).0;
                match step {
                    Step::Arrive(account) => {
                        let (admission, account) = (Arc::clone(&admission), Arc::clone(&accounts[account]));
                        waiting.push(Box::pin(async move { admission.admit(&account).await }));
                    }
                    // A running request ends, or a queued one is dropped.
                    Step::Leave(index) if index < running.len() => drop(running.swap_remove(index)),
                    Step::Leave(index) if index - running.len() < waiting.len() => {
                        drop(waiting.remove(index - running.len()));
                    }
                    Step::Leave(_) => {}
                    Step::Limit(concurrent) => {
                        allowed = concurrent;
                        admission.set_limits(GatewayLimits { concurrent: Some(concurrent), ..limits });
                    }
                    Step::Pass(seconds) => tokio::time::advance(Duration::from_secs(seconds)).await,
                }
                let taken = running.len();
                let mut still = Vec::new();
                for mut request in waiting {
                    match request.as_mut().now_or_never() {
                        Some(Ok(permit)) => running.push(permit),
                        Some(Err(_)) => {}
                        None => still.push(request),
                    }
                }
                waiting = still;
                admitted += running.len() - taken;
                let given = load(&admission).0;
                assert!(given <= before || given <= allowed, "{given} run of {allowed}");
                for account in &accounts {
                    assert!(account.lock().running <= 2);
                }
            }
            // Granted but unclaimed permits count until their requests are dropped.
            drop(waiting);
            assert_eq!(admission.lock().running as usize, running.len());
            drop(running);
            assert!(admission.ledger().totals_today().requests >= admitted as u64);
            assert_eq!(load(&admission), (0, 0));
            for account in &accounts {
                assert_eq!((account.lock().running, account.status().borrow().waiting), (0, None));
            }
        });
    }
}
