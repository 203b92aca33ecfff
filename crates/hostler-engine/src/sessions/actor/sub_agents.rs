//! Running sub-agents: each has a read-only chat in its parent's session, which the session's actor writes like the
//! default chat.
//!
//! The driver reports their work as `DriverEvent::SubAgent`, from the agent's messages or, for a build that prints
//! none, from our hooks. `session/chatAdded` creates the chat in the journal, so a restore needs nothing else. The turn
//! machine does not know sub-agents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ahp_types::StateAction;
use ahp_types::actions::{ChatTurnStartedAction, SessionChatAddedAction};
use ahp_types::state::MessageKind;
use hostler_driver::{DriverEvent, SubAgentEvent, SubAgentId, SubAgentStart};
use uuid::Uuid;

use super::context::SessionContext;
use super::effect::SessionEffect;
use super::session_change::{ActionTarget, SessionChange};
use crate::clock::ClockExt as _;
use crate::sessions::action_mapper::{ActionBuffer, ActionMapper, SubAgentLink};
use crate::sessions::session::{new_message, title_from_text};
use crate::sessions::sub_agent_chat;
use crate::uri;

#[cfg(test)]
mod tests;

/// The component: the running sub-agents, by the driver's ids.
#[derive(Debug, Default)]
pub(super) struct SubAgents {
    pub(super) active: BTreeMap<String, ActiveSubAgent>,
    /// Sub-agents whose start could not be stored yet.
    pub(super) unpublished_starts: BTreeMap<String, SubAgentStart>,
    /// Ends that could not be stored yet: the chats and their actions.
    pub(super) unstored_ends: Vec<(Arc<str>, Vec<StateAction>)>,
}

#[derive(Debug)]
pub(super) struct ActiveSubAgent {
    pub(super) chat_uri: Arc<str>,
    /// The sub-agent that started it.
    pub(super) parent: Option<String>,
    pub(super) action_mapper: ActionMapper,
    pub(super) started_at: Instant,
    /// Whether it outlives the turn.
    pub(super) is_background: bool,
}

impl SubAgents {
    /// The chat of a running sub-agent.
    pub(super) fn chat_uri(&self, agent: &str) -> Option<&Arc<str>> {
        self.active.get(agent).map(|worker| &worker.chat_uri)
    }

    /// The sub-agent, if it has a chat of its own.
    pub(super) fn with_chat(&self, agent: Option<&str>) -> Option<String> {
        agent.filter(|agent| self.active.contains_key(*agent)).map(str::to_owned)
    }

    /// The sub-agent that works in a chat.
    pub(super) fn agent_in_chat(&self, chat: &str) -> Option<&str> {
        self.active.iter().find(|(_, worker)| *worker.chat_uri == *chat).map(|(agent, _)| agent.as_str())
    }

    /// The mapper of the running turn of a sub-agent, or of the chat itself.
    pub(super) fn action_mapper<'a>(
        &'a mut self,
        agent: Option<&str>,
        ctx: &'a mut SessionContext,
    ) -> Option<&'a mut ActionMapper> {
        match agent {
            Some(agent) => self.active.get_mut(agent).map(|worker| &mut worker.action_mapper),
            None => ctx.turn.mapper.as_mut(),
        }
    }

    /// The chat of a sub-agent, or of the agent itself.
    pub(super) fn target_of(&self, agent: Option<&str>) -> ActionTarget {
        let chat = agent.and_then(|agent| self.chat_uri(agent));
        chat.map_or(ActionTarget::Chat, |chat| ActionTarget::SubAgentChat(Arc::clone(chat)))
    }

    /// Whether a sub-agent outlives the turn.
    pub(super) fn is_background(&self, agent: &str) -> bool {
        self.active.get(agent).is_some_and(|worker| worker.is_background)
    }

    /// Moves a sub-agent and its descendants to the background.
    pub(super) fn move_to_background(&mut self, agent: &str) {
        for agent in self.with_descendants(agent) {
            if let Some(worker) = self.active.get_mut(&agent) {
                worker.is_background = true;
            }
        }
    }

    /// A sub-agent after all its direct and indirect children.
    pub(super) fn with_descendants(&self, agent: &str) -> Vec<String> {
        let mut found = vec![agent.to_owned()];
        let mut at = 0;
        while let Some(parent) = found.get(at).cloned() {
            let children = self.active.iter().filter(|(_, worker)| worker.parent.as_ref() == Some(&parent));
            let children: Vec<_> = children.map(|(id, _)| id.clone()).filter(|id| !found.contains(id)).collect();
            found.extend(children);
            at += 1;
        }
        found.reverse();
        found
    }
}

