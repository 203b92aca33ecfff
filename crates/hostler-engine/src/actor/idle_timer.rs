//! Closes idle agents: when their idle window ends, or when the pool needs their slot.
//!
//! After every input the actor determines its agent's activity, reports it to the pool and sets the timer. The pool
//! only notifies; the actor checks whether its agent is idle at that moment, as it does when the idle window ends, and
//! the turn machine closes an agent only without a turn. A message that meets a close is held until the process tree is
//! empty and then reopens the agent. Windows use the host's clock, which tests advance.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use super::{SessionActor, SessionInput};
use crate::action_mapper::{ActionBuffer, TurnErrorDetails, activity_action};
use crate::agent_pool::{AgentPoolConfig, AgentSlot, SlotUse};
use crate::turn::{AgentPhase, TurnInput, TurnPhase};

/// Why an idle agent may have to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdleTimerEvent {
    /// Its idle window has ended.
    Elapsed,
    /// The pool needs its slot.
    SlotRequested,
}

/// The state of the idle timer.
#[derive(Default)]
pub(super) struct IdleTimer {
    /// The slot of the current or starting process.
    pub(super) slot: Option<AgentSlot>,
    /// When the agent last worked, by the host's clock.
    last_worked_at: Duration,
    /// When it entered its current activity.
    activity_since: Duration,
    activity: Option<AgentActivity>,
    /// When the last event of the agent or action of a person arrived.
    last_input_at: Duration,
    /// Whether its turn is displayed as stalled.
    is_stalled: bool,
    /// The end of the window by the host's clock, and the wait for it (the mutex is never locked; it only makes the
    /// actor `Sync`).
    deadline: Option<(Duration, Mutex<BoxFuture<'static, ()>>)>,
}

impl IdleTimer {
    /// The next event of the timer.
    pub(super) async fn next_event(&mut self) -> IdleTimerEvent {
        let Self { slot, deadline: window, .. } = self;
        let asked = async {
            match slot {
                Some(slot) => slot.eviction_requested().await,
                None => std::future::pending().await,
            }
        };
        let over = async {
            match window {
                Some((_, wait)) => wait.get_mut().unwrap_or_else(PoisonError::into_inner).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = asked => IdleTimerEvent::SlotRequested,
            () = over => {
                *window = None;
                IdleTimerEvent::Elapsed
            }
        }
    }
}

/// The activity of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentActivity {
    /// There is no agent.
    Absent,
    /// It is being closed.
    Closing,
    /// It works, or is about to.
    Working,
    /// It waits for a person's answer during a turn.
    AwaitingAnswer,
    /// It has no turn, but background work.
    Background,
    /// It has nothing to do.
    Idle,
    /// It has nothing to do, and has never received a message.
    Prewarmed,
}

impl SessionActor {
    fn agent_activity(&self) -> AgentActivity {
        match (self.machine.agent_phase(), self.machine.turn_phase()) {
            (AgentPhase::Absent, _) => AgentActivity::Absent,
            (AgentPhase::Closing, _) => AgentActivity::Closing,
            (AgentPhase::Idle | AgentPhase::Opening, TurnPhase::None) if self.agent.prewarm_spec().is_some() => {
                AgentActivity::Prewarmed
            }
            (AgentPhase::Idle, TurnPhase::None) if !self.background_tasks.is_empty() => AgentActivity::Background,
            (AgentPhase::Idle, TurnPhase::None) => AgentActivity::Idle,
            (AgentPhase::Busy, TurnPhase::Running { .. }) if !self.pending_requests.is_empty() => {
                AgentActivity::AwaitingAnswer
            }
            _ => AgentActivity::Working,
        }
    }

    /// Reports the agent's activity to the pool and sets the timer, after every input.
    pub(super) fn update_idle_timer(&mut self, moved: bool) {
        let standing = self.agent_activity();
        let usage = match standing {
            AgentActivity::Absent => {
                // An agent that waits for a slot has none; an ended agent needs none.
                self.idle_timer = IdleTimer::default();
                return;
            }
            AgentActivity::Closing => SlotUse::Evicting,
            AgentActivity::Working | AgentActivity::AwaitingAnswer | AgentActivity::Background => SlotUse::Working,
            AgentActivity::Idle => SlotUse::Idle,
            AgentActivity::Prewarmed => SlotUse::Prewarmed,
        };
        if let Some(slot) = &self.idle_timer.slot {
            slot.set_use(usage);
        }
        let now = self.host.clock.monotonic();
        let before = self.idle_timer.activity.replace(standing);
        if before != Some(standing) {
            self.idle_timer.activity_since = now;
        }
        let works = |standing| matches!(standing, AgentActivity::Working | AgentActivity::AwaitingAnswer);
        // An agent that worked before this input worked until now.
        let has_worked = before.is_some_and(works) && (before != Some(standing) || moved);
        if has_worked || standing == AgentActivity::Working {
            self.idle_timer.last_worked_at = now;
        }
        if moved || before != Some(standing) {
            (self.idle_timer.last_input_at, self.idle_timer.is_stalled) = (now, false);
        }
        let AgentPoolConfig { idle_timeout: idle, max_idle_timeout: idle_max, stall_timeout: stall, .. } =
            self.host.agent_pool.config;
        let due = match standing {
            AgentActivity::Working
                if self.machine.agent_phase() == AgentPhase::Busy
                    && !self.idle_timer.is_stalled
                    && !stall.is_zero() =>
            {
                self.idle_timer.last_input_at.saturating_add(stall)
            }
            // After background work ends, the agent gets time to report it.
            AgentActivity::Idle => {
                (self.idle_timer.activity_since + idle).min(self.idle_timer.last_worked_at + idle_max.max(idle))
            }
            AgentActivity::Prewarmed => self.idle_timer.activity_since + idle,
            AgentActivity::Background | AgentActivity::AwaitingAnswer => self.idle_timer.last_worked_at + idle_max,
            AgentActivity::Absent | AgentActivity::Closing | AgentActivity::Working => {
                self.idle_timer.deadline = None;
                return;
            }
        };
        if self.idle_timer.deadline.as_ref().is_none_or(|(known, _)| *known != due) {
            self.idle_timer.deadline = Some((due, Mutex::new(self.host.clock.sleep(due.saturating_sub(now)))));
        }
    }

