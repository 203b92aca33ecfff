//! An agent at rest: how long it is kept, what keeps it longer, and who may have its seat.
//!
//! After every input the actor looks at where its agent stands: it tells the fleet whether the agent can be spared, and
//! winds the clock that closes it. A close is decided here and nowhere else, in the session's one writer, so that a
//! message is either before it (then the agent is not at rest) or after it (then it waits for the close and opens again).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use super::{Actor, Input};
use crate::fleet::{FleetConfig, Seat, Use};
use crate::transcript::{Failure, Output, activity};
use crate::turn::{AgentPhase, Input as TurnInput, TurnPhase};

/// Why an agent's rest may be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestOver {
    /// Its window is over.
    Window,
    /// Its seat is wanted.
    Seat,
}

/// What is known about an agent at rest.
#[derive(Default)]
pub(super) struct Rest {
    /// The right to have the process that is there or about to be.
    pub(super) seat: Option<Seat>,
    /// When the agent worked last, by the host's clock.
    worked: Duration,
    /// Since when it has been where it stands.
    since: Duration,
    standing: Option<Standing>,
    /// When it was heard of last, or a person last did something.
    heard: Duration,
    /// Its turn is shown as stalled.
    stalled: bool,
    /// When the window is over, by the host's clock, and the wait for it (never locked: it only makes the actor `Sync`).
    window: Option<(Duration, Mutex<BoxFuture<'static, ()>>)>,
}

impl Rest {
    /// Something that ends the rest, if there is one.
    pub(super) async fn over(&mut self) -> RestOver {
        let Self { seat, window, .. } = self;
        let asked = async {
            match seat {
                Some(seat) => seat.asked_to_leave().await,
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
            () = asked => RestOver::Seat,
            () = over => {
                *window = None;
                RestOver::Window
            }
        }
    }
}

/// Where an agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// There is none.
    Absent,
    /// It is being closed.
    Leaving,
    /// It works, or is about to.
    Working,
    /// It waits for a person in the middle of a turn.
    Asking,
    /// It has no turn, but work in the background.
    Background,
    /// It does nothing.
    Idle,
    /// It does nothing, and has never had a message.
    Warm,
}

impl Actor {
    fn standing(&self) -> Standing {
        match (self.machine.agent(), self.machine.turn()) {
            (AgentPhase::Absent, _) => Standing::Absent,
            (AgentPhase::Closing, _) => Standing::Leaving,
            (AgentPhase::Idle | AgentPhase::Opening, TurnPhase::None) if self.agent.warm().is_some() => Standing::Warm,
            (AgentPhase::Idle, TurnPhase::None) if !self.beside.is_empty() => Standing::Background,
            (AgentPhase::Idle, TurnPhase::None) => Standing::Idle,
            (AgentPhase::Busy, TurnPhase::Running { .. }) if !self.desk.is_empty() => Standing::Asking,
            _ => Standing::Working,
        }
    }

    /// After every input: the fleet hears where the agent stands, and the window is wound.
    pub(super) fn take_stock(&mut self, moved: bool) {
        let standing = self.standing();
        let usage = match standing {
            Standing::Absent => {
                // One that waits for a seat has none; one that has gone needs none.
                self.rest = Rest::default();
                return;
            }
            Standing::Leaving => Use::Leaving,
            Standing::Working | Standing::Asking | Standing::Background => Use::Working,
            Standing::Idle => Use::Idle,
            Standing::Warm => Use::Warm,
        };
        if let Some(seat) = &self.rest.seat {
            seat.set(usage);
        }
        let now = self.host.clock.monotonic();
        let before = self.rest.standing.replace(standing);
        if before != Some(standing) {
            self.rest.since = now;
        }
        let works = |standing| matches!(standing, Standing::Working | Standing::Asking);
        // It worked up to this moment if it did before this input.
        let has_worked = before.is_some_and(works) && (before != Some(standing) || moved);
        if has_worked || standing == Standing::Working {
            self.rest.worked = now;
        }
        if moved || before != Some(standing) {
            (self.rest.heard, self.rest.stalled) = (now, false);
        }
        let FleetConfig { idle, idle_max, stall, .. } = self.host.fleet.config;
        let due = match standing {
            Standing::Working if self.machine.agent() == AgentPhase::Busy && !self.rest.stalled && !stall.is_zero() => {
                self.rest.heard.saturating_add(stall)
            }
            // When work in the background is over the agent has something to say about it: it is given the time.
            Standing::Idle => (self.rest.since + idle).min(self.rest.worked + idle_max.max(idle)),
            Standing::Warm => self.rest.since + idle,
            Standing::Background | Standing::Asking => self.rest.worked + idle_max,
            Standing::Absent | Standing::Leaving | Standing::Working => {
                self.rest.window = None;
                return;
            }
        };
        if self.rest.window.as_ref().is_none_or(|(known, _)| *known != due) {
            self.rest.window = Some((due, Mutex::new(self.host.clock.sleep(due.saturating_sub(now)))));
        }
    }

