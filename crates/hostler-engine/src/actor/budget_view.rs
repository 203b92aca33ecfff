//! The actor's view of what the session uses: shown to clients, and limited as they say.
//!
//! The gateway counts and limits; this only tells. Totals change with every answer, so they are told at most every
//! quarter of a second, and always at a turn's end. What a request waits for is told at once.

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

/// How long totals are gathered.
const BUDGET_PUBLISH_INTERVAL: Duration = Duration::from_millis(250);

/// What clients know about the session's budget.
#[derive(Default)]
pub(super) struct BudgetView {
    /// What the running turn shows that it waits for.
    displayed_wait: Option<LimitWait>,
    published_at: Option<Instant>,
    /// Whether the totals are about to be told.
    publish_scheduled: bool,
}

impl SessionActor {
    /// Sets the limits that the session is configured for, and shows what an earlier life left.
    pub(super) async fn start_budget(&mut self) {
        if self.configured_limits() != SessionBudgetLimits::default() {
            self.apply_session_limits();
        }
        self.publish_budget().await;
    }

    /// The session's configuration says how much it may use.
    pub(super) fn apply_session_limits(&self) {
        self.host.gateway.set_session_limits(&self.session.uri, self.configured_limits());
    }

    fn configured_limits(&self) -> SessionBudgetLimits {
        self.session.session.config.as_ref().map(|config| config::session_limits(&config.values)).unwrap_or_default()
    }

    /// Something has been used, a limit was changed, or a request waits or goes on.
    pub(super) async fn handle_budget_changed(&mut self) {
        let Some(budget) = self.host.gateway.to_session_budget(&self.session.uri) else { return };
        let moved = budget.waiting_for != self.budget_view.displayed_wait;
        self.display_limit_wait(&budget).await;
        let early = self
            .budget_view
            .published_at
            .map(|told| BUDGET_PUBLISH_INTERVAL.saturating_sub(told.elapsed()))
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

    /// Tells the session's clients how things stand now.
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

    /// Shows in the running turn what it waits for.
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

    /// The turn is over, and what it waited for with it.
    pub(super) fn clear_displayed_wait(&mut self) {
        self.budget_view.displayed_wait = None;
    }

    /// If the agent gives up because of a budget: an error that says which, and how to go on.
    pub(super) fn budget_failure(&self) -> Option<TurnErrorDetails> {
        let reached = self.host.gateway.to_session_budget(&self.session.uri)?.refused_by?;
        let message =
            format!("Budget reached: {}. {} Then send a message to continue.", reached.description, reached.advice);
        Some(TurnErrorDetails { error_type: ApiErrorCategory::Limit.as_str().to_owned(), message, stderr: None })
    }

    /// An end for want of budget looks to the agent like any other refusal; here it gets its name.
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

    /// The session is gone for good.
    pub(super) fn forget_budget(&self) {
        self.host.gateway.forget_session(&self.session.uri);
    }
}
