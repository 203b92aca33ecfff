//! Sub-agents at work: each has a chat of its own, which the session's one writer moves like the default chat.
//!
//! What their parent waits for ends with the turn; what goes on in the background ends by itself, or with the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ahp_types::StateAction;
use ahp_types::actions::{ChatTurnStartedAction, SessionChatAddedAction};
use ahp_types::state::MessageKind;
use hostler_driver::{DriverEvent, SubAgentEvent, SubAgentId, SubAgentStart};
use uuid::Uuid;

use super::Actor;
use super::change::{Change, Home};
use crate::clock::ClockExt as _;
use crate::session::{message, title_from};
use crate::transcript::{Failure, Output, Transcript, WorkerLink};
use crate::turn::{Effect, Input as TurnInput};
use crate::{uri, worker};

/// The sub-agents that work, by the driver's names for them.
#[derive(Debug, Default)]
pub(super) struct Workers {
    pub(super) at_work: BTreeMap<String, AtWork>,
    /// Those whose beginning the store has refused, and which are shown as soon as it takes it.
    pub(super) unshown: BTreeMap<String, SubAgentStart>,
    /// Ends that the store has refused: the chats, and what is to be said in them.
    pub(super) unstored: Vec<(Arc<str>, Vec<StateAction>)>,
}

#[derive(Debug)]
pub(super) struct AtWork {
    pub(super) chat: Arc<str>,
    /// The sub-agent that made it.
    pub(super) parent: Option<String>,
    pub(super) transcript: Transcript,
    pub(super) started: Instant,
    /// Nobody waits for it: it outlives the turn.
    pub(super) background: bool,
}

impl Workers {
    /// The chat of a sub-agent that works.
    pub(super) fn chat(&self, agent: &str) -> Option<&Arc<str>> {
        self.at_work.get(agent).map(|worker| &worker.chat)
    }

    /// The sub-agent that works in a chat.
    pub(super) fn in_chat(&self, chat: &str) -> Option<&str> {
        self.at_work.iter().find(|(_, worker)| *worker.chat == *chat).map(|(agent, _)| agent.as_str())
    }

    /// The running turn of a sub-agent.
    pub(super) fn transcript(&mut self, agent: &str) -> Option<&mut Transcript> {
        self.at_work.get_mut(agent).map(|worker| &mut worker.transcript)
    }

    /// Whether a sub-agent outlives the turn.
    pub(super) fn goes_on(&self, agent: &str) -> bool {
        self.at_work.get(agent).is_some_and(|worker| worker.background)
    }

    /// Nobody waits for a sub-agent any more, nor for those that it has made.
    pub(super) fn let_go(&mut self, agent: &str) {
        for agent in self.with_descendants(agent) {
            if let Some(worker) = self.at_work.get_mut(&agent) {
                worker.background = true;
            }
        }
    }

    /// A sub-agent behind all those that it has made, directly or not.
    pub(super) fn with_descendants(&self, agent: &str) -> Vec<String> {
        let mut found = vec![agent.to_owned()];
        let mut at = 0;
        while let Some(parent) = found.get(at).cloned() {
            let children = self.at_work.iter().filter(|(_, worker)| worker.parent.as_ref() == Some(&parent));
            let children: Vec<_> = children.map(|(id, _)| id.clone()).filter(|id| !found.contains(id)).collect();
            found.extend(children);
            at += 1;
        }
        found.reverse();
        found
    }
}

impl Actor {
    pub(super) async fn sub_agent(&mut self, agent: SubAgentId, event: SubAgentEvent) {
        match event {
            SubAgentEvent::Started(start) => self.worker_started(agent.0, start).await,
            SubAgentEvent::Did(event) => self.worker_did(&agent.0, *event).await,
            SubAgentEvent::Finished(outcome) => self.worker_finished(&agent.0, outcome).await,
        }
    }

    pub(super) async fn worker_started(&mut self, agent: String, start: SubAgentStart) {
        let (home, background) = match &start.parent {
            Some(parent) => match self.workers.at_work.get(&parent.0) {
                Some(parent) => (Home::Worker(Arc::clone(&parent.chat)), parent.background),
                None => return,
            },
            // What begins behind the turn's end belongs to what was cancelled.
            None if self.machine.step::<Failure>(TurnInput::Output).contains(&Effect::Show) => (Home::Chat, false),
            None => return,
        };
        let chat: Arc<str> = uri::worker_chat_uri(&self.session.uri, &start.call).into();
        let known = self.session.worker(&chat).map(|worker| worker.chat.active_turn.is_some());
        if known == Some(true) || self.session.workers.len() >= worker::MAX_WORKERS {
            tracing::warn!(session = &*self.session.uri, "a sub-agent works unseen");
            return;
        }
        let now = self.host.clock.now_text();
        let title = title_from(if start.description.is_empty() { start.prompt.expose() } else { &start.description });
        let mut change = Change::default();
        if known.is_none() {
            let made_in = self.channel(&home);
            let summary = worker::line(&chat, title.clone(), &made_in, &start.call, now.clone());
            change = change.session(StateAction::SessionChatAdded(SessionChatAddedAction { summary }));
        }
        let turn = Uuid::new_v4().to_string();
        let begun = StateAction::ChatTurnStarted(ChatTurnStartedAction {
            turn_id: turn.clone(),
            started_at: now,
            message: message(start.prompt.expose().to_owned(), MessageKind::Tool),
            queued_message_id: None,
            meta: None,
        });
        if let Err(error) = self.commit(change.on(Home::Worker(Arc::clone(&chat)), begun, None)).await {
            tracing::error!(session = &*self.session.uri, %error, "a sub-agent cannot be shown yet");
            self.workers.unshown.insert(agent, start);
            return;
        }
        let link = WorkerLink { chat: chat.to_string(), description: title, kind: start.kind };
        let parent = start.parent.map(|parent| parent.0);
        let mut output = Output::default();
        if let Some(transcript) = self.transcript_of(parent.as_deref()) {
            transcript.made_worker(&start.call, link, &mut output);
        }
        self.flush_on(&home, &mut output).await;
        let transcript = Transcript::of_worker(turn);
        let worker = AtWork { chat: Arc::clone(&chat), parent, transcript, started: Instant::now(), background };
        self.workers.at_work.insert(agent, worker);
        self.host.workers_begun.send_modify(|begun| *begun += 1);
        self.project().await;
    }

    async fn worker_did(&mut self, agent: &str, event: DriverEvent) {
        if let Some(start) = self.workers.unshown.remove(agent) {
            self.worker_started(agent.to_owned(), start).await;
        }
        let over = self.waits_although_over(&event);
        let Some(worker) = self.workers.at_work.get_mut(agent) else { return };
        let home = Home::Worker(Arc::clone(&worker.chat));
        let mut output = Output::default();
        worker.transcript.show(event, &mut output);
        self.flush_on(&home, &mut output).await;
        if let Some(call) = over {
            self.overtaken(&call).await;
        }
    }

    /// The running turn of a sub-agent, or of the chat itself.
    pub(super) fn transcript_of(&mut self, agent: Option<&str>) -> Option<&mut Transcript> {
        match agent {
            Some(agent) => self.workers.transcript(agent),
            None => self.transcript.as_mut(),
        }
    }

    /// Where a sub-agent, or the agent itself, is shown.
    pub(super) fn home_of(&self, agent: Option<&str>) -> Home {
        let chat = agent.and_then(|agent| self.workers.chat(agent));
        chat.map_or(Home::Chat, |chat| Home::Worker(Arc::clone(chat)))
    }
}
