//! Ends of sub-agents.
//!
//! Sub-agents that the turn waits for end in the same commit as the turn. Background sub-agents end by themselves, with
//! their parent, on a client's request, with the process, or, if the session is configured to stop or to ask
//! (`actor/background_work.rs`), after the turn is stopped.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::ChatTurnCancelledAction;
use hostler_driver::{SubAgentOutcome, TurnOutcome};

use super::session_change::{ActionTarget, SessionChange};
use super::sub_agents::ActiveSubAgent;
use super::turn_lifecycle::STORE_RETRY_DELAY;
use super::{SessionActor, SessionInput};
use crate::sessions::action_mapper::{ActionBuffer, TurnErrorDetails, chat_error_action, mark_not_resumable};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::turn::TurnEndReason;

/// The notice in the parent's chat about a sub-agent whose chat could not be stored.
const UNSTORED_SUB_AGENT_NOTICE: &str =
    "The work of a sub-agent is not displayed, because the host could not store it.";

impl SessionActor {
    pub(super) async fn handle_sub_agent_finished(&mut self, agent: &str, outcome: SubAgentOutcome) {
        if let Some(start) = self.sub_agents.unpublished_starts.remove(agent) {
            self.handle_sub_agent_started(agent.to_owned(), start).await;
        }
        if let Some(start) = self.sub_agents.unpublished_starts.remove(agent) {
            let parent = start.parent_id.as_ref().map(|parent| parent.0.as_str());
            let home = self.target_of(parent);
            let mut output = ActionBuffer::default();
            if let Some(transcript) = self.action_mapper_of(parent) {
                transcript.add_notice(UNSTORED_SUB_AGENT_NOTICE.to_owned(), &mut output);
            }
            self.ctx.publish_output_on(&home, &mut output).await;
        }
        let end = match outcome {
            SubAgentOutcome::Completed => TurnEndReason::AgentOutcome(TurnOutcome::Completed { empty: false }),
            SubAgentOutcome::Failed(message) => TurnEndReason::Failed(TurnErrorDetails::from_sub_agent(message)),
            SubAgentOutcome::Stopped => TurnEndReason::Cancelled,
        };
        let mut ends = self.descendant_ends(agent);
        ends.push((agent.to_owned(), end));
        self.end_sub_agents(ends).await;
    }

    /// Adds the ends of the sub-agents that the turn waits for to the turn's end. They are removed once it is stored.
    pub(super) fn end_foreground_sub_agents(&mut self, mut change: SessionChange) -> SessionChange {
        let waited_for = self.sub_agents.active.values_mut().filter(|worker| !worker.is_background);
        for worker in waited_for {
            change = worker.add_end_to(TurnEndReason::Cancelled, change);
        }
        change
    }

    /// Removes them after the turn's end is stored.
    pub(super) fn forget_foreground_sub_agents(&mut self) {
        self.sub_agents.active.retain(|_, worker| worker.is_background);
    }

    /// Ends all sub-agents after the process has ended.
    pub(super) async fn end_all_sub_agents(&mut self) {
        self.sub_agents.unpublished_starts.clear();
        let ends = self
            .sub_agents
            .active
            .keys()
            .map(|agent| (agent.clone(), TurnEndReason::Failed(interrupted_failure())))
            .collect();
        self.end_sub_agents(ends).await;
    }

    /// Ends the turns of sub-agents that were running when the host died.
    pub(super) async fn end_interrupted_sub_agents(&mut self) {
        let mut change = SessionChange::default();
        let mut any = false;
        for worker in &self.ctx.session.sub_agent_chats {
            if let Some(turn) = &worker.state.active_turn {
                any = true;
                let end = mark_not_resumable(chat_error_action(turn.id.clone(), 0, interrupted_failure()));
                change = change.action_on(ActionTarget::SubAgentChat(Arc::clone(&worker.uri)), end, None);
            }
        }
        if !any {
            return;
        }
        let change = self.remove_turn_input_needed(change);
        if let Err(error) = self.ctx.commit(change).await {
            tracing::error!(%error, "failed to end interrupted sub-agents");
        }
    }