    /// Handles the end of the window or the pool's request. The activity is checked now, not when the wait started.
    pub(super) async fn handle_idle_timer(&mut self, why: IdleTimerEvent) {
        let standing = self.agent_activity();
        match (why, standing) {
            (IdleTimerEvent::SlotRequested, AgentActivity::Idle | AgentActivity::Prewarmed) => {
                if self.idle_timer.slot.as_ref().is_some_and(AgentSlot::is_evicting) {
                    self.drive(TurnInput::RetireAgent).await;
                }
            }
            (IdleTimerEvent::Elapsed, AgentActivity::Idle | AgentActivity::Prewarmed) => {
                self.drive(TurnInput::RetireAgent).await
            }
            (IdleTimerEvent::Elapsed, AgentActivity::Background) => {
                let time = format_duration(self.host.agent_pool.config.max_idle_timeout);
                tracing::info!(session = &*self.session.uri, "closing an idle agent that has background work");
                self.drive(TurnInput::RetireAgent).await;
                let text = format!("The agent was closed after {time}, and its background work has ended");
                self.publish_output(&mut activity_action(Some(text)).into()).await;
            }
            (IdleTimerEvent::Elapsed, AgentActivity::AwaitingAnswer) => {
                let time = format_duration(self.host.agent_pool.config.max_idle_timeout);
                let failure = TurnErrorDetails {
                    error_type: "unanswered".to_owned(),
                    message: format!(
                        "The agent was closed, because its request was not answered for {time}. Send a message to continue."
                    ),
                    stderr: None,
                };
                self.drive(TurnInput::AbortAndClose(failure)).await;
            }
            (IdleTimerEvent::Elapsed, AgentActivity::Working) => self.publish_stall().await,
            (_, AgentActivity::Absent | AgentActivity::Closing)
            | (IdleTimerEvent::SlotRequested, AgentActivity::Working)
            | (IdleTimerEvent::SlotRequested, AgentActivity::AwaitingAnswer | AgentActivity::Background) => {}
        }
    }

    /// Displays that a working agent has sent nothing for a while.
    async fn publish_stall(&mut self) {
        self.idle_timer.is_stalled = true;
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.action_mapper.as_mut() {
            transcript.report_stall(&format_duration(self.host.agent_pool.config.stall_timeout), &mut output);
        }
        self.publish_output(&mut output).await;
    }

    /// Prewarms an agent when a client opens the session, if a slot is free.
    pub(super) async fn prewarm_agent(&mut self) {
        let absent = self.machine.agent_phase() == AgentPhase::Absent && self.machine.can_accept_turn();
        if !self.host.agent_pool.config.prewarm || !absent || self.host.stop.is_cancelled() {
            return;
        }
        if let Some(slot) = self.host.agent_pool.try_acquire_prewarm() {
            self.idle_timer = IdleTimer { slot: Some(slot), ..IdleTimer::default() };
            self.drive(TurnInput::Prewarm).await;
        }
    }
}

impl SessionInput {
    /// Whether the input comes from the agent or a person; it restarts the window of an agent with a pending request.
    pub(super) fn is_activity(&self) -> bool {
        matches!(self, Self::Dispatch(_) | Self::AgentEvent(_))
    }
}

/// Formats a duration for people.
fn format_duration(time: Duration) -> String {
    let (value, unit) = match time.as_secs() {
        seconds if seconds >= 3600 && seconds % 3600 == 0 => (seconds / 3600, "hour"),
        seconds if seconds >= 60 && seconds % 60 == 0 => (seconds / 60, "minute"),
        seconds => (seconds, "second"),
    };
    format!("{value} {unit}{}", if value == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_duration_uses_the_largest_exact_unit() {
        let said = [7200, 3600, 5400, 61, 0].map(|seconds| format_duration(Duration::from_secs(seconds)));
        assert_eq!(said, ["2 hours", "1 hour", "90 minutes", "61 seconds", "0 seconds"]);
    }
}
