//! Ends of sub-agents.
//!
//! Sub-agents that the turn waits for end in the same commit as the turn. Background sub-agents end by themselves, with
//! their parent, on a client's request, with the process, or, if the session is configured to stop or to ask
//! (`actor/background_work.rs`), after the turn is stopped.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::ChatTurnCancelledAction;
use hostler_driver::{SubAgentOutcome, TurnOutcome};

use super::SessionInput;
use super::background_work::BackgroundTasks;
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::session_change::{ActionTarget, SessionChange};
use super::sub_agents::{ActiveSubAgent, SubAgents};
use super::turn_lifecycle::STORE_RETRY_DELAY;
use crate::sessions::action_mapper::{ActionBuffer, TurnErrorDetails, chat_error_action, mark_not_resumable};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::{Dispatch, Session};
use crate::sessions::turn::TurnEndReason;

/// The notice in the parent's chat about a sub-agent whose chat could not be stored.
const UNSTORED_SUB_AGENT_NOTICE: &str =
    "The work of a sub-agent is not displayed, because the host could not store it.";

impl SubAgents {
    pub(super) async fn finish(
        &mut self,
        agent: &str,
        outcome: SubAgentOutcome,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        if let Some(start) = self.unpublished_starts.remove(agent) {
            let parent = start.parent_id.as_ref().map(|parent| parent.0.as_str());
            let home = self.target_of(parent);
            let mut output = ActionBuffer::default();
            if let Some(transcript) = self.action_mapper(parent, ctx) {
                transcript.add_notice(UNSTORED_SUB_AGENT_NOTICE.to_owned(), &mut output);
            }
            ctx.publish_output_on(&home, &mut output).await;
        }
        let end = match outcome {
            SubAgentOutcome::Completed => TurnEndReason::AgentOutcome(TurnOutcome::Completed { empty: false }),
            SubAgentOutcome::Failed(message) => TurnEndReason::Failed(TurnErrorDetails::from_sub_agent(message)),
            SubAgentOutcome::Stopped => TurnEndReason::Cancelled,
        };
        let mut ends = self.descendant_ends(agent);
        ends.push((agent.to_owned(), end));
        self.end(ends, ctx).await
    }

    /// Adds to the turn's end what ends with it: its pending requests, and the sub-agents that it waited for. They are
    /// removed once the end is stored.
    pub(super) fn add_turn_end(&mut self, session: &Session, mut change: SessionChange) -> SessionChange {
        let stays = |chat: &str| self.agent_in_chat(chat).is_some_and(|agent| self.is_background(agent));
        change = change.remove_input_needed(session, |chat| !stays(chat));
        for worker in self.active.values_mut().filter(|worker| !worker.is_background) {
            let home = ActionTarget::SubAgentChat(Arc::clone(&worker.chat_uri));
            for action in worker.end_actions(TurnEndReason::Cancelled) {
                change = change.action_on(home.clone(), action, None);
            }
        }
        change
    }

    /// Removes the sub-agents that the turn waited for, after the turn's end is stored.
    pub(super) fn forget_foreground(&mut self) {
        self.active.retain(|_, worker| worker.is_background);
    }

    /// Ends all sub-agents after the process has ended.
    pub(super) async fn end_all(&mut self, ctx: &mut SessionContext) -> Vec<SessionEffect> {
        self.unpublished_starts.clear();
        let ends =
            self.active.keys().map(|agent| (agent.clone(), TurnEndReason::Failed(interrupted_failure()))).collect();
        self.end(ends, ctx).await
    }

    /// Ends the turns of sub-agents that were running when the host died.
    pub(super) async fn end_interrupted(&mut self, ctx: &mut SessionContext) {
        let mut change = SessionChange::default();
        let mut any = false;
        for worker in &ctx.session.sub_agent_chats {
            if let Some(turn) = &worker.state.active_turn {
                any = true;
                let end = mark_not_resumable(chat_error_action(turn.id.clone(), 0, interrupted_failure()));
                change = change.action_on(ActionTarget::SubAgentChat(Arc::clone(&worker.uri)), end, None);
            }
        }
        if !any {
            return;
        }
        let change = self.add_turn_end(&ctx.session, change);
        if let Err(error) = ctx.commit(change).await {
            tracing::error!(%error, "failed to end interrupted sub-agents");
        }
    }

