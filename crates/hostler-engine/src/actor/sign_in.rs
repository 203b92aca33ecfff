//! Turns that need a sign-in: they end with what to do, and the next message finds everything as it was.

use hostler_driver::{ApiErrorCategory, TurnOutcome};

use super::Actor;
use crate::transcript::Failure;
use crate::turn::End;

impl Actor {
    /// The model that the turn is to work with.
    fn turn_model(&self) -> String {
        let driver = self.host.drivers.get(&self.session.session.provider);
        let default = driver.map(|driver| driver.describe().default_model).unwrap_or_default();
        self.wanted_facts(&self.usual_model(&default)).model
    }

    /// A refused credential looks to the agent like any other; here the sign-in that is needed gets its name.
    pub(super) fn name_sign_in(&self, end: End<Failure>) -> End<Failure> {
        match end {
            End::Agent(TurnOutcome::Failed(failure)) if failure.category == ApiErrorCategory::Auth => {
                match self.host.gateway.sign_in_for(&self.turn_model()) {
                    Some(needed) => End::Failed(Failure {
                        error_type: ApiErrorCategory::Auth.as_str().to_owned(),
                        message: needed.sentence(),
                        stderr: None,
                    }),
                    None => End::Agent(TurnOutcome::Failed(failure)),
                }
            }
            other => other,
        }
    }
}
