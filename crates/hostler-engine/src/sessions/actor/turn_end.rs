//! Ends turns: one commit with what each component contributes to it. A failure that the agent cannot distinguish from
//! others (an exceeded budget, a missing sign-in) is explained.

use ahp_types::StateAction;
use ahp_types::actions::ChatTurnCancelledAction;
use hostler_driver::{ApiErrorCategory, TurnOutcome};
use hostler_store::StoreError;

use super::agent::SessionAgent;
use super::agent_settings::AgentSettings;
use super::context::SessionContext;
use super::input::SessionInput;
use super::pending_messages::{PendingMessages, SteeringAtTurnEnd};
use super::session_change::SessionChange;
use super::sub_agents::SubAgents;
use super::turn_lifecycle::STORE_RETRY_DELAY;
use crate::agents::model_gateway::ModelGateway;
use crate::permissions::pending_requests::PendingRequests;
use crate::sessions::action_mapper::{ActionMapper, TurnErrorDetails, chat_error_action};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::state::MAX_TURN_DURATION_MS;
use crate::sessions::turn::{TurnEndReason, TurnMachine, TurnPhase};

/// How often a stopping session tries to store the end of its turn.
pub(super) const MAX_SHUTDOWN_STORE_ATTEMPTS: u32 = 3;

/// The components that contribute to a turn's end.
pub(super) struct TurnEnd<'a> {
    pub(super) ctx: &'a mut SessionContext,
    pub(super) machine: &'a TurnMachine,
    pub(super) agent: &'a SessionAgent,
    pub(super) messages: &'a mut PendingMessages,
    pub(super) requests: &'a mut PendingRequests,
    pub(super) sub_agents: &'a mut SubAgents,
}

impl TurnEnd<'_> {
    /// Stores and publishes a turn's end. `false` if the store failed; then it is retried later.
    pub(super) async fn end(mut self, turn: String, end: TurnEndReason<TurnErrorDetails>) -> bool {
        let steering = self.end_steering();
        let ctx = &mut *self.ctx;
        let shown = explain_failure(end.clone(), ctx.host.agents.gateway(), &ctx.session.uri, || turn_model(ctx));
        let duration = ctx.turn.duration_ms();
        let mapper = ctx.turn.mapper.get_or_insert_with(|| ActionMapper::new(turn.clone()));
        let mut output = steering.notice_in(mapper);
        mapper.end_turn(shown, duration, &mut output);
        self.requests.withdraw_turn(self.sub_agents, self.ctx).await;
        if let Err(error) = self.commit(SessionChange::default().output(output), steering).await {
            tracing::error!(session = &*self.ctx.session.uri, %error, "failed to store the end of a turn; retrying");
            let pause = self.ctx.host.clock.sleep(STORE_RETRY_DELAY);
            self.ctx.tasks.spawn(async move {
                pause.await;
                SessionInput::RetryTurnEnd(turn, end)
            });
            return false;
        }
        self.sub_agents.forget_foreground();
        true
    }

    /// Cancels a turn on a client's request.
    pub(super) async fn cancel(
        mut self,
        dispatch: &Dispatch,
        mut action: ChatTurnCancelledAction,
    ) -> Result<(), ActionRejection> {
        match self.machine.turn_phase() {
            _ if self.machine.can_cancel_turn(&action.turn_id) => {}
            TurnPhase::Ending(ending) if *ending == action.turn_id => return Err(ActionRejection::TurnEnded),
            TurnPhase::None => return Err(ActionRejection::NoActiveTurn),
            _ => return Err(ActionRejection::OtherTurnActive),
        }
        // The client computes the duration; one beyond the calendar's range would leave the turn open.
        action.duration = action.duration.clamp(0, MAX_TURN_DURATION_MS);
        let steering = self.end_steering();
        let output = self.ctx.turn.mapper.as_mut().map(|mapper| steering.notice_in(mapper)).unwrap_or_default();
        let change = SessionChange::default()
            .output(output)
            .client_chat_action(StateAction::ChatTurnCancelled(action), Some(dispatch.origin()));
        let committed = self.commit(change, steering).await;
        self.messages.deliver_steering(self.ctx, self.machine, self.agent);
        committed?;
        self.requests.withdraw_turn(self.sub_agents, self.ctx).await;
        self.sub_agents.forget_foreground();
        Ok(())
    }

    /// Ends a turn that was running when the host died.
    pub(super) async fn end_interrupted(mut self) {
        if let Some(turn) = self.ctx.session.chat.active_turn.as_ref().map(|turn| turn.id.clone()) {
            let failure = TurnErrorDetails {
                error_type: "interrupted".to_owned(),
                message: "The host stopped while this turn was running. Resume it, or send a message to continue the \
                          conversation."
                    .to_owned(),
                stderr: None,
            };
            let steering = self.end_steering();
            let output = steering.notice_in(&mut ActionMapper::new(turn.clone()));
            let change = SessionChange::default().output(output).chat_action(chat_error_action(turn, 0, failure));
            if let Err(error) = self.commit(change, steering).await {
                tracing::error!(%error, "failed to end an interrupted turn");
            }
            // The message was acknowledged, so the session is listed, even if its agent never started.
            if let Err(error) = self.ctx.announce_session().await {
                tracing::error!(%error, "failed to announce an interrupted session");
            }
        }
        self.ctx.update_summaries().await;
    }

    /// What happens to the steer at the turn's end.
    fn end_steering(&mut self) -> SteeringAtTurnEnd {
        self.messages.end_turn(self.ctx, self.machine, self.agent)
    }

    async fn commit(&mut self, change: SessionChange, steering: SteeringAtTurnEnd) -> Result<(), StoreError> {
        let change = steering.add_actions_to(self.sub_agents.add_turn_end(&self.ctx.session, change));
        self.ctx.commit(change).await
    }
}

/// The model of the turn.
fn turn_model(ctx: &SessionContext) -> String {
    let driver = ctx.host.agents.driver(&ctx.session.session.provider);
    let default = driver.map(|driver| driver.describe().default_model).unwrap_or_default();
    AgentSettings::for_new_agent(&ctx.session, &default).model
}

/// The error of an agent that gave up because of a budget: which budget, and how to continue.
pub(super) fn budget_failure(gateway: &dyn ModelGateway, session: &str) -> Option<TurnErrorDetails> {
    let reached = gateway.to_session_budget(session)?.refused_by?;
    let message =
        format!("Budget reached: {}. {} Then send a message to continue.", reached.description, reached.advice);
    Some(TurnErrorDetails { error_type: ApiErrorCategory::Limit.as_str().to_owned(), message, stderr: None })
}

/// Replaces the agent's generic error by the exceeded budget, or by the sign-in that the model needs.
fn explain_failure(
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
