//! Changes of the permission mode in a live session.
//!
//! A component like the turn machine: no clock, no I/O, no channels. The actor passes events and carries out effects.
//!
//! Until the agent confirms a new mode, the gate is as strict as the old and the new mode together; then the state
//! changes. An agent that does not accept the mode is closed. Further changes wait, count in the gate like the first
//! one, and are carried out in order: the last one wins. The session follows an agent that changes its mode on its own
//! (`EnterPlanMode`): a stricter mode applies at once, is stored and published. If the mode is looser than a person's
//! choice, the agent is set back.

use std::collections::VecDeque;

use hostler_driver::ConnectionError;
use hostler_rules::PermissionMode;

use crate::sessions::config;

#[cfg(test)]
mod tests;

/// Maximum number of mode changes that wait for the agent.
const MAX_PENDING_MODE_CHANGES: usize = 16;

/// What the component reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModeContext<'a> {
    /// The mode of the live or starting agent, by the agent's name for it.
    pub(super) agent_mode: Option<&'a str>,
    /// Whether the agent is live, so that it can receive a mode.
    pub(super) is_live: bool,
    /// The mode of the session's configuration.
    pub(super) configured: PermissionMode,
    /// The mode that a person chose last.
    pub(super) chosen: PermissionMode,
}

/// An event of the permission mode. `C` is a client's change, opaque here.
#[derive(Debug)]
pub(super) enum ModeEvent<C> {
    /// A client changes the mode.
    Requested { change: C, mode: PermissionMode },
    /// The agent is open, possibly under an earlier mode.
    AgentOpened,
    /// An agent answered a mode change; `is_current` if it is still the live one.
    Answered { mode: &'static str, result: Result<(), ConnectionError>, is_current: bool },
    /// The agent reports its mode.
    Reported(String),
    /// The effects before are carried out. `resync` if the configured mode may differ from the agent's mode;
    /// `is_current` as in [`ModeEvent::Answered`].
    Settled { resync: bool, is_current: bool },
}

/// An effect that the actor carries out, in order.
#[derive(Debug, PartialEq)]
pub(super) enum ModeEffect<C> {
    /// The gate applies the mode in addition to the current one.
    BeginInGate(PermissionMode),
    /// Send the mode to the agent, then pass [`ModeEvent::Answered`].
    Send(&'static str),
    /// Store the client's change; the gate applies it, or drops it if it could not be stored.
    Accept(C),
    /// The gate drops the change, and the client receives the agent's error.
    Abandon(C, ConnectionError),
    /// The agent has this mode.
    SetAgentMode(String),
    /// Store the agent's own mode, by its name. If that fails, pass [`ModeEvent::Settled`] with `resync`.
    Follow(&'static str, PermissionMode),
    /// Pass [`ModeEvent::Settled`].
    Settle { resync: bool, is_current: bool },
    /// Stop the agent, because it did not apply the mode.
    CloseAgent(ConnectionError),
}

/// The component. See the module's documentation.
#[derive(Debug)]
pub(super) struct ModeChanges<C> {
    /// Requested changes, in order; the agent has not accepted the first one yet.
    pending: VecDeque<(C, PermissionMode)>,
    /// Number of modes that the agent has not answered.
    in_flight: usize,
    /// The last mode that the agent reported meanwhile.
    reported: Option<String>,
}

impl<C> Default for ModeChanges<C> {
    fn default() -> Self {
        Self { pending: VecDeque::new(), in_flight: 0, reported: None }
    }
}

impl<C> ModeChanges<C> {
    /// The pending changes, in order.
    pub(super) fn pending(&self) -> impl Iterator<Item = &C> {
        self.pending.iter().map(|(change, _)| change)
    }

    /// Whether another change has to be rejected.
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= MAX_PENDING_MODE_CHANGES
    }

    /// Applies an event and returns the effects that follow.
    pub(super) fn on(&mut self, event: ModeEvent<C>, context: ModeContext<'_>) -> Vec<ModeEffect<C>> {
        let mut effects = Vec::new();
        match event {
            ModeEvent::Requested { change, mode } => {
                effects.push(ModeEffect::BeginInGate(mode));
                self.pending.push_back((change, mode));
                if self.pending.len() == 1 {
                    self.apply_pending(context, &mut effects);
                }
            }
            ModeEvent::AgentOpened => self.resync(context, &mut effects),
            ModeEvent::Answered { mode, result, is_current } => {
                self.in_flight = self.in_flight.saturating_sub(1);
                let mut context = context;
                match result {
                    Ok(()) if is_current => {
                        effects.push(ModeEffect::SetAgentMode(mode.to_owned()));
                        context.agent_mode = Some(mode);
                    }
                    Err(error) if is_current => return self.distrust_agent(error),
                    // The agent has ended; the next one is opened under the mode that applies then.
                    _ => {}
                }
                let mut resync = false;
                // An earlier change may have been sent with another mode.
                if self.first_pending() == Some(mode) {
                    self.accept_first(&mut effects);
                    self.apply_pending(context, &mut effects);
                    // If a change could not be stored, the agent's mode differs from the session's.
                    resync = self.pending.is_empty();
                }
                effects.push(ModeEffect::Settle { resync, is_current });
            }
            // The report may be older than the mode change that is in progress.
            ModeEvent::Reported(mode) if self.in_flight > 0 => self.reported = Some(mode),
            ModeEvent::Reported(mode) => self.follow_agent(mode, context, &mut effects),
            ModeEvent::Settled { resync, is_current } => {
                if resync {
                    self.resync(context, &mut effects);
                }
                if self.in_flight == 0
                    && let Some(mode) = self.reported.take().filter(|_| is_current)
                {
                    self.follow_agent(mode, context, &mut effects);
                }
            }
        }
        effects
    }

    /// The agent's name for the mode of the first pending change.
    fn first_pending(&self) -> Option<&'static str> {
        self.pending.front().map(|(_, mode)| config::agent_mode_name(*mode))
    }