impl SubAgents {
    /// Passes an event of the driver. `is_output_visible` is whether the agent's output belongs to the chat now.
    pub(super) async fn step(
        &mut self,
        SubAgentId(agent): SubAgentId,
        event: SubAgentEvent,
        is_output_visible: bool,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        // The start could not be stored before.
        if let Some(start) = self.unpublished_starts.remove(&agent) {
            self.start(agent.clone(), start, is_output_visible, ctx).await;
        }
        match event {
            SubAgentEvent::Started(start) => {
                self.start(agent, start, is_output_visible, ctx).await;
                Vec::new()
            }
            SubAgentEvent::Activity(event) => self.publish_output(&agent, *event, ctx).await,
            SubAgentEvent::Finished(outcome) => self.finish(&agent, outcome, ctx).await,
        }
    }

    async fn start(&mut self, agent: String, start: SubAgentStart, is_output_visible: bool, ctx: &mut SessionContext) {
        let (home, is_background) = match &start.parent_id {
            Some(parent) => match self.active.get(&parent.0) {
                Some(parent) => (ActionTarget::SubAgentChat(Arc::clone(&parent.chat_uri)), parent.is_background),
                None => return,
            },
            None if is_output_visible => (ActionTarget::Chat, false),
            // A sub-agent that starts after the turn's end belongs to the cancelled work and is ignored.
            None => return,
        };
        let chat: Arc<str> = uri::sub_agent_chat_uri(&ctx.session.uri, &start.call_id).into();
        let known = ctx.session.sub_agent_chat(&chat).map(|worker| worker.state.active_turn.is_some());
        if known == Some(true) || ctx.session.sub_agent_chats.len() >= sub_agent_chat::MAX_SUB_AGENT_CHATS {
            tracing::warn!(session = &*ctx.session.uri, "failed to store a sub-agent's output; it is not displayed");
            return;
        }
        let now = ctx.host.clock.now_timestamp();
        let title =
            title_from_text(if start.description.is_empty() { start.prompt.expose() } else { &start.description });
        let mut change = SessionChange::default();
        if known.is_none() {
            let made_in = ctx.channel_uri(&home);
            let summary =
                sub_agent_chat::sub_agent_chat_summary(&chat, title.clone(), &made_in, &start.call_id, now.clone());
            change = change.session_action(StateAction::SessionChatAdded(SessionChatAddedAction { summary }));
        }
        let turn = Uuid::new_v4().to_string();
        let begun = StateAction::ChatTurnStarted(ChatTurnStartedAction {
            turn_id: turn.clone(),
            started_at: now,
            message: new_message(start.prompt.expose().to_owned(), MessageKind::Tool),
            queued_message_id: None,
            meta: None,
        });
        let change = change.action_on(ActionTarget::SubAgentChat(Arc::clone(&chat)), begun, None);
        if let Err(error) = ctx.commit(change).await {
            tracing::error!(session = &*ctx.session.uri, %error, "failed to store the chat of a sub-agent; retrying");
            self.unpublished_starts.insert(agent, start);
            return;
        }
        let link = SubAgentLink { chat: chat.to_string(), description: title, kind: start.kind };
        let parent = start.parent_id.map(|parent| parent.0);
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.action_mapper(parent.as_deref(), ctx) {
            transcript.link_sub_agent(&start.call_id, link, &mut output);
        }
        ctx.publish_output_on(&home, &mut output).await;
        let worker = ActiveSubAgent {
            chat_uri: Arc::clone(&chat),
            parent,
            action_mapper: ActionMapper::for_sub_agent(turn),
            started_at: Instant::now(),
            is_background,
        };
        self.active.insert(agent, worker);
        ctx.host.catalog.notify_sub_agent_chat_started();
        ctx.update_summaries().await;
    }

    async fn publish_output(
        &mut self,
        agent: &str,
        event: DriverEvent,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let Some(worker) = self.active.get_mut(agent) else { return Vec::new() };
        let home = ActionTarget::SubAgentChat(Arc::clone(&worker.chat_uri));
        let finished = match &event {
            DriverEvent::ToolFinished { id, .. } => vec![SessionEffect::CloseFinishedCall(id.clone())],
            _ => Vec::new(),
        };
        let mut output = ActionBuffer::default();
        worker.action_mapper.map_event(event, &mut output);
        ctx.publish_output_on(&home, &mut output).await;
        finished
    }
}
