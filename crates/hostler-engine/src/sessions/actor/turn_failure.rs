//! Explains failures that the agent cannot distinguish from others: an exceeded budget, and a missing sign-in.

use hostler_driver::{ApiErrorCategory, TurnOutcome};

use crate::agents::model_gateway::ModelGateway;
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::turn::TurnEndReason;

/// The error of an agent that gave up because of a budget: which budget, and how to continue.
pub(super) fn budget_failure(gateway: &dyn ModelGateway, session: &str) -> Option<TurnErrorDetails> {
    let reached = gateway.to_session_budget(session)?.refused_by?;
    let message =
        format!("Budget reached: {}. {} Then send a message to continue.", reached.description, reached.advice);
    Some(TurnErrorDetails { error_type: ApiErrorCategory::Limit.as_str().to_owned(), message, stderr: None })
}

/// Replaces the agent's generic error by the exceeded budget, or by the sign-in that the model needs.
pub(super) fn explain_failure(
    end: TurnEndReason<TurnErrorDetails>,
    gateway: &dyn ModelGateway,
    session: &str,
    model: impl FnOnce() -> String,
) -> TurnEndReason<TurnErrorDetails> {
    let TurnEndReason::AgentOutcome(TurnOutcome::Failed(failure)) = &end else { return end };
    let explained = match failure.category {
        ApiErrorCategory::RateLimit => budget_failure(gateway, session),
        ApiErrorCategory::Auth => gateway.required_sign_in(&model()).map(|needed| TurnErrorDetails {
            error_type: ApiErrorCategory::Auth.as_str().to_owned(),
            message: needed.sign_in_instructions(),
            stderr: None,
        }),
        _ => None,
    };
    explained.map_or(end, TurnEndReason::Failed)
}