    /// Carries out pending changes in order, until one has to wait for the agent.
    fn apply_pending(&mut self, context: ModeContext<'_>, effects: &mut Vec<ModeEffect<C>>) {
        while let Some(mode) = self.first_pending() {
            if self.send(mode, context, effects) {
                return;
            }
            self.accept_first(effects);
        }
    }

    fn accept_first(&mut self, effects: &mut Vec<ModeEffect<C>>) {
        effects.extend(self.pending.pop_front().map(|(change, _)| ModeEffect::Accept(change)));
    }

    /// Sets an agent that has another mode to the session's mode.
    fn resync(&mut self, context: ModeContext<'_>, effects: &mut Vec<ModeEffect<C>>) {
        self.send(config::agent_mode_name(context.configured), context, effects);
    }

    /// Sends a mode to a live agent that has another one. `false` if there is none.
    fn send(&mut self, mode: &'static str, context: ModeContext<'_>, effects: &mut Vec<ModeEffect<C>>) -> bool {
        let sends = context.is_live && context.agent_mode.is_some_and(|known| known != mode);
        if sends {
            self.in_flight += 1;
            effects.push(ModeEffect::Send(mode));
        }
        sends
    }

    fn follow_agent(&mut self, mode: String, context: ModeContext<'_>, effects: &mut Vec<ModeEffect<C>>) {
        effects.push(ModeEffect::SetAgentMode(mode.clone()));
        if config::agent_mode_name(context.configured) == mode {
            return;
        }
        match config::mode_after_agent_change(&mode, context.chosen) {
            Some((name, mode)) => effects.push(ModeEffect::Follow(name, mode)),
            None => {
                tracing::warn!("the agent loosened its permission mode; resetting it");
                self.resync(ModeContext { agent_mode: Some(&mode), ..context }, effects);
            }
        }
    }

    fn distrust_agent(&mut self, error: ConnectionError) -> Vec<ModeEffect<C>> {
        self.reported = None;
        let abandoned = self.pending.drain(..).map(|(change, _)| ModeEffect::Abandon(change, error.clone()));
        let mut effects: Vec<_> = abandoned.collect();
        effects.push(ModeEffect::CloseAgent(error));
        effects
    }
}
