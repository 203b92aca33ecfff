//! Admission control: admits, queues or rejects each request by the limits, and publishes what a session waits for.
//!
//! Waiting requests form one queue. Whenever a request ends, a limit changes or a rate window advances, the queue is
//! checked from the front and every request within its limits is admitted. So a request never overtakes one that waits
//! for the same limit, and never waits behind one that waits for another limit.
//!
//! Lock order: admission state, account, account status, ledger.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::request_window::RequestWindow;
use super::{
    GatewayLimits, LimitExceeded, LimitMetric, LimitScope, OverLimitPolicy, ReachedLimit, SessionLimits,
    SessionUsageStatus, UsageBudget, WaitingRequest,
};
use crate::ledger::{AccountKey, Ledger};
use crate::usage::UsageTotals;

/// Maximum number of waiting requests. Each holds its body in memory; further ones are rejected.
const MAX_QUEUED_REQUESTS: usize = 256;
/// `retry-after` for a concurrency limit, whose free slot has no known time.
const CONCURRENCY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Admits requests within the limits.
pub(crate) struct AdmissionControl {
    ledger: Ledger,
    over_limit: OverLimitPolicy,
    state: Mutex<State>,
    /// Incremented when limits change; waiting requests then recompute their timeout.
    changes: watch::Sender<u64>,
}

struct State {
    limits: GatewayLimits,
    accounts: HashMap<Arc<str>, Arc<SessionAccount>>,
    running: u32,
    window: RequestWindow,
    queue: VecDeque<QueuedRequest>,
    last_ticket: u64,
}

/// A session's account.
pub(crate) struct SessionAccount {
    name: AccountKey,
    status: watch::Sender<SessionUsageStatus>,
    state: Mutex<AccountState>,
}

#[derive(Default)]
struct AccountState {
    /// Limits set for this session.
    session_limits: SessionLimits,
    running: u32,
    window: RequestWindow,
    /// The session was deleted; further usage counts for the day only.
    is_deleted: bool,
}

/// A request in the queue.
struct QueuedRequest {
    ticket: u64,
    account: Arc<SessionAccount>,
    since: Timestamp,
    blocked: BlockedRequest,
    grant: oneshot::Sender<RequestPermit>,
}

/// The limit that blocks a request, and when it frees up by itself.
#[derive(Debug, Clone, Copy)]
struct BlockedRequest {
    limit: ReachedLimit,
    retry_at: Option<Instant>,
}

impl BlockedRequest {
    fn limit_exceeded_error(&self) -> LimitExceeded {
        let left =
            self.retry_at.map_or(CONCURRENCY_RETRY_AFTER, |until| until.saturating_duration_since(Instant::now()));
        LimitExceeded { limit: self.limit, retry_after: (!self.limit.is_budget()).then_some(left) }
    }
}

/// Permits granted to queued requests. They are sent after the state is unlocked, because dropping an unclaimed permit
/// locks it again.
#[must_use]
struct PermitGrants(Vec<(oneshot::Sender<RequestPermit>, RequestPermit)>);

impl PermitGrants {
    fn deliver(self) {
        for (grant, permit) in self.0 {
            // If the request was dropped meanwhile, the permit is dropped and frees its slot.
            let _ = grant.send(permit);
        }
    }
}

