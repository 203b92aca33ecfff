//! The session's budget as clients see it.
//!
//! A component like the turn machine: the actor passes the gateway's data and the time, and carries out effects. The
//! gateway counts and limits; this module only displays. Totals change with every answer, so they are published at most
//! every quarter of a second, and always at a turn's end. A wait for a limit is published at once.

use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionMetaChangedAction;
use ahp_types::common::JsonObject;
use tokio::time::Instant;

use super::SessionInput;
use super::context::SessionContext;
use crate::sessions::action_mapper::ActionBuffer;
use crate::sessions::budget::{LimitReached, LimitWait, SessionBudget, SessionBudgetLimits};

#[cfg(test)]
mod tests;

/// Minimum time between two publications of the totals.
const BUDGET_PUBLISH_INTERVAL: Duration = Duration::from_millis(250);

/// An event of the budget's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BudgetEvent {
    /// The session is open: usage from before a restart is displayed.
    Opened,
    /// Usage, limits or waits have changed.
    Changed,
    /// The time of the last [`BudgetEffect::SchedulePublish`] is over.
    PublishDue,
    /// The turn has ended.
    TurnEnded,
}

/// An effect that the actor carries out, in order.
#[derive(Debug, PartialEq)]
pub(super) enum BudgetEffect {
    /// Display in the running turn which limit it waits for.
    DisplayWait(Option<LimitReached>),
    /// Publish the session's `_meta`.
    Publish(JsonObject),
    /// Pass [`BudgetEvent::PublishDue`] after this time.
    SchedulePublish(Duration),
}

/// The component. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct BudgetView {
    /// The wait that the running turn displays.
    displayed_wait: Option<LimitWait>,
    published_at: Option<Instant>,
    /// Whether a publication of the totals is scheduled.
    is_scheduled: bool,
}

impl BudgetView {
    /// Applies an event and returns the effects that follow. `budget` is the gateway's data, if it has any.
    pub(super) fn on(
        &mut self,
        event: BudgetEvent,
        budget: Option<&SessionBudget>,
        meta: Option<&JsonObject>,
        now: Instant,
    ) -> Vec<BudgetEffect> {
        match event {
            BudgetEvent::PublishDue => self.is_scheduled = false,
            BudgetEvent::TurnEnded => self.displayed_wait = None,
            BudgetEvent::Opened | BudgetEvent::Changed => {}
        }
        let Some(budget) = budget else { return Vec::new() };
        let mut effects = Vec::new();
        if event == BudgetEvent::Changed {
            let has_wait_changed = budget.waiting_for != self.displayed_wait;
            if has_wait_changed {
                self.displayed_wait.clone_from(&budget.waiting_for);
                effects.push(BudgetEffect::DisplayWait(budget.waiting_for.as_ref().map(|wait| wait.limit.clone())));
            }
            let remaining = self
                .published_at
                .map(|published| BUDGET_PUBLISH_INTERVAL.saturating_sub(now.duration_since(published)))
                .filter(|remaining| !remaining.is_zero() && !has_wait_changed);
            if let Some(remaining) = remaining {
                if !std::mem::replace(&mut self.is_scheduled, true) {
                    effects.push(BudgetEffect::SchedulePublish(remaining));
                }
                return effects;
            }
        }
        if let Some(meta) = budget.merge_into_meta(meta) {
            self.published_at = Some(now);
            effects.push(BudgetEffect::Publish(meta));
        }
        effects
    }
}

impl BudgetView {
    /// Passes an event and carries out the effects.
    pub(super) async fn step(&mut self, event: BudgetEvent, ctx: &mut SessionContext) {
        let budget = ctx.host.agents.gateway().to_session_budget(&ctx.session.uri);
        let meta = ctx.session.session.meta.as_ref();
        for effect in self.on(event, budget.as_ref(), meta, Instant::now()) {
            match effect {
                BudgetEffect::DisplayWait(limit) => {
                    let mut actions = ActionBuffer::default();
                    if let Some(mapper) = ctx.turn.mapper.as_mut() {
                        mapper.set_limit_wait(limit.as_ref(), &mut actions);
                    }
                    ctx.publish_output(&mut actions).await;
                }
                BudgetEffect::Publish(meta) => {
                    let action = SessionMetaChangedAction { meta: Some(meta) };
                    ctx.publish_session_action(StateAction::SessionMetaChanged(action)).await;
                }
                BudgetEffect::SchedulePublish(delay) => {
                    ctx.tasks.spawn(async move {
                        tokio::time::sleep(delay).await;
                        SessionInput::PublishBudget
                    });
                }
            }
        }
    }

    /// Sets the configured limits, and publishes the usage from before a restart.
    pub(super) async fn start(&mut self, ctx: &mut SessionContext) {
        if ctx.configured_limits() != SessionBudgetLimits::default() {
            ctx.apply_session_limits();
        }
        self.step(BudgetEvent::Opened, ctx).await;
    }
}