    /// Ends sub-agents and withdraws their pending requests.
    async fn end_sub_agents(&mut self, ends: Vec<(String, TurnEndReason<TurnErrorDetails>)>) {
        let mut said = Vec::new();
        let mut ended = Vec::new();
        for (agent, end) in ends {
            if let Some(mut worker) = self.sub_agents.active.remove(&agent) {
                said.push((Arc::clone(&worker.chat_uri), worker.end_actions(end)));
                ended.push(agent);
            }
        }
        if ended.is_empty() {
            return;
        }
        let waiting = !self.sub_agents.unstored_ends.is_empty();
        self.sub_agents.unstored_ends.extend(said);
        // Ends are stored in order: a failed one is retried soon, together with these.
        if !waiting {
            self.store_sub_agent_ends().await;
        }
        for agent in &ended {
            self.withdraw_sub_agent_requests(agent).await;
        }
        self.ctx.update_summaries().await;
    }

    /// Stores and publishes ends. If the store fails, they are retried like a turn's end.
    pub(super) async fn store_sub_agent_ends(&mut self) {
        let mut change = SessionChange::default();
        for (chat, said) in &self.sub_agents.unstored_ends {
            let home = ActionTarget::SubAgentChat(Arc::clone(chat));
            change = said.iter().fold(change, |change, action| change.action_on(home.clone(), action.clone(), None));
            change = self.remove_chat_input_needed(chat, change);
        }
        match self.ctx.commit(change).await {
            Ok(()) => self.sub_agents.unstored_ends.clear(),
            Err(error) => {
                tracing::error!(session = &*self.ctx.session.uri, %error, "failed to store the end of a sub-agent; retrying");
                let pause = self.ctx.host.clock.sleep(STORE_RETRY_DELAY);
                self.ctx.tasks.spawn(async move {
                    pause.await;
                    SessionInput::RetrySubAgentEnds
                });
            }
        }
    }

    /// Retries ends that could not be stored.
    pub(super) async fn retry_sub_agent_ends(&mut self) {
        if !self.sub_agents.unstored_ends.is_empty() {
            self.store_sub_agent_ends().await;
            self.ctx.update_summaries().await;
        }
    }

    /// The ends of a sub-agent's direct and indirect children: they end with it.
    fn descendant_ends(&self, agent: &str) -> Vec<(String, TurnEndReason<TurnErrorDetails>)> {
        let all = self.sub_agents.with_descendants(agent).into_iter();
        all.filter(|id| id != agent).map(|id| (id, TurnEndReason::Cancelled)).collect()
    }

    // ── Cancelled by a client ─────────────────────────────────────────────────────────────────────────────────────

    /// Handles a client's cancellation of a sub-agent's turn. Only background sub-agents can be cancelled.
    pub(super) async fn handle_sub_agent_cancelled(
        &mut self,
        dispatch: &Dispatch,
        action: ChatTurnCancelledAction,
    ) -> Result<(), ActionRejection> {
        let Some(agent) = self.sub_agents.agent_in_chat(&dispatch.channel).map(str::to_owned) else {
            return Err(ActionRejection::NoActiveTurn);
        };
        let Some(worker) = self.sub_agents.active.get(&agent).filter(|at| at.action_mapper.turn() == action.turn_id)
        else {
            return Err(ActionRejection::OtherTurnActive);
        };
        if !self.background_tasks.contains(&agent) {
            let parent = self.target_of(worker.parent.as_deref());
            let chat = self.ctx.channel_uri(&parent);
            let turn = self.ctx.session.chat_by_uri(&chat).and_then(|chat| chat.active_turn.as_ref());
            return Err(match turn {
                Some(turn) => ActionRejection::SubAgentInForeground { turn: turn.id.clone(), chat: chat.to_string() },
                None => ActionRejection::SubAgentEnding { chat: chat.to_string() },
            });
        }
        let below = self.descendant_ends(&agent);
        let home = ActionTarget::SubAgentChat(Arc::clone(&worker.chat_uri));
        let cancelled = StateAction::ChatTurnCancelled(action);
        let change = SessionChange::default().action_on(home, cancelled, Some(dispatch.origin()));
        let change = self.remove_chat_input_needed(&dispatch.channel, change);
        self.ctx.commit(change).await?;
        self.sub_agents.active.remove(&agent);
        self.withdraw_sub_agent_requests(&agent).await;
        self.end_sub_agents(below).await;
        self.stop_background_tasks(vec![agent]);
        self.ctx.update_summaries().await;
        Ok(())
    }
}

impl ActiveSubAgent {
    fn add_end_to(&mut self, end: TurnEndReason<TurnErrorDetails>, change: SessionChange) -> SessionChange {
        let home = ActionTarget::SubAgentChat(Arc::clone(&self.chat_uri));
        self.end_actions(end).into_iter().fold(change, |change, action| change.action_on(home.clone(), action, None))
    }

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
