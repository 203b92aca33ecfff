//! The desk that every request passes: it lets through, holds or refuses, and tells who waits for what.
//!
//! Requests that wait stand in one line. Whenever something may have changed (a request is over, a limit was raised, a
//! minute has passed) the line is walked from its front, and each request goes that can. So nobody overtakes a request
//! that waits for the same thing, and nobody waits behind one that waits for another.
//!
//! Locks are taken in this order: the desk's, an account's, its status, the ledger's.

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

/// How many requests wait at most. Each holds its body; the next one is refused.
const MAX_QUEUED_REQUESTS: usize = 256;
/// When to come again for a place that becomes free at an unknown time.
const CONCURRENCY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Lets requests through.
pub(crate) struct AdmissionControl {
    ledger: Ledger,
    over_limit: OverLimitPolicy,
    state: Mutex<State>,
    /// Counts changes of limits; who waits then looks anew how long.
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

/// A session as the desk knows it.
pub(crate) struct SessionAccount {
    name: AccountKey,
    status: watch::Sender<SessionUsageStatus>,
    state: Mutex<AccountState>,
}

#[derive(Default)]
struct AccountState {
    /// The session's own limits.
    session_limits: SessionLimits,
    running: u32,
    window: RequestWindow,
    /// What is used from now on counts for the day alone.
    is_deleted: bool,
}

/// A request that stands in line.
struct QueuedRequest {
    ticket: u64,
    account: Arc<SessionAccount>,
    since: Timestamp,
    blocked: BlockedRequest,
    grant: oneshot::Sender<RequestPermit>,
}

/// Why a request cannot go now, and when that changes by itself.
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

/// Places that became free, for those who were given them. Handed out only after the desk is unlocked, because a place
/// that nobody takes any more comes straight back.
#[must_use]
struct PermitGrants(Vec<(oneshot::Sender<RequestPermit>, RequestPermit)>);

impl PermitGrants {
    fn deliver(self) {
        for (grant, permit) in self.0 {
            // A request that has left drops the permit, which frees its place again.
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

    /// The account of a session.
    pub(crate) fn account(&self, session: &str) -> Arc<SessionAccount> {
        self.open_account(AccountKey { session: session.into(), is_unregistered: false })
    }

    /// The account of a caller that nobody registered, by the id in its bearer.
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

    /// Changes the host's limits; whoever they let through goes on.
    pub(crate) fn set_limits(self: &Arc<Self>, limits: GatewayLimits) {
        let mut state = self.lock();
        state.limits = limits;
        for account in state.accounts.values() {
            account.publish_limits(&limits);
        }
        self.apply_limit_change(state);
    }

    /// Changes a session's own limits; whoever they let through goes on.
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

    /// Forgets a session: its totals and its limits. Requests that still run count for the day alone.
    pub(crate) fn delete_session(&self, session: &str) {
        let account = self.lock().accounts.remove(session);
        if let Some(account) = account {
            account.lock().is_deleted = true;
        }
        self.ledger.delete_session(session);
    }

    /// Lets a request through, at once or after a while. Dropping the future leaves the line.
    pub(crate) async fn admit(self: &Arc<Self>, account: &Arc<SessionAccount>) -> Result<RequestPermit, LimitExceeded> {
        let admitted = self.wait_for_permit(account).await;
        if let Err(too_much) = &admitted {
            account.publish_rejected(Some(too_much.limit).filter(ReachedLimit::is_budget));
        }
        admitted
    }

    async fn wait_for_permit(self: &Arc<Self>, account: &Arc<SessionAccount>) -> Result<RequestPermit, LimitExceeded> {
        // Subscribed before the first look, so that no change falls between.
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
        // Whoever stands in line and can go now goes first.
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

    /// Time has passed: whoever can go now goes.
    fn recheck_queue(self: &Arc<Self>) {
        let mut state = self.lock();
        let grants = self.grant_queued(&mut state);
        drop(state);
        grants.deliver();
    }

    /// Walks the line once.
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

    /// Checks a request and counts it, in one step.
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
    /// Shows what the first waiting request of a session waits for.
    fn publish_waiting(&self, account: &Arc<SessionAccount>) {
        let first = self.queue.iter().find(|waiting| Arc::ptr_eq(&waiting.account, account));
        let held = first.map(|waiting| WaitingRequest { limit: waiting.blocked.limit, since: waiting.since });
        account.status.send_if_modified(|status| std::mem::replace(&mut status.waiting, held) != held);
    }
}

impl SessionAccount {
    /// What is to be known about the session, now and whenever it changes.
    pub(crate) fn status(&self) -> watch::Receiver<SessionUsageStatus> {
        self.status.subscribe()
    }

    fn charge(&self, ledger: &Ledger, change: &UsageTotals) {
        // Locked until it is counted: a session that is forgotten meanwhile is forgotten with this.
        let live = self.lock();
        if live.is_deleted {
            ledger.add_to_day(change);
        } else {
            // Within the change of the status, so that two changes cannot be shown in the wrong order.
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

/// The right to one request at an upstream. Its place is free again when it is dropped.
pub(crate) struct RequestPermit {
    admission: Arc<AdmissionControl>,
    account: Arc<SessionAccount>,
}

impl RequestPermit {
    /// Counts what the answer has used.
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

/// A place in the line; dropping it leaves the line.
struct QueuePosition {
    admission: Arc<AdmissionControl>,
    account: Arc<SessionAccount>,
    ticket: u64,
}

impl QueuePosition {
    /// Why the request still waits; nothing if it does not.
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

/// Whether something of a budget is left.
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

/// Whether another request may run.
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

/// Whether the minute has room for another request.
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
