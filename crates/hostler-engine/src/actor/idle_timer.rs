//! An agent at rest: how long it is kept, what keeps it longer, and who may have its seat.
//!
//! After every input the actor looks at where its agent stands: it tells the fleet whether the agent can be spared, and
//! winds the clock that closes it. A close is decided here and nowhere else, in the session's one writer, so that a
//! message is either before it (then the agent is not at rest) or after it (then it waits for the close and opens again).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use super::{SessionActor, SessionInput};
use crate::action_mapper::{ActionBuffer, TurnErrorDetails, activity_action};
use crate::agent_pool::{AgentPoolConfig, AgentSlot, SlotUse};
use crate::turn::{AgentPhase, TurnInput, TurnPhase};

/// Why an agent's rest may be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdleTimerEvent {
    /// Its window is over.
    Elapsed,
    /// Its seat is wanted.
    SlotRequested,
}

/// What is known about an agent at rest.
#[derive(Default)]
pub(super) struct IdleTimer {
    /// The right to have the process that is there or about to be.
    pub(super) slot: Option<AgentSlot>,
    /// When the agent worked last, by the host's clock.
    last_worked_at: Duration,
    /// Since when it has been where it stands.
    activity_since: Duration,
    activity: Option<AgentActivity>,
    /// When it was heard of last, or a person last did something.
    last_input_at: Duration,
    /// Its turn is shown as stalled.
    is_stalled: bool,
    /// When the window is over, by the host's clock, and the wait for it (never locked: it only makes the actor `Sync`).
    deadline: Option<(Duration, Mutex<BoxFuture<'static, ()>>)>,
}

impl IdleTimer {
    /// Something that ends the rest, if there is one.
    pub(super) async fn next_event(&mut self) -> IdleTimerEvent {
        let Self { slot: seat, deadline: window, .. } = self;
        let asked = async {
            match seat {
                Some(seat) => seat.eviction_requested().await,
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

/// Where an agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentActivity {
    /// There is none.
    Absent,
    /// It is being closed.
    Closing,
    /// It works, or is about to.
    Working,
    /// It waits for a person in the middle of a turn.
    AwaitingAnswer,
    /// It has no turn, but work in the background.
    Background,
    /// It does nothing.
    Idle,
    /// It does nothing, and has never had a message.
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

    /// After every input: the fleet hears where the agent stands, and the window is wound.
    pub(super) fn update_idle_timer(&mut self, moved: bool) {
        let standing = self.agent_activity();
        let usage = match standing {
            AgentActivity::Absent => {
                // One that waits for a seat has none; one that has gone needs none.
                self.idle_timer = IdleTimer::default();
                return;
            }
            AgentActivity::Closing => SlotUse::Evicting,
            AgentActivity::Working | AgentActivity::AwaitingAnswer | AgentActivity::Background => SlotUse::Working,
            AgentActivity::Idle => SlotUse::Idle,
            AgentActivity::Prewarmed => SlotUse::Prewarmed,
        };
        if let Some(seat) = &self.idle_timer.slot {
            seat.set_use(usage);
        }
        let now = self.host.clock.monotonic();
        let before = self.idle_timer.activity.replace(standing);
        if before != Some(standing) {
            self.idle_timer.activity_since = now;
        }
        let works = |standing| matches!(standing, AgentActivity::Working | AgentActivity::AwaitingAnswer);
        // It worked up to this moment if it did before this input.
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
            // When work in the background is over the agent has something to say about it: it is given the time.
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

    /// The window is over, or the seat is wanted. Whether the agent is at rest is looked at now, not when that began.
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
                tracing::info!(session = &*self.session.uri, "an agent is closed although it works in the background");
                self.drive(TurnInput::RetireAgent).await;
                let text = format!("The agent was closed after {time}; what it did in the background has ended");
                self.publish_output(&mut activity_action(Some(text)).into()).await;
            }
            (IdleTimerEvent::Elapsed, AgentActivity::AwaitingAnswer) => {
                let time = format_duration(self.host.agent_pool.config.max_idle_timeout);
                let failure = TurnErrorDetails {
                    error_type: "unanswered".to_owned(),
                    message: format!(
                        "Nobody answered the agent for {time}, so it was closed. Send a message to go on."
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

    /// The agent works, or says that it does, and nothing is heard of it.
    async fn publish_stall(&mut self) {
        self.idle_timer.is_stalled = true;
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.action_mapper.as_mut() {
            transcript.report_stall(&format_duration(self.host.agent_pool.config.stall_timeout), &mut output);
        }
        self.publish_output(&mut output).await;
    }

    /// Somebody looks at the session: an agent may be opened before there is a message for it.
    pub(super) async fn prewarm_agent(&mut self) {
        let absent = self.machine.agent_phase() == AgentPhase::Absent && self.machine.can_accept_turn();
        if !self.host.agent_pool.config.prewarm || !absent || self.host.stop.is_cancelled() {
            return;
        }
        if let Some(seat) = self.host.agent_pool.try_acquire_prewarm() {
            self.idle_timer = IdleTimer { slot: Some(seat), ..IdleTimer::default() };
            self.drive(TurnInput::Prewarm).await;
        }
    }
}

impl SessionInput {
    /// Whether the agent or a person does something, so that an agent with an open question is not left alone.
    pub(super) fn is_activity(&self) -> bool {
        matches!(self, Self::Dispatch(_) | Self::AgentEvent(_))
    }
}

/// A time in words.
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
    fn times_are_said_in_the_largest_unit_that_fits() {
        let said = [7200, 3600, 5400, 61, 0].map(|seconds| format_duration(Duration::from_secs(seconds)));
        assert_eq!(said, ["2 hours", "1 hour", "90 minutes", "61 seconds", "0 seconds"]);
    }
}
