//! Sub-agents at work: each has a chat of its own, which the session's one writer moves like the default chat.
//!
//! What their parent waits for ends with the turn; what goes on in the background ends by itself, or with the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ahp_types::StateAction;
use ahp_types::actions::{ChatTurnStartedAction, SessionChatAddedAction};
use ahp_types::state::MessageKind;
use hostler_driver::{DriverEvent, SubAgentEvent, SubAgentId, SubAgentOutcome, SubAgentStart, TurnOutcome};
use uuid::Uuid;

use super::Actor;
use super::change::{Change, Home};
use crate::clock::ClockExt as _;
use crate::session::{message, title_from};
use crate::transcript::{Failure, Output, Transcript, WorkerLink, error};
use crate::turn::{Effect, End, Input as TurnInput};
use crate::{uri, worker};

/// How many chats of sub-agents a session holds; further ones work unseen.
const MAX_WORKERS: usize = 1_000;

/// The sub-agents that work, by the driver's names for them.
#[derive(Debug, Default)]
pub(super) struct Workers {
    at_work: BTreeMap<String, AtWork>,
}

#[derive(Debug)]
struct AtWork {
    chat: Arc<str>,
    /// The sub-agent that made it.
    parent: Option<String>,
    transcript: Transcript,
    started: Instant,
    /// Nobody waits for it: it outlives the turn.
    background: bool,
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
    fn with_descendants(&self, agent: &str) -> Vec<String> {
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

    async fn worker_started(&mut self, agent: String, start: SubAgentStart) {
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
        if known == Some(true) || self.session.workers.len() >= MAX_WORKERS {
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
            tracing::error!(session = &*self.session.uri, %error, "a sub-agent cannot be shown");
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

    async fn worker_finished(&mut self, agent: &str, outcome: SubAgentOutcome) {
        let end = match outcome {
            SubAgentOutcome::Completed => End::Agent(TurnOutcome::Completed { empty: false }),
            SubAgentOutcome::Failed(message) => {
                End::Failed(Failure { error_type: "subAgent".to_owned(), message, stderr: None })
            }
            SubAgentOutcome::Stopped => End::Cancelled,
        };
        let mut ends: Vec<_> =
            self.workers.with_descendants(agent).into_iter().map(|id| (id, End::Cancelled)).collect();
        if let Some((_, last)) = ends.last_mut() {
            *last = end;
        }
        self.end_workers(ends).await;
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

    // ── They end ──────────────────────────────────────────────────────────────────────────────────────────────────

    /// The turn ends, and with it the sub-agents that it waited for. They are forgotten once that is stored.
    pub(super) fn end_waited_for(&mut self, mut change: Change) -> Change {
        let waited_for = self.workers.at_work.values_mut().filter(|worker| !worker.background);
        for worker in waited_for {
            change = worker.end(End::Cancelled, change);
        }
        change
    }

    /// The end of the turn is stored.
    pub(super) fn forget_waited_for(&mut self) {
        self.workers.at_work.retain(|_, worker| worker.background);
    }

    /// The process is gone, and all sub-agents with it.
    pub(super) async fn no_workers(&mut self) {
        let ends = self.workers.at_work.keys().map(|agent| (agent.clone(), End::Failed(interrupted()))).collect();
        self.end_workers(ends).await;
    }

    /// The turns of sub-agents that were running when the host died end now.
    pub(super) async fn end_interrupted_workers(&mut self) {
        let mut change = Change::default();
        let mut any = false;
        for worker in &self.session.workers {
            if let Some(turn) = &worker.chat.active_turn {
                any = true;
                let end = not_resumable(error(turn.id.clone(), 0, interrupted()));
                change = change.on(Home::Worker(Arc::clone(&worker.uri)), end, None);
            }
        }
        if !any {
            return;
        }
        let change = self.nothing_needed(change);
        if let Err(error) = self.commit(change).await {
            tracing::error!(%error, "interrupted sub-agents could not be ended");
        }
    }

    /// Stores and publishes ends. Whoever of them waits for a person waits no longer.
    async fn end_workers(&mut self, ends: Vec<(String, End<Failure>)>) {
        let mut change = Change::default();
        let mut ended = Vec::new();
        for (agent, end) in ends {
            if let Some(mut worker) = self.workers.at_work.remove(&agent) {
                change = worker.end(end, change);
                ended.push((agent, worker.chat));
            }
        }
        if ended.is_empty() {
            return;
        }
        for (_, chat) in &ended {
            change = self.nothing_needed_in(chat, change);
        }
        if let Err(error) = self.commit(change).await {
            tracing::error!(session = &*self.session.uri, %error, "the end of a sub-agent could not be stored");
        }
        for (agent, _) in &ended {
            self.clear_desk_of(agent).await;
        }
        self.project().await;
    }
}

impl AtWork {
    fn end(&mut self, end: End<Failure>, change: Change) -> Change {
        let duration = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut output = Output::default();
        self.transcript.end(end, duration, &mut output);
        output.actions = output.actions.into_iter().map(not_resumable).collect();
        change.output_on(&Home::Worker(Arc::clone(&self.chat)), output)
    }
}

fn interrupted() -> Failure {
    Failure {
        error_type: "interrupted".to_owned(),
        message: "The agent ended while this sub-agent was at work.".to_owned(),
        stderr: None,
    }
}

/// A sub-agent is its parent's: nobody else can let it go on.
fn not_resumable(mut action: StateAction) -> StateAction {
    if let StateAction::ChatError(error) = &mut action {
        error.part.resumable = Some(false);
    }
    action
}
