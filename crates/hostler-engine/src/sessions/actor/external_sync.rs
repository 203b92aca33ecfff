//! When a session's transcript is synced with turns of other processes, and what waits for it.
//!
//! A component like the turn machine: no clock, no I/O, no channels. The actor passes events and carries out effects.
//!
//! One sync runs at a time. It consists of passes (`external_sessions/sync_pass.rs`), each of which ends as an event. A
//! message, or the queue, waits for a sync that started after it arrived, at most until a deadline. While a turn of
//! this host runs, nothing is synced: the turn's end does it. While another process runs a turn, messages are rejected
//! and the queue waits.

use std::collections::VecDeque;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Interval of checks whether another process still runs a turn: its end may cause no notification.
pub(crate) const EXTERNAL_SYNC_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum delay between two attempts to read an unreadable transcript.
const MAX_SYNC_RETRY_DELAY: Duration = Duration::from_secs(10 * 60);

/// Number of failed attempts after which the transcript is not read until it changes or the session is opened.
const MAX_SYNC_FAILURES: u32 = 10;

/// What happened. `D` is a client's dispatch, opaque here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SyncEvent<D> {
    /// The transcript has changed, or may have changed.
    Changed,
    /// A scheduled check is due.
    PollElapsed,
    /// A client opens the session.
    Opened,
    /// A dispatch needs the current state of the transcript.
    Held(D),
    /// The queue needs it.
    QueueHeld,
    /// The maximum wait has passed.
    DeadlineElapsed,
    /// This host's turn has ended.
    TurnEnded,
    /// A pass has ended.
    PassEnded(PassResult),
}

/// How a pass has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassResult {
    /// Turns remain for another pass.
    Partial,
    /// Everything is synced. The interval is set while another process is running a turn.
    Complete(Option<Duration>),
    /// A turn of this host has started, so that nothing was stored.
    Interrupted,
    /// There is no transcript.
    Missing,
    /// The transcript could not be read, or its turns could not be stored.
    Failed,
}

/// An effect that the actor carries out, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SyncEffect<D> {
    /// Start a pass.
    StartPass,
    /// Pass [`SyncEvent::DeadlineElapsed`] after the maximum wait.
    StartDeadline,
    /// Pass [`SyncEvent::PollElapsed`] after this time.
    SchedulePoll(Duration),
    /// Display whether another process is running a turn.
    ShowActivity(bool),
    /// Continue with the queue, if it waited, and with these dispatches.
    Release { queue: bool, held: VecDeque<D> },
}

/// The component. See the module's documentation.
#[derive(Debug)]
pub(crate) struct ExternalSync<D> {
    is_syncing: bool,
    /// Whether another sync follows the current one or this host's turn.
    sync_again: bool,
    /// Number of started syncs.
    sync_count: u64,
    /// The number of the sync that the waiting ones need.
    needed_sync: Option<u64>,
    held: VecDeque<D>,
    queue_waits: bool,
    is_active_elsewhere: bool,
    poll_scheduled: bool,
    /// Number of failed syncs since the last successful one.
    failures: u32,
}

impl<D> Default for ExternalSync<D> {
    fn default() -> Self {
        Self {
            is_syncing: false,
            sync_again: false,
            sync_count: 0,
            needed_sync: None,
            held: VecDeque::new(),
            queue_waits: false,
            is_active_elsewhere: false,
            poll_scheduled: false,
            failures: 0,
        }
    }
}

