//! The actor's view of what the session uses: shown to clients, and limited as they say.
//!
//! The gateway counts and limits; this only tells. Totals change with every answer, so they are told at most every
//! quarter of a second, and always at a turn's end. What a request waits for is told at once.

use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionMetaChangedAction;
use hostler_driver::{ApiErrorCategory, TurnOutcome};
use tokio::time::Instant;

use super::{Actor, Input};
use crate::budget::{Held, SessionBudget, SessionLimits};
use crate::config;
use crate::transcript::{Failure, Output};
use crate::turn::End;

/// How long totals are gathered.
const GATHER: Duration = Duration::from_millis(250);

/// What clients know about the session's budget.
#[derive(Default)]
pub(super) struct Budget {
    /// What the running turn shows that it waits for.
    shown: Option<Held>,
    told_at: Option<Instant>,
    /// Whether the totals are about to be told.
    due: bool,
}

impl Actor {
    /// Sets the limits that the session is configured for, and shows what an earlier life left.
    pub(super) async fn begin_budget(&mut self) {
        if self.configured_limits() != SessionLimits::default() {
            self.apply_limits();
        }
        self.tell_budget().await;
    }

    /// The session's configuration says how much it may use.
    pub(super) fn apply_limits(&self) {
        self.host.gateway.set_session_limits(&self.session.uri, self.configured_limits());
    }

    fn configured_limits(&self) -> SessionLimits {
        self.session.session.config.as_ref().map(|config| config::limits(&config.values)).unwrap_or_default()
    }

    /// Something has been used, a limit was changed, or a request waits or goes on.
    pub(super) async fn budget_changed(&mut self) {
        let Some(budget) = self.host.gateway.budget(&self.session.uri) else { return };
        let moved = budget.held != self.budget.shown;
        self.show_held(&budget).await;
        let early =
            self.budget.told_at.map(|told| GATHER.saturating_sub(told.elapsed())).filter(|left| !left.is_zero());
        match early {
            Some(left) if !moved => {
                if !std::mem::replace(&mut self.budget.due, true) {
                    self.tasks.spawn(async move {
                        tokio::time::sleep(left).await;
                        Input::BudgetDue
                    });
                }
            }
            _ => self.tell(&budget).await,
        }
    }

    pub(super) async fn budget_due(&mut self) {
        self.budget.due = false;
        self.tell_budget().await;
    }

    /// Tells the session's clients how things stand now.
    pub(super) async fn tell_budget(&mut self) {
        if let Some(budget) = self.host.gateway.budget(&self.session.uri) {
            self.tell(&budget).await;
        }
    }

    async fn tell(&mut self, budget: &SessionBudget) {
        let Some(meta) = budget.meta(self.session.session.meta.as_ref()) else { return };
        self.budget.told_at = Some(Instant::now());
        self.tell_session(StateAction::SessionMetaChanged(SessionMetaChangedAction { meta: Some(meta) })).await;
    }

    /// Shows in the running turn what it waits for.
    async fn show_held(&mut self, budget: &SessionBudget) {
        if self.budget.shown == budget.held {
            return;
        }
        let mut actions = Output::default();
        if let Some(transcript) = self.transcript.as_mut() {
            transcript.hold(budget.held.as_ref().map(|held| &held.reached), &mut actions);
        }
        self.budget.shown.clone_from(&budget.held);
        self.flush(&mut actions).await;
    }

    /// The turn is over, and what it waited for with it.
    pub(super) fn turn_left_the_line(&mut self) {
        self.budget.shown = None;
    }

    /// If the agent gives up because of a budget: an error that says which, and how to go on.
    pub(super) fn refused_by_budget(&self) -> Option<Failure> {
        let reached = self.host.gateway.budget(&self.session.uri)?.refused?;
        let message =
            format!("Budget reached: {}. {} Then send a message to continue.", reached.sentence, reached.advice);
        Some(Failure { error_type: ApiErrorCategory::Limit.as_str().to_owned(), message, stderr: None })
    }

    /// An end for want of budget looks to the agent like any other refusal; here it gets its name.
    pub(super) fn name_budget(&self, end: End<Failure>) -> End<Failure> {
        match end {
            End::Agent(TurnOutcome::Failed(failure)) if failure.category == ApiErrorCategory::RateLimit => {
                match self.refused_by_budget() {
                    Some(refused) => End::Failed(refused),
                    None => End::Agent(TurnOutcome::Failed(failure)),
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
