//! Routes the agent's events: output is mapped to actions, the others are effects on components.

use hostler_driver::{ApiErrorCategory, DriverEvent, TurnCause, TurnFailure, TurnOutcome};

use super::agent::AgentEvent;
use super::background_work::BackgroundEvent;
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::pending_messages::MessageEvent;
use super::permission_mode::ModeEvent;
use super::turn_end::budget_failure;
use crate::sessions::turn::TurnInput;

/// Maximum number of available events that are handled together.
pub(super) const MAX_MERGED_EVENTS: usize = 256;

/// The effects of an event; or the event itself, if it is output for the chat.
#[expect(clippy::result_large_err, reason = "the event is passed back, without an allocation for each delta")]
pub(super) fn route_event(event: DriverEvent, ctx: &SessionContext) -> Result<Vec<SessionEffect>, DriverEvent> {
    Ok(match event {
        DriverEvent::TurnStarted(cause) => vec![SessionEffect::Turn(match cause {
            TurnCause::Prompt => TurnInput::PromptStarted,
            TurnCause::Agent(reason) => TurnInput::AgentStartedByItself(reason),
        })],
        DriverEvent::MessageStarted => {
            vec![SessionEffect::Agent(AgentEvent::AnswerStarted), SessionEffect::Messages(MessageEvent::AnswerStarted)]
        }
        DriverEvent::SteerInjected(id) => vec![SessionEffect::Messages(MessageEvent::Injected(id))],
        DriverEvent::SteerUndelivered(id) => vec![SessionEffect::Messages(MessageEvent::Undelivered(id))],
        DriverEvent::BackgroundTaskChanged(task) => vec![SessionEffect::Background(BackgroundEvent::Changed(task))],
        DriverEvent::BackgroundTaskEnded { id } => vec![SessionEffect::Background(BackgroundEvent::Ended(id))],
        DriverEvent::SubAgent { agent, event } => vec![SessionEffect::SubAgent(agent, event)],
        DriverEvent::ResumeToken(token) => vec![SessionEffect::ResumeToken(token)],
        DriverEvent::PermissionModeChanged(mode) => {
            vec![SessionEffect::Agent(AgentEvent::Modes(ModeEvent::Reported(mode)))]
        }
        DriverEvent::TurnEnded(outcome) => {
            // A new directory at the same path needs another agent.
            let retires = has_lost_directory(&outcome).then_some(SessionEffect::Turn(TurnInput::RetireAgent));
            let finished = SessionEffect::Turn(TurnInput::AgentFinished(outcome));
            [finished, SessionEffect::Messages(MessageEvent::DeliverSteering)].into_iter().chain(retires).collect()
        }
        DriverEvent::Retrying { category: ApiErrorCategory::Auth, status, .. } => {
            let message = "Authentication failed: the provider rejected the credential.".to_owned();
            let failure = TurnFailure { category: ApiErrorCategory::Auth, message, status };
            vec![SessionEffect::Turn(TurnInput::Abort(failure.into()))]
        }
        DriverEvent::Retrying { category: ApiErrorCategory::RateLimit, .. }
            if let Some(failure) = budget_failure(ctx.host.agents.gateway(), &ctx.session.uri) =>
        {
            vec![SessionEffect::Turn(TurnInput::Abort(failure))]
        }
        DriverEvent::ProcessExited { status, stderr } => {
            vec![SessionEffect::Agent(AgentEvent::Exited { status, stderr })]
        }
        DriverEvent::RequestWithdrawn(request) => vec![SessionEffect::WithdrawRequest(request)],
        asked @ (DriverEvent::PermissionRequested(_)
        | DriverEvent::QuestionsAsked(_)
        | DriverEvent::PlanProposed(_)) => vec![SessionEffect::DisplayRequest(asked)],
        output => return Err(output),
    })
}

/// Whether an agent has lost its directory.
fn has_lost_directory(outcome: &TurnOutcome) -> bool {
    matches!(outcome, TurnOutcome::Failed(failure) if failure.category == ApiErrorCategory::WorkingDirectory)
}