impl<D> ExternalSync<D> {
    /// Whether neither a sync nor another process's turn is in progress or expected.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_syncing && !self.is_active_elsewhere && !self.poll_scheduled
    }

    pub(crate) fn is_syncing(&self) -> bool {
        self.is_syncing
    }

    /// Whether another process is running a turn, as of the last sync.
    pub(crate) fn is_active_elsewhere(&self) -> bool {
        self.is_active_elsewhere
    }

    /// The dispatches that wait, in order.
    pub(crate) fn held_mut(&mut self) -> &mut VecDeque<D> {
        &mut self.held
    }

    /// Handles an event.
    pub(crate) fn on(&mut self, event: SyncEvent<D>, is_turn_running: bool) -> Vec<SyncEffect<D>> {
        let mut effects = Vec::new();
        match event {
            SyncEvent::Changed => self.sync_unless(is_turn_running, &mut effects),
            SyncEvent::PollElapsed => {
                self.poll_scheduled = false;
                self.sync_unless(is_turn_running, &mut effects);
            }
            SyncEvent::Opened if self.failures >= MAX_SYNC_FAILURES => {
                self.failures = 0;
                self.sync_unless(is_turn_running, &mut effects);
            }
            SyncEvent::Held(dispatch) => {
                self.held.push_back(dispatch);
                self.require_sync(&mut effects);
            }
            SyncEvent::QueueHeld => {
                self.queue_waits = true;
                self.require_sync(&mut effects);
            }
            SyncEvent::DeadlineElapsed if self.needed_sync.take().is_some() => self.release(&mut effects),
            SyncEvent::TurnEnded if self.sync_again => self.sync_unless(false, &mut effects),
            SyncEvent::Opened | SyncEvent::DeadlineElapsed | SyncEvent::TurnEnded => {}
            SyncEvent::PassEnded(PassResult::Partial) => effects.push(SyncEffect::StartPass),
            SyncEvent::PassEnded(result) => self.end_sync(result, is_turn_running, &mut effects),
        }
        effects
    }

    fn require_sync(&mut self, effects: &mut Vec<SyncEffect<D>>) {
        if self.needed_sync.replace(self.sync_count + 1).is_none() {
            effects.push(SyncEffect::StartDeadline);
        }
        self.sync_unless(false, effects);
    }

    /// Starts a sync, unless the end of the current one or of this host's turn does.
    fn sync_unless(&mut self, is_turn_running: bool, effects: &mut Vec<SyncEffect<D>>) {
        if self.is_syncing || is_turn_running {
            self.sync_again = true;
            return;
        }
        (self.is_syncing, self.sync_again) = (true, false);
        self.sync_count += 1;
        effects.push(SyncEffect::StartPass);
    }

    fn end_sync(&mut self, result: PassResult, is_turn_running: bool, effects: &mut Vec<SyncEffect<D>>) {
        self.is_syncing = false;
        let poll = match result {
            PassResult::Failed => {
                self.failures = self.failures.saturating_add(1);
                let delay = EXTERNAL_SYNC_POLL_INTERVAL.saturating_mul(2u32.saturating_pow(self.failures - 1));
                (self.failures < MAX_SYNC_FAILURES).then(|| MAX_SYNC_RETRY_DELAY.min(delay))
            }
            PassResult::Complete(active) => {
                self.failures = 0;
                self.is_active_elsewhere = active.is_some();
                active
            }
            PassResult::Interrupted => {
                self.sync_again = true;
                None
            }
            PassResult::Missing | PassResult::Partial => {
                self.is_active_elsewhere = false;
                None
            }
        };
        // The end of this host's turn clears the displayed activity.
        if !is_turn_running {
            effects.push(SyncEffect::ShowActivity(self.is_active_elsewhere));
        }
        if let Some(delay) = poll.filter(|_| !std::mem::replace(&mut self.poll_scheduled, true)) {
            effects.push(SyncEffect::SchedulePoll(delay));
        }
        if self.needed_sync.is_none_or(|needed| needed <= self.sync_count) {
            self.needed_sync = None;
            self.release(effects);
        }
        if self.sync_again {
            self.sync_unless(is_turn_running, effects);
        }
    }

    /// The queue continues to wait while another process runs a turn.
    fn release(&mut self, effects: &mut Vec<SyncEffect<D>>) {
        let queue = !self.is_active_elsewhere && std::mem::take(&mut self.queue_waits);
        let held = std::mem::take(&mut self.held);
        if queue || !held.is_empty() {
            effects.push(SyncEffect::Release { queue, held });
        }
    }
}