impl AdmissionControl {
    pub(crate) fn new(ledger: Ledger, limits: GatewayLimits, over_limit: OverLimitPolicy) -> Self {
        let state = State {
            limits,
            accounts: HashMap::new(),
            running: 0,
            window: RequestWindow::default(),
            queue: VecDeque::new(),
            last_ticket: 0,
        };
        Self { ledger, over_limit, state: Mutex::new(state), changes: watch::Sender::default() }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the account of a session.
    pub(crate) fn account(&self, session: &str) -> Arc<SessionAccount> {
        self.open_account(AccountKey { session: session.into(), is_unregistered: false })
    }

    /// Returns the account of an unregistered caller, by the id in its bearer.
    pub(crate) fn unregistered_account(&self, id: &str) -> Arc<SessionAccount> {
        self.open_account(AccountKey { session: self.ledger.unregistered_session_name(id), is_unregistered: true })
    }

    fn open_account(&self, name: AccountKey) -> Arc<SessionAccount> {
        let mut state = self.lock();
        let limits = state.limits.session;
        let account = state.accounts.entry(Arc::clone(&name.session)).or_insert_with(|| {
            let totals = self.ledger.session_totals(&name.session);
            let status = watch::Sender::new(SessionUsageStatus { totals, limits, ..SessionUsageStatus::default() });
            Arc::new(SessionAccount { name, status, state: Mutex::default() })
        });
        Arc::clone(account)
    }

    pub(crate) fn limits(&self) -> GatewayLimits {
        self.lock().limits
    }

    /// Replaces the host's limits and checks the queue.
    pub(crate) fn set_limits(self: &Arc<Self>, limits: GatewayLimits) {
        let mut state = self.lock();
        state.limits = limits;
        for account in state.accounts.values() {
            account.publish_limits(&limits);
        }
        self.apply_limit_change(state);
    }

    /// Replaces a session's limits and checks the queue.
    pub(crate) fn set_session_limits(self: &Arc<Self>, session: &str, own: SessionLimits) {
        let account = self.account(session);
        let state = self.lock();
        account.lock().session_limits = own;
        account.publish_limits(&state.limits);
        self.apply_limit_change(state);
    }

    fn apply_limit_change(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let grants = self.grant_queued(&mut state);
        drop(state);
        grants.deliver();
        self.changes.send_modify(|count| *count += 1);
    }

    /// Deletes a session's totals and limits. Its running requests count for the day only.
    pub(crate) fn delete_session(&self, session: &str) {
        let account = self.lock().accounts.remove(session);
        if let Some(account) = account {
            account.lock().is_deleted = true;
        }
        self.ledger.delete_session(session);
    }

    /// Waits until the request is admitted or rejected. Dropping the future removes the request from the queue.
    pub(crate) async fn admit(self: &Arc<Self>, account: &Arc<SessionAccount>) -> Result<RequestPermit, LimitExceeded> {
        let admitted = self.wait_for_permit(account).await;
        if let Err(too_much) = &admitted {
            account.publish_rejected(Some(too_much.limit).filter(ReachedLimit::is_budget));
        }
        admitted
    }

    async fn wait_for_permit(self: &Arc<Self>, account: &Arc<SessionAccount>) -> Result<RequestPermit, LimitExceeded> {
        // Subscribed before the first check, so that no change is missed.
        let mut changes = self.changes.subscribe();
        let (place, mut granted, deadline) = match self.try_enter(account)? {
            AdmissionAttempt::Admitted(permit) => return Ok(permit),
            AdmissionAttempt::Queued { position: place, granted, deadline } => (place, granted, deadline),
        };
        loop {
            let until =
                place.blocked().and_then(|blocked| blocked.retry_at).map_or(deadline, |until| until.min(deadline));
            tokio::select! {
                biased;
                Ok(permit) = &mut granted => return Ok(permit),
                Ok(()) = changes.changed() => continue,
                () = tokio::time::sleep_until(until) => {}
            }
            self.recheck_queue();
            if let Ok(permit) = granted.try_recv() {
                return Ok(permit);
            }
            if Instant::now() >= deadline
                && let Some(blocked) = place.blocked()
            {
                return Err(blocked.limit_exceeded_error());
            }
        }
    }

    fn try_enter(self: &Arc<Self>, account: &Arc<SessionAccount>) -> Result<AdmissionAttempt, LimitExceeded> {
        let mut state = self.lock();
        // Queued requests that can be admitted go first.
        let grants = self.grant_queued(&mut state);
        let entered = match self.try_grant(&mut state, account) {
            Ok(permit) => Ok(AdmissionAttempt::Admitted(permit)),
            Err(blocked) => match self.over_limit {
                OverLimitPolicy::Wait { max_wait: at_most } if state.queue.len() < MAX_QUEUED_REQUESTS => {
                    state.last_ticket += 1;
                    let (ticket, since) = (state.last_ticket, self.ledger.now());
                    let (grant, granted) = oneshot::channel();
                    let account = Arc::clone(account);
                    state.queue.push_back(QueuedRequest {
                        ticket,
                        account: Arc::clone(&account),
                        since,
                        blocked,
                        grant,
                    });
                    state.publish_waiting(&account);
                    let place = QueuePosition { admission: Arc::clone(self), account, ticket };
                    Ok(AdmissionAttempt::Queued { position: place, granted, deadline: Instant::now() + at_most })
                }
                OverLimitPolicy::Wait { .. } | OverLimitPolicy::Reject => Err(blocked.limit_exceeded_error()),
            },
        };
        drop(state);
        grants.deliver();
        entered
    }

    /// Checks the queue after time has passed.
    fn recheck_queue(self: &Arc<Self>) {
        let mut state = self.lock();
        let grants = self.grant_queued(&mut state);
        drop(state);
        grants.deliver();
    }

    /// Checks every queued request once, from the front.
    fn grant_queued(self: &Arc<Self>, state: &mut State) -> PermitGrants {
        let mut grants = Vec::new();
        if state.queue.is_empty() {
            return PermitGrants(grants);
        }
        for mut waiting in std::mem::take(&mut state.queue) {
            match self.try_grant(state, &waiting.account) {
                Ok(permit) => grants.push((waiting.grant, permit)),
                Err(blocked) => {
                    waiting.blocked = blocked;
                    state.queue.push_back(waiting);
                }
            }
        }
        for (_, permit) in &grants {
            state.publish_waiting(&permit.account);
        }
        for waiting in &state.queue {
            state.publish_waiting(&waiting.account);
        }
        PermitGrants(grants)
    }

    /// Checks the limits and counts the request in one step.
    fn try_grant(
        self: &Arc<Self>,
        state: &mut State,
        account: &Arc<SessionAccount>,
    ) -> Result<RequestPermit, BlockedRequest> {
        let now = Instant::now();
        let mut live = account.lock();
        let limits = live.session_limits.or_defaults(state.limits.session);
        let host = state.limits;

        let totals = account.status.borrow().totals;
        check_budget(&limits.total, &totals, LimitScope::Session)
            .map_err(|reached| BlockedRequest { limit: reached, retry_at: None })?;
        check_budget(&host.day, &self.ledger.totals_today(), LimitScope::Host).map_err(|reached| BlockedRequest {
            limit: reached,
            retry_at: now.checked_add(self.ledger.time_until_tomorrow()),
        })?;
        check_concurrency(limits.concurrent, live.running, LimitScope::Session)?;
        check_concurrency(host.concurrent, state.running, LimitScope::Host)?;
        check_request_rate(limits.requests_per_minute, &mut live.window, now, LimitScope::Session)?;
        check_request_rate(host.requests_per_minute, &mut state.window, now, LimitScope::Host)?;

        live.running += 1;
        state.running += 1;
        live.window.record(limits.requests_per_minute, now);
        state.window.record(host.requests_per_minute, now);
        drop(live);
        account.publish_rejected(None);
        account.charge(&self.ledger, &UsageTotals::ONE_REQUEST);
        Ok(RequestPermit { admission: Arc::clone(self), account: Arc::clone(account) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum AdmissionAttempt {
    Admitted(RequestPermit),
    Queued { position: QueuePosition, granted: oneshot::Receiver<RequestPermit>, deadline: Instant },
}

impl State {
    /// Publishes the limit that the session's first waiting request is blocked by.
    fn publish_waiting(&self, account: &Arc<SessionAccount>) {
        let first = self.queue.iter().find(|waiting| Arc::ptr_eq(&waiting.account, account));
        let held = first.map(|waiting| WaitingRequest { limit: waiting.blocked.limit, since: waiting.since });
        account.status.send_if_modified(|status| std::mem::replace(&mut status.waiting, held) != held);
    }
}

impl SessionAccount {
    /// The session's usage, limits and waiting request, now and at every change.
    pub(crate) fn status(&self) -> watch::Receiver<SessionUsageStatus> {
        self.status.subscribe()
    }

    fn charge(&self, ledger: &Ledger, change: &UsageTotals) {
        // Locked until the usage is counted, so that a concurrent deletion removes it, too.
        let live = self.lock();
        if live.is_deleted {
            ledger.add_to_day(change);
        } else {
            // Inside the status update, so that two updates cannot be published in the wrong order.
            self.status.send_modify(|status| status.totals = ledger.add(&self.name, change));
        }
    }

    fn publish_rejected(&self, refused: Option<ReachedLimit>) {
        self.status.send_if_modified(|status| std::mem::replace(&mut status.rejected_by, refused) != refused);
    }

    fn publish_limits(&self, host: &GatewayLimits) {
        let limits = self.lock().session_limits.or_defaults(host.session);
        self.status.send_if_modified(|status| std::mem::replace(&mut status.limits, limits) != limits);
    }

    fn lock(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permission for one upstream request. Dropping it frees its slot.
pub(crate) struct RequestPermit {
    admission: Arc<AdmissionControl>,
    account: Arc<SessionAccount>,
}

impl RequestPermit {
    /// Adds the usage of the response.
    pub(crate) fn charge(&self, change: &UsageTotals) {
        self.account.charge(&self.admission.ledger, change);
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let mut state = self.admission.lock();
        state.running -= 1;
        self.account.lock().running -= 1;
        let grants = self.admission.grant_queued(&mut state);
        drop(state);
        grants.deliver();
    }
}

/// A position in the queue; dropping it removes the request.
struct QueuePosition {
    admission: Arc<AdmissionControl>,
    account: Arc<SessionAccount>,
    ticket: u64,
}

impl QueuePosition {
    /// What blocks the request; `None` if it is no longer queued.
    fn blocked(&self) -> Option<BlockedRequest> {
        let state = self.admission.lock();
        state.queue.iter().find(|waiting| waiting.ticket == self.ticket).map(|waiting| waiting.blocked)
    }
}

impl Drop for QueuePosition {
    fn drop(&mut self) {
        let mut state = self.admission.lock();
        let before = state.queue.len();
        state.queue.retain(|waiting| waiting.ticket != self.ticket);
        if state.queue.len() != before {
            state.publish_waiting(&self.account);
        }
    }
}

/// Fails if a budget is used up.
fn check_budget(budget: &UsageBudget, used: &UsageTotals, scope: LimitScope) -> Result<(), ReachedLimit> {
    for (measure, allowed, used) in [
        (LimitMetric::Requests, budget.requests, used.requests),
        (LimitMetric::Tokens, budget.tokens, used.tokens()),
        (LimitMetric::Dollars, budget.dollars.map(|dollars| dollars.nanos()), used.dollars.nanos()),
    ] {
        if let Some(allowed) = allowed.filter(|allowed| used >= *allowed) {
            return Err(ReachedLimit { scope, metric: measure, used, allowed });
        }
    }
    Ok(())
}

/// Fails if no further request may run.
fn check_concurrency(allowed: Option<u32>, running: u32, scope: LimitScope) -> Result<(), BlockedRequest> {
    match allowed.filter(|allowed| running >= *allowed) {
        None => Ok(()),
        Some(allowed) => {
            let (used, allowed) = (running.into(), allowed.into());
            Err(BlockedRequest {
                limit: ReachedLimit { scope, metric: LimitMetric::ConcurrentRequests, used, allowed },
                retry_at: None,
            })
        }
    }
}

/// Fails if the rate limit is reached.
fn check_request_rate(
    allowed: Option<u32>,
    window: &mut RequestWindow,
    now: Instant,
    scope: LimitScope,
) -> Result<(), BlockedRequest> {
    let Some(allowed) = allowed else { return Ok(()) };
    window.check(allowed, now).map_err(|(used, free)| {
        let used = u64::try_from(used).unwrap_or(u64::MAX);
        let reached = ReachedLimit { scope, metric: LimitMetric::RequestsPerMinute, used, allowed: allowed.into() };
        BlockedRequest { limit: reached, retry_at: Some(free) }
    })
}

#[cfg(test)]
mod tests;
