//! Decides when an idle agent is closed: when its idle window ends, or when the pool needs its slot.
//!
//! A component like the turn machine: the actor passes the time, the agent's activity and events, and carries out
//! effects. The pool only notifies; the activity is checked when the event arrives, as it is when the idle window ends,
//! and the turn machine closes an agent only without a turn. A message that meets a close is held until the process
//! tree is empty and then reopens the agent.

use std::time::Duration;

use crate::agents::pool::{AgentPoolConfig, SlotUse};
use crate::sessions::turn::{AgentPhase, TurnMachine, TurnPhase};

#[cfg(test)]
mod tests;

/// The activity of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentActivity {
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

impl AgentActivity {
    pub(super) fn new(machine: &TurnMachine, is_prewarmed: bool, has_background: bool, has_requests: bool) -> Self {
        match (machine.agent_phase(), machine.turn_phase()) {
            (AgentPhase::Absent, _) => Self::Absent,
            (AgentPhase::Closing, _) => Self::Closing,
            (AgentPhase::Idle | AgentPhase::Opening, TurnPhase::None) if is_prewarmed => Self::Prewarmed,
            (AgentPhase::Idle, TurnPhase::None) if has_background => Self::Background,
            (AgentPhase::Idle, TurnPhase::None) => Self::Idle,
            (AgentPhase::Busy, TurnPhase::Running { .. }) if has_requests => Self::AwaitingAnswer,
            _ => Self::Working,
        }
    }

    fn is_work(self) -> bool {
        matches!(self, Self::Working | Self::AwaitingAnswer)
    }

    fn slot_use(self) -> SlotUse {
        match self {
            Self::Absent | Self::Closing => SlotUse::Evicting,
            Self::Working | Self::AwaitingAnswer | Self::Background => SlotUse::Working,
            Self::Idle => SlotUse::Idle,
            Self::Prewarmed => SlotUse::Prewarmed,
        }
    }
}

/// An event of the idle timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdleTimerEvent {
    /// The actor has handled an input, at this time by the host's clock. `is_activity` if it came from the agent or a
    /// person; `is_busy` if the agent works, and is not only about to.
    InputHandled { now: Duration, is_activity: bool, is_busy: bool },
    /// The time of the last [`IdleTimerEffect::SetTimer`] is over.
    Elapsed,
    /// The pool needs the slot.
    SlotRequested,
}

/// An effect that the actor carries out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleTimerEffect {
    /// There is no process, so it needs no slot.
    ReleaseSlot,
    /// Report the slot's use to the pool.
    ReportUse(SlotUse),
    /// Set the timer to this time by the host's clock, or stop it.
    SetTimer(Option<Duration>),
    /// Close the idle agent.
    Retire,
    /// Close the idle agent, if the pool still needs its slot.
    RetireIfEvicting,
    /// Close the agent, and report that its background work has ended.
    RetireWithBackgroundWork,
    /// End the turn and close the agent: its request was not answered.
    AbortUnanswered,
    /// Report that the working agent has sent nothing for a while.
    ReportStall,
}

/// The component. See the module's documentation. All times are by the host's clock.
#[derive(Debug, Default)]
pub(super) struct IdleTimer {
    /// When the agent last worked.
    last_worked_at: Duration,
    /// When it entered its current activity.
    activity_since: Duration,
    activity: Option<AgentActivity>,
    /// When the last event of the agent or action of a person arrived.
    last_input_at: Duration,
    /// Whether its turn is displayed as stalled.
    is_stalled: bool,
    /// The time that the timer is set to.
    due: Option<Duration>,
}

impl IdleTimer {
    /// Applies an event and returns the effects that follow.
    pub(super) fn on(
        &mut self,
        event: IdleTimerEvent,
        activity: AgentActivity,
        config: &AgentPoolConfig,
    ) -> Vec<IdleTimerEffect> {
        match event {
            IdleTimerEvent::InputHandled { .. } if activity == AgentActivity::Absent => {
                *self = Self::default();
                vec![IdleTimerEffect::ReleaseSlot]
            }
            IdleTimerEvent::InputHandled { now, is_activity, is_busy } => {
                let mut effects = vec![IdleTimerEffect::ReportUse(activity.slot_use())];
                self.observe(activity, now, is_activity);
                let due = self.next_due(activity, is_busy, config);
                if due != self.due {
                    self.due = due;
                    effects.push(IdleTimerEffect::SetTimer(due));
                }
                effects
            }
            IdleTimerEvent::Elapsed => {
                self.due = None;
                match activity {
                    AgentActivity::Idle | AgentActivity::Prewarmed => vec![IdleTimerEffect::Retire],
                    AgentActivity::Background => vec![IdleTimerEffect::RetireWithBackgroundWork],
                    AgentActivity::AwaitingAnswer => vec![IdleTimerEffect::AbortUnanswered],
                    AgentActivity::Working => {
                        self.is_stalled = true;
                        vec![IdleTimerEffect::ReportStall]
                    }
                    AgentActivity::Absent | AgentActivity::Closing => Vec::new(),
                }
            }
            IdleTimerEvent::SlotRequested => match activity {
                AgentActivity::Idle | AgentActivity::Prewarmed => vec![IdleTimerEffect::RetireIfEvicting],
                _ => Vec::new(),
            },
        }
    }

    fn observe(&mut self, activity: AgentActivity, now: Duration, is_activity: bool) {
        let before = self.activity.replace(activity);
        let has_changed = before != Some(activity);
        if has_changed {
            self.activity_since = now;
        }
        // An agent that worked before this input worked until now.
        let has_worked = before.is_some_and(AgentActivity::is_work) && (has_changed || is_activity);
        if has_worked || activity == AgentActivity::Working {
            self.last_worked_at = now;
        }
        if is_activity || has_changed {
            (self.last_input_at, self.is_stalled) = (now, false);
        }
    }

    fn next_due(&self, activity: AgentActivity, is_busy: bool, config: &AgentPoolConfig) -> Option<Duration> {
        let AgentPoolConfig { idle_timeout: idle, max_idle_timeout: idle_max, stall_timeout: stall, .. } = *config;
        match activity {
            AgentActivity::Working if is_busy && !self.is_stalled && !stall.is_zero() => {
                Some(self.last_input_at.saturating_add(stall))
            }
            // After background work ends, the agent gets time to report it.
            AgentActivity::Idle => Some((self.activity_since + idle).min(self.last_worked_at + idle_max.max(idle))),
            AgentActivity::Prewarmed => Some(self.activity_since + idle),
            AgentActivity::Background | AgentActivity::AwaitingAnswer => Some(self.last_worked_at + idle_max),
            AgentActivity::Absent | AgentActivity::Closing | AgentActivity::Working => None,
        }
    }
}

/// Formats a duration for people.
pub(super) fn format_duration(time: Duration) -> String {
    let (value, unit) = match time.as_secs() {
        seconds if seconds >= 3600 && seconds % 3600 == 0 => (seconds / 3600, "hour"),
        seconds if seconds >= 60 && seconds % 60 == 0 => (seconds / 60, "minute"),
        seconds => (seconds, "second"),
    };
    format!("{value} {unit}{}", if value == 1 { "" } else { "s" })
}
