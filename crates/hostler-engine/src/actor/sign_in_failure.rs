//! Turns that need a sign-in: they end with instructions, and the next message tries again.

use hostler_driver::{ApiErrorCategory, TurnOutcome};

use super::SessionActor;
use crate::action_mapper::TurnErrorDetails;
use crate::turn::TurnEndReason;

impl SessionActor {
    /// The model of the turn.
    fn turn_model(&self) -> String {
        let driver = self.host.drivers.get(&self.session.session.provider);
        let default = driver.map(|driver| driver.describe().default_model).unwrap_or_default();
        self.wanted_settings(&self.inherited_model_or(&default)).model
    }

    /// Replaces the agent's generic credential error by the sign-in that is needed.
    pub(super) fn explain_sign_in_failure(
        &self,
        end: TurnEndReason<TurnErrorDetails>,
    ) -> TurnEndReason<TurnErrorDetails> {
        match end {
            TurnEndReason::AgentOutcome(TurnOutcome::Failed(failure)) if failure.category == ApiErrorCategory::Auth => {
                match self.host.gateway.required_sign_in(&self.turn_model()) {
                    Some(needed) => TurnEndReason::Failed(TurnErrorDetails {
                        error_type: ApiErrorCategory::Auth.as_str().to_owned(),
                        message: needed.sign_in_instructions(),
                        stderr: None,
                    }),
                    None => TurnEndReason::AgentOutcome(TurnOutcome::Failed(failure)),
                }
            }
            other => other,
        }
    }
}
