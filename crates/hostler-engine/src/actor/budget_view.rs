//! Publishes the session's budget, and passes its configured limits to the gateway.
//!
//! The gateway counts and limits; this module only displays. Totals change with every answer, so they are published at
//! most every quarter of a second, and always at a turn's end. A wait for a limit is published at once.

use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionMetaChangedAction;
use hostler_driver::{ApiErrorCategory, TurnOutcome};
use tokio::time::Instant;

use super::{SessionActor, SessionInput};
use crate::action_mapper::{ActionBuffer, TurnErrorDetails};
use crate::budget::{LimitWait, SessionBudget, SessionBudgetLimits};
use crate::config;
use crate::turn::TurnEndReason;

/// Minimum time between two publications of the totals.
const BUDGET_PUBLISH_INTERVAL: Duration = Duration::from_millis(250);

/// The budget as clients know it.
#[derive(Default)]
pub(super) struct BudgetView {
    /// The wait that the running turn displays.
    displayed_wait: Option<LimitWait>,
    published_at: Option<Instant>,
    /// Whether a publication of the totals is scheduled.
    publish_scheduled: bool,
}

impl SessionActor {
    /// Sets the configured limits, and publishes the usage from before a restart.
    pub(super) async fn start_budget(&mut self) {
        if self.configured_limits() != SessionBudgetLimits::default() {
            self.apply_session_limits();
        }
        self.publish_budget().await;
    }

    /// Passes the limits of the session's configuration to the gateway.
    pub(super) fn apply_session_limits(&self) {
        self.host.gateway.set_session_limits(&self.session.uri, self.configured_limits());
    }

    fn configured_limits(&self) -> SessionBudgetLimits {
        self.session.session.config.as_ref().map(|config| config::session_limits(&config.values)).unwrap_or_default()
    }

    /// Handles changes of usage, limits and waits.
    pub(super) async fn handle_budget_changed(&mut self) {
        let Some(budget) = self.host.gateway.to_session_budget(&self.session.uri) else { return };
        let moved = budget.waiting_for != self.budget_view.displayed_wait;
        self.display_limit_wait(&budget).await;
        let early = self
            .budget_view
            .published_at
            .map(|published| BUDGET_PUBLISH_INTERVAL.saturating_sub(published.elapsed()))
            .filter(|left| !left.is_zero());
        match early {
            Some(left) if !moved => {
                if !std::mem::replace(&mut self.budget_view.publish_scheduled, true) {
                    self.tasks.spawn(async move {
                        tokio::time::sleep(left).await;
                        SessionInput::PublishBudget
                    });
                }
            }
            _ => self.publish_budget_meta(&budget).await,
        }
    }

    pub(super) async fn publish_scheduled_budget(&mut self) {
        self.budget_view.publish_scheduled = false;
        self.publish_budget().await;
    }

    /// Publishes the current budget to the session's clients.
    pub(super) async fn publish_budget(&mut self) {
        if let Some(budget) = self.host.gateway.to_session_budget(&self.session.uri) {
            self.publish_budget_meta(&budget).await;
        }
    }

    async fn publish_budget_meta(&mut self, budget: &SessionBudget) {
        let Some(meta) = budget.merge_into_meta(self.session.session.meta.as_ref()) else { return };
        self.budget_view.published_at = Some(Instant::now());
        self.publish_session_action(StateAction::SessionMetaChanged(SessionMetaChangedAction { meta: Some(meta) }))
            .await;
    }

    /// Displays in the running turn which limit it waits for.
    async fn display_limit_wait(&mut self, budget: &SessionBudget) {
        if self.budget_view.displayed_wait == budget.waiting_for {
            return;
        }
        let mut actions = ActionBuffer::default();
        if let Some(transcript) = self.action_mapper.as_mut() {
            transcript.set_limit_wait(budget.waiting_for.as_ref().map(|held| &held.limit), &mut actions);
        }
        self.budget_view.displayed_wait.clone_from(&budget.waiting_for);
        self.publish_output(&mut actions).await;
    }

    /// Clears the wait of an ended turn.
    pub(super) fn clear_displayed_wait(&mut self) {
        self.budget_view.displayed_wait = None;
    }

    /// The error of an agent that gave up because of a budget: which budget, and how to continue.
    pub(super) fn budget_failure(&self) -> Option<TurnErrorDetails> {
        let reached = self.host.gateway.to_session_budget(&self.session.uri)?.refused_by?;
        let message =
            format!("Budget reached: {}. {} Then send a message to continue.", reached.description, reached.advice);
        Some(TurnErrorDetails { error_type: ApiErrorCategory::Limit.as_str().to_owned(), message, stderr: None })
    }

    /// Replaces the agent's generic error by the exceeded budget, because the agent cannot distinguish it from other
    /// rejections.
    pub(super) fn explain_budget_failure(
        &self,
        end: TurnEndReason<TurnErrorDetails>,
    ) -> TurnEndReason<TurnErrorDetails> {
        match end {
            TurnEndReason::AgentOutcome(TurnOutcome::Failed(failure))
                if failure.category == ApiErrorCategory::RateLimit =>
            {
                match self.budget_failure() {
                    Some(refused) => TurnEndReason::Failed(refused),
                    None => TurnEndReason::AgentOutcome(TurnOutcome::Failed(failure)),
                }
            }
            other => other,
        }
    }

    /// Deletes the usage of a disposed session.
    pub(super) fn forget_budget(&self) {
        self.host.gateway.forget_session(&self.session.uri);
    }
}
