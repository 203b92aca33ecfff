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

use super::window::Window;
use super::{Budget, Held, Limits, Measure, OverLimit, Reached, Scope, SessionLimits, SessionStatus, TooMuch};
use crate::ledger::{AccountName, Ledger};
use crate::usage::UsageTotals;

/// How many requests wait at most. Each holds its body; the next one is refused.
const MAX_WAITING: usize = 256;
/// When to come again for a place that becomes free at an unknown time.
const SOON: Duration = Duration::from_secs(1);

/// Lets requests through.
pub(crate) struct Desk {
    ledger: Ledger,
    over_limit: OverLimit,
    state: Mutex<State>,
    /// Counts changes of limits; who waits then looks anew how long.
    changes: watch::Sender<u64>,
}

struct State {
    limits: Limits,
    accounts: HashMap<Arc<str>, Arc<Account>>,
    running: u32,
    window: Window,
    line: VecDeque<Waiting>,
    tickets: u64,
}

/// A session as the desk knows it.
pub(crate) struct Account {
    name: AccountName,
    status: watch::Sender<SessionStatus>,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    /// The session's own limits.
    own: SessionLimits,
    running: u32,
    window: Window,
    /// What is used from now on counts for the day alone.
    forgotten: bool,
}

/// A request that stands in line.
struct Waiting {
    ticket: u64,
    account: Arc<Account>,
    since: Timestamp,
    blocked: Blocked,
    grant: oneshot::Sender<Permit>,
}

/// Why a request cannot go now, and when that changes by itself.
#[derive(Debug, Clone, Copy)]
struct Blocked {
    reached: Reached,
    until: Option<Instant>,
}

impl Blocked {
    fn refusal(&self) -> TooMuch {
        let left = self.until.map_or(SOON, |until| until.saturating_duration_since(Instant::now()));
        TooMuch { reached: self.reached, retry_after: (!self.reached.is_budget()).then_some(left) }
    }
}

/// Places that became free, for those who were given them. Handed out only after the desk is unlocked, because a place
/// that nobody takes any more comes straight back.
#[must_use]
struct Grants(Vec<(oneshot::Sender<Permit>, Permit)>);

impl Grants {
    fn hand_out(self) {
        for (grant, permit) in self.0 {
            // A request that has left drops the permit, which frees its place again.
            let _ = grant.send(permit);
        }
    }
}