    /// The window is over, or the seat is wanted. Whether the agent is at rest is looked at now, not when that began.
    pub(super) async fn rest_over(&mut self, why: RestOver) {
        let standing = self.standing();
        match (why, standing) {
            (RestOver::Seat, Standing::Idle | Standing::Warm) => {
                if self.rest.seat.as_ref().is_some_and(Seat::is_leaving) {
                    self.drive(TurnInput::Retire).await;
                }
            }
            (RestOver::Window, Standing::Idle | Standing::Warm) => self.drive(TurnInput::Retire).await,
            (RestOver::Window, Standing::Background) => {
                let time = spoken(self.host.fleet.config.idle_max);
                tracing::info!(session = &*self.session.uri, "an agent is closed although it works in the background");
                self.drive(TurnInput::Retire).await;
                let text = format!("The agent was closed after {time}; what it did in the background has ended");
                self.flush(&mut activity(Some(text)).into()).await;
            }
            (RestOver::Window, Standing::Asking) => {
                let time = spoken(self.host.fleet.config.idle_max);
                let failure = Failure {
                    error_type: "unanswered".to_owned(),
                    message: format!(
                        "Nobody answered the agent for {time}, so it was closed. Send a message to go on."
                    ),
                    stderr: None,
                };
                self.drive(TurnInput::Distrusted(failure)).await;
            }
            (RestOver::Window, Standing::Working) => self.show_stall().await,
            (_, Standing::Absent | Standing::Leaving)
            | (RestOver::Seat, Standing::Working)
            | (RestOver::Seat, Standing::Asking | Standing::Background) => {}
        }
    }

    /// The agent works, or says that it does, and nothing is heard of it.
    async fn show_stall(&mut self) {
        self.rest.stalled = true;
        let mut output = Output::default();
        if let Some(transcript) = self.transcript.as_mut() {
            transcript.stall(&spoken(self.host.fleet.config.stall), &mut output);
        }
        self.flush(&mut output).await;
    }

    /// Somebody looks at the session: an agent may be opened before there is a message for it.
    pub(super) async fn warm_up(&mut self) {
        let absent = self.machine.agent() == AgentPhase::Absent && self.machine.can_accept();
        if !self.host.fleet.config.warm || !absent || self.host.stop.is_cancelled() {
            return;
        }
        if let Some(seat) = self.host.fleet.ask_warm() {
            self.rest = Rest { seat: Some(seat), ..Rest::default() };
            self.drive(TurnInput::Prepare).await;
        }
    }
}

impl Input {
    /// Whether the agent or a person does something, so that an agent with an open question is not left alone.
    pub(super) fn moves(&self) -> bool {
        matches!(self, Self::Dispatch(_) | Self::Event(_))
    }
}

/// A time in words.
fn spoken(time: Duration) -> String {
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
        let said = [7200, 3600, 5400, 61, 0].map(|seconds| spoken(Duration::from_secs(seconds)));
        assert_eq!(said, ["2 hours", "1 hour", "90 minutes", "61 seconds", "0 seconds"]);
    }
}