    /// Ends sub-agents. Their pending requests are withdrawn.
    async fn end(
        &mut self,
        ends: Vec<(String, TurnEndReason<TurnErrorDetails>)>,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let waiting = !self.unstored_ends.is_empty();
        let mut ended = Vec::new();
        for (agent, end) in ends {
            if let Some(mut worker) = self.active.remove(&agent) {
                self.unstored_ends.push((Arc::clone(&worker.chat_uri), worker.end_actions(end)));
                ended.push(SessionEffect::WithdrawSubAgentRequests(agent));
            }
        }
        if !ended.is_empty() {
            // Ends are stored in order: a failed one is retried soon, together with these.
            if !waiting {
                self.store_ends(ctx).await;
            }
            ctx.update_summaries().await;
        }
        ended
    }

    /// Stores and publishes ends. If the store fails, they are retried like a turn's end.
    async fn store_ends(&mut self, ctx: &mut SessionContext) {
        let mut change = SessionChange::default();
        for (chat, actions) in &self.unstored_ends {
            let home = ActionTarget::SubAgentChat(Arc::clone(chat));
            change = actions.iter().fold(change, |change, action| change.action_on(home.clone(), action.clone(), None));
            change = change.remove_input_needed(&ctx.session, |of| *of == **chat);
        }
        match ctx.commit(change).await {
            Ok(()) => self.unstored_ends.clear(),
            Err(error) => {
                tracing::error!(session = &*ctx.session.uri, %error, "failed to store the end of a sub-agent; retrying");
                let pause = ctx.host.clock.sleep(STORE_RETRY_DELAY);
                ctx.tasks.spawn(async move {
                    pause.await;
                    SessionInput::RetrySubAgentEnds
                });
            }
        }
    }

    /// Retries ends that could not be stored.
    pub(super) async fn retry_ends(&mut self, ctx: &mut SessionContext) {
        if !self.unstored_ends.is_empty() {
            self.store_ends(ctx).await;
            ctx.update_summaries().await;
        }
    }

    /// The ends of a sub-agent's direct and indirect children: they end with it.
    fn descendant_ends(&self, agent: &str) -> Vec<(String, TurnEndReason<TurnErrorDetails>)> {
        let all = self.with_descendants(agent).into_iter();
        all.filter(|id| id != agent).map(|id| (id, TurnEndReason::Cancelled)).collect()
    }

    /// Carries out a client's cancellation of a sub-agent's turn. Only background sub-agents can be cancelled.
    pub(super) async fn cancel(
        &mut self,
        dispatch: &Dispatch,
        action: ChatTurnCancelledAction,
        background_tasks: &BackgroundTasks,
        ctx: &mut SessionContext,
    ) -> Result<Vec<SessionEffect>, ActionRejection> {
        let Some(agent) = self.agent_in_chat(&dispatch.channel).map(str::to_owned) else {
            return Err(ActionRejection::NoActiveTurn);
        };
        let Some(worker) = self.active.get(&agent).filter(|at| at.action_mapper.turn() == action.turn_id) else {
            return Err(ActionRejection::OtherTurnActive);
        };
        if !background_tasks.contains(&agent) {
            let chat = ctx.channel_uri(&self.target_of(worker.parent.as_deref()));
            let turn = ctx.session.chat_by_uri(&chat).and_then(|chat| chat.active_turn.as_ref());
            return Err(match turn {
                Some(turn) => ActionRejection::SubAgentInForeground { turn: turn.id.clone(), chat: chat.to_string() },
                None => ActionRejection::SubAgentEnding { chat: chat.to_string() },
            });
        }
        let home = ActionTarget::SubAgentChat(Arc::clone(&worker.chat_uri));
        let change = SessionChange::default()
            .action_on(home, StateAction::ChatTurnCancelled(action), Some(dispatch.origin()))
            .remove_input_needed(&ctx.session, |chat| *chat == dispatch.channel);
        ctx.commit(change).await?;
        self.active.remove(&agent);
        let mut effects = vec![SessionEffect::WithdrawSubAgentRequests(agent.clone())];
        effects.extend(self.end(self.descendant_ends(&agent), ctx).await);
        effects.push(SessionEffect::StopTasks(vec![agent]));
        ctx.update_summaries().await;
        Ok(effects)
    }
}

impl ActiveSubAgent {
    /// The actions that end its chat's turn.
    fn end_actions(&mut self, end: TurnEndReason<TurnErrorDetails>) -> Vec<StateAction> {
        let duration = i64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut output = ActionBuffer::default();
        self.action_mapper.end_turn(end, duration, &mut output);
        output.actions.into_iter().map(mark_not_resumable).collect()
    }
}

fn interrupted_failure() -> TurnErrorDetails {
    TurnErrorDetails {
        error_type: "interrupted".to_owned(),
        message: "The agent exited while this sub-agent was running.".to_owned(),
        stderr: None,
    }
}