impl Desk {
    pub(crate) fn new(ledger: Ledger, limits: Limits, over_limit: OverLimit) -> Self {
        let state = State {
            limits,
            accounts: HashMap::new(),
            running: 0,
            window: Window::default(),
            line: VecDeque::new(),
            tickets: 0,
        };
        Self { ledger, over_limit, state: Mutex::new(state), changes: watch::Sender::default() }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The account of a session.
    pub(crate) fn account(&self, session: &str) -> Arc<Account> {
        self.open(AccountName { session: session.into(), guest: false })
    }

    /// The account of a caller that nobody registered, by the id in its bearer.
    pub(crate) fn guest(&self, id: &str) -> Arc<Account> {
        self.open(AccountName { session: self.ledger.guest(id), guest: true })
    }

    fn open(&self, name: AccountName) -> Arc<Account> {
        let mut state = self.lock();
        let limits = state.limits.session;
        let account = state.accounts.entry(Arc::clone(&name.session)).or_insert_with(|| {
            let totals = self.ledger.session(&name.session);
            let status = watch::Sender::new(SessionStatus { totals, limits, ..SessionStatus::default() });
            Arc::new(Account { name, status, live: Mutex::default() })
        });
        Arc::clone(account)
    }

    pub(crate) fn limits(&self) -> Limits {
        self.lock().limits
    }

    /// Changes the host's limits; whoever they let through goes on.
    pub(crate) fn set_limits(self: &Arc<Self>, limits: Limits) {
        let mut state = self.lock();
        state.limits = limits;
        for account in state.accounts.values() {
            account.show_limits(&limits);
        }
        self.limits_changed(state);
    }

    /// Changes a session's own limits; whoever they let through goes on.
    pub(crate) fn set_session_limits(self: &Arc<Self>, session: &str, own: SessionLimits) {
        let account = self.account(session);
        let state = self.lock();
        account.lock().own = own;
        account.show_limits(&state.limits);
        self.limits_changed(state);
    }

    fn limits_changed(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let grants = self.walk(&mut state);
        drop(state);
        grants.hand_out();
        self.changes.send_modify(|count| *count += 1);
    }

    /// Forgets a session: its totals and its limits. Requests that still run count for the day alone.
    pub(crate) fn forget(&self, session: &str) {
        let account = self.lock().accounts.remove(session);
        if let Some(account) = account {
            account.lock().forgotten = true;
        }
        self.ledger.forget(session);
    }

    /// Lets a request through, at once or after a while. Dropping the future leaves the line.
    pub(crate) async fn admit(self: &Arc<Self>, account: &Arc<Account>) -> Result<Permit, TooMuch> {
        let admitted = self.wait_for_permit(account).await;
        if let Err(too_much) = &admitted {
            account.show_refused(Some(too_much.reached).filter(Reached::is_budget));
        }
        admitted
    }

    async fn wait_for_permit(self: &Arc<Self>, account: &Arc<Account>) -> Result<Permit, TooMuch> {
        // Subscribed before the first look, so that no change falls between.
        let mut changes = self.changes.subscribe();
        let (place, mut granted, deadline) = match self.enter(account)? {
            Entered::Through(permit) => return Ok(permit),
            Entered::Waits { place, granted, deadline } => (place, granted, deadline),
        };
        loop {
            let until = place.blocked().and_then(|blocked| blocked.until).map_or(deadline, |until| until.min(deadline));
            tokio::select! {
                biased;
                Ok(permit) = &mut granted => return Ok(permit),
                Ok(()) = changes.changed() => continue,
                () = tokio::time::sleep_until(until) => {}
            }
            self.look();
            if let Ok(permit) = granted.try_recv() {
                return Ok(permit);
            }
            if Instant::now() >= deadline
                && let Some(blocked) = place.blocked()
            {
                return Err(blocked.refusal());
            }
        }
    }

    fn enter(self: &Arc<Self>, account: &Arc<Account>) -> Result<Entered, TooMuch> {
        let mut state = self.lock();
        // Whoever stands in line and can go now goes first.
        let grants = self.walk(&mut state);
        let entered = match self.try_grant(&mut state, account) {
            Ok(permit) => Ok(Entered::Through(permit)),
            Err(blocked) => match self.over_limit {
                OverLimit::Hold { at_most } if state.line.len() < MAX_WAITING => {
                    state.tickets += 1;
                    let (ticket, since) = (state.tickets, self.ledger.now());
                    let (grant, granted) = oneshot::channel();
                    let account = Arc::clone(account);
                    state.line.push_back(Waiting { ticket, account: Arc::clone(&account), since, blocked, grant });
                    state.show_held(&account);
                    let place = Place { desk: Arc::clone(self), account, ticket };
                    Ok(Entered::Waits { place, granted, deadline: Instant::now() + at_most })
                }
                OverLimit::Hold { .. } | OverLimit::Refuse => Err(blocked.refusal()),
            },
        };
        drop(state);
        grants.hand_out();
        entered
    }

    /// Time has passed: whoever can go now goes.
    fn look(self: &Arc<Self>) {
        let mut state = self.lock();
        let grants = self.walk(&mut state);
        drop(state);
        grants.hand_out();
    }

    /// Walks the line once.
    fn walk(self: &Arc<Self>, state: &mut State) -> Grants {
        let mut grants = Vec::new();
        if state.line.is_empty() {
            return Grants(grants);
        }
        for mut waiting in std::mem::take(&mut state.line) {
            match self.try_grant(state, &waiting.account) {
                Ok(permit) => grants.push((waiting.grant, permit)),
                Err(blocked) => {
                    waiting.blocked = blocked;
                    state.line.push_back(waiting);
                }
            }
        }
        for (_, permit) in &grants {
            state.show_held(&permit.account);
        }
        for waiting in &state.line {
            state.show_held(&waiting.account);
        }
        Grants(grants)
    }

    /// Checks a request and counts it, in one step.
    fn try_grant(self: &Arc<Self>, state: &mut State, account: &Arc<Account>) -> Result<Permit, Blocked> {
        let now = Instant::now();
        let mut live = account.lock();
        let limits = live.own.or(state.limits.session);
        let host = state.limits;

        let totals = account.status.borrow().totals;
        within(&limits.total, &totals, Scope::Session).map_err(|reached| Blocked { reached, until: None })?;
        within(&host.day, &self.ledger.today(), Scope::Host)
            .map_err(|reached| Blocked { reached, until: now.checked_add(self.ledger.until_tomorrow()) })?;
        places(limits.concurrent, live.running, Scope::Session)?;
        places(host.concurrent, state.running, Scope::Host)?;
        pace(limits.requests_per_minute, &mut live.window, now, Scope::Session)?;
        pace(host.requests_per_minute, &mut state.window, now, Scope::Host)?;

        live.running += 1;
        state.running += 1;
        live.window.count(limits.requests_per_minute, now);
        state.window.count(host.requests_per_minute, now);
        drop(live);
        account.show_refused(None);
        account.charge(&self.ledger, &UsageTotals::REQUEST);
        Ok(Permit { desk: Arc::clone(self), account: Arc::clone(account) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Entered {
    Through(Permit),
    Waits { place: Place, granted: oneshot::Receiver<Permit>, deadline: Instant },
}

impl State {
    /// Shows what the first waiting request of a session waits for.
    fn show_held(&self, account: &Arc<Account>) {
        let first = self.line.iter().find(|waiting| Arc::ptr_eq(&waiting.account, account));
        let held = first.map(|waiting| Held { reached: waiting.blocked.reached, since: waiting.since });
        account.status.send_if_modified(|status| std::mem::replace(&mut status.held, held) != held);
    }
}

impl Account {
    /// What is to be known about the session, now and whenever it changes.
    pub(crate) fn status(&self) -> watch::Receiver<SessionStatus> {
        self.status.subscribe()
    }

    fn charge(&self, ledger: &Ledger, change: &UsageTotals) {
        // Locked until it is counted: a session that is forgotten meanwhile is forgotten with this.
        let live = self.lock();
        if live.forgotten {
            ledger.add_to_day(change);
        } else {
            // Within the change of the status, so that two changes cannot be shown in the wrong order.
            self.status.send_modify(|status| status.totals = ledger.add(&self.name, change));
        }
    }

    fn show_refused(&self, refused: Option<Reached>) {
        self.status.send_if_modified(|status| std::mem::replace(&mut status.refused, refused) != refused);
    }

    fn show_limits(&self, host: &Limits) {
        let limits = self.lock().own.or(host.session);
        self.status.send_if_modified(|status| std::mem::replace(&mut status.limits, limits) != limits);
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to one request at an upstream. Its place is free again when it is dropped.
pub(crate) struct Permit {
    desk: Arc<Desk>,
    account: Arc<Account>,
}

impl Permit {
    /// Counts what the answer has used.
    pub(crate) fn charge(&self, change: &UsageTotals) {
        self.account.charge(&self.desk.ledger, change);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        state.running -= 1;
        self.account.lock().running -= 1;
        let grants = self.desk.walk(&mut state);
        drop(state);
        grants.hand_out();
    }
}

/// A place in the line; dropping it leaves the line.
struct Place {
    desk: Arc<Desk>,
    account: Arc<Account>,
    ticket: u64,
}

impl Place {
    /// Why the request still waits; nothing if it does not.
    fn blocked(&self) -> Option<Blocked> {
        let state = self.desk.lock();
        state.line.iter().find(|waiting| waiting.ticket == self.ticket).map(|waiting| waiting.blocked)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        let before = state.line.len();
        state.line.retain(|waiting| waiting.ticket != self.ticket);
        if state.line.len() != before {
            state.show_held(&self.account);
        }
    }
}

/// Whether something of a budget is left.
fn within(budget: &Budget, used: &UsageTotals, scope: Scope) -> Result<(), Reached> {
    for (measure, allowed, used) in [
        (Measure::Requests, budget.requests, used.requests),
        (Measure::Tokens, budget.tokens, used.tokens()),
        (Measure::Dollars, budget.dollars.map(|dollars| dollars.nanos()), used.dollars.nanos()),
    ] {
        if let Some(allowed) = allowed.filter(|allowed| used >= *allowed) {
            return Err(Reached { scope, measure, used, allowed });
        }
    }
    Ok(())
}

/// Whether another request may run.
fn places(allowed: Option<u32>, running: u32, scope: Scope) -> Result<(), Blocked> {
    match allowed.filter(|allowed| running >= *allowed) {
        None => Ok(()),
        Some(allowed) => {
            let (used, allowed) = (running.into(), allowed.into());
            Err(Blocked { reached: Reached { scope, measure: Measure::Concurrent, used, allowed }, until: None })
        }
    }
}

/// Whether the minute has room for another request.
fn pace(allowed: Option<u32>, window: &mut Window, now: Instant, scope: Scope) -> Result<(), Blocked> {
    let Some(allowed) = allowed else { return Ok(()) };
    window.check(allowed, now).map_err(|(used, free)| {
        let used = u64::try_from(used).unwrap_or(u64::MAX);
        let reached = Reached { scope, measure: Measure::PerMinute, used, allowed: allowed.into() };
        Blocked { reached, until: Some(free) }
    })
}

#[cfg(test)]
mod tests;
