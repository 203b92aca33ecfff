//! A turn of a record as clients see it: the actions that the turn would have been, had this host led it. Pure.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::{ChatTurnStartedAction, SessionChatAddedAction};
use ahp_types::state::MessageKind;
use hostler_driver::{DriverEvent, Said, SubAgentEvent, SubAgentOutcome, SubAgentStart, ToldTurn, TurnOutcome};
use hostler_store::Blob;
use jiff::Timestamp;

use crate::session::{Session, message, title_from};
use crate::state::{MAX_DURATION, is_start};
use crate::transcript::{Failure, Output, Transcript, WorkerLink, not_resumable};
use crate::turn::End;
use crate::{uri, worker};

/// A turn of a record, as what is said about it.
#[derive(Debug, Default)]
pub(crate) struct Retold {
    /// Each with its channel, in order.
    pub(crate) actions: Vec<(Arc<str>, StateAction)>,
    /// The contents that they name.
    pub(crate) blobs: Vec<Blob>,
}

/// Says what a told turn would have been in a session. Where the record has no time, it was `otherwise`.
pub(crate) fn retell(session: &Session, told: ToldTurn, otherwise: &str) -> Retold {
    let began = told.began.filter(|began| is_start(began)).unwrap_or_else(|| otherwise.to_owned());
    let duration = told.ended.map_or(0, |ended| between(&began, &ended));
    let turn = told.id.to_string();
    let mut retelling = Retelling {
        session,
        transcript: Transcript::new(turn.clone()),
        workers: BTreeMap::new(),
        made: HashSet::new(),
        turn,
        began,
        duration,
        retold: Retold::default(),
    };
    retelling.begin(told.said);
    let mut outcome = TurnOutcome::Interrupted;
    for event in told.events {
        match event {
            DriverEvent::TurnEnded(end) => outcome = end,
            DriverEvent::SubAgent { agent, event } => retelling.sub_agent(agent.0, event),
            event => retelling.show(event),
        }
    }
    retelling.end(outcome)
}

struct Retelling<'a> {
    session: &'a Session,
    transcript: Transcript,
    /// The sub-agents that work, by the driver's names for them.
    workers: BTreeMap<String, AtWork>,
    /// The chats that this turn has made.
    made: HashSet<Arc<str>>,
    turn: String,
    began: String,
    /// Of the turn; a record does not say how long its sub-agents took.
    duration: i64,
    retold: Retold,
}

struct AtWork {
    chat: Arc<str>,
    parent: Option<String>,
    transcript: Transcript,
}

impl Retelling<'_> {
    fn begin(&mut self, said: Said) {
        let (text, kind, attached) = match said {
            Said::Person { text, attached } => (text, MessageKind::User, attached),
            Said::Agent(reason) => (reason, MessageKind::SystemNotification, 0),
        };
        let chat = Arc::clone(&self.session.chat_uri);
        self.say(&chat, started(self.turn.clone(), self.began.clone(), text, kind));
        if attached > 0 {
            let mut output = Output::default();
            self.transcript.notice(attachments(attached), &mut output);
            self.put(&chat, output);
        }
    }

    fn show(&mut self, event: DriverEvent) {
        let mut output = Output::default();
        self.transcript.show(event, &mut output);
        self.put(&Arc::clone(&self.session.chat_uri), output);
    }

    fn sub_agent(&mut self, agent: String, event: SubAgentEvent) {
        match event {
            SubAgentEvent::Started(start) => self.worker_started(agent, start),
            SubAgentEvent::Did(event) => {
                let Some(worker) = self.workers.get_mut(&agent) else { return };
                let (chat, mut output) = (Arc::clone(&worker.chat), Output::default());
                worker.transcript.show(*event, &mut output);
                self.put(&chat, output);
            }
            SubAgentEvent::Finished(outcome) => {
                let children = self.workers.iter().filter(|(_, worker)| worker.parent.as_ref() == Some(&agent));
                let children: Vec<_> = children.map(|(id, _)| id.clone()).collect();
                for child in children {
                    self.worker_ends(&child, End::Cancelled);
                }
                self.worker_ends(
                    &agent,
                    match outcome {
                        SubAgentOutcome::Completed => End::Agent(TurnOutcome::Completed { empty: false }),
                        SubAgentOutcome::Failed(message) => End::Failed(Failure::of_sub_agent(message)),
                        SubAgentOutcome::Stopped => End::Cancelled,
                    },
                );
            }
        }
    }

    fn worker_started(&mut self, agent: String, start: SubAgentStart) {
        let parent = start.parent.map(|parent| parent.0);
        let made_in = match &parent {
            Some(parent) => match self.workers.get(parent) {
                Some(parent) => Arc::clone(&parent.chat),
                None => return,
            },
            None => Arc::clone(&self.session.chat_uri),
        };
        let chat: Arc<str> = uri::worker_chat_uri(&self.session.uri, &start.call).into();
        let known = self.session.worker(&chat).is_some() || self.made.contains(&chat);
        let chats = self.session.workers.len() + self.made.len();
        if self.workers.values().any(|worker| worker.chat == chat) || (!known && chats >= worker::MAX_WORKERS) {
            return;
        }
        let title = title_from(if start.description.is_empty() { start.prompt.expose() } else { &start.description });
        if !known {
            let summary = worker::line(&chat, title.clone(), &made_in, &start.call, self.began.clone());
            let session = Arc::clone(&self.session.uri);
            self.say(&session, StateAction::SessionChatAdded(SessionChatAddedAction { summary }));
            self.made.insert(Arc::clone(&chat));
        }
        // Unique in the session, and the same whenever the record is read.
        let turn = format!("{}:{}", self.turn, start.call);
        let prompt = start.prompt.expose().to_owned();
        self.say(&chat, started(turn.clone(), self.began.clone(), prompt, MessageKind::Tool));
        let link = WorkerLink { chat: chat.to_string(), description: title, kind: start.kind };
        let mut output = Output::default();
        match parent.as_ref().and_then(|parent| self.workers.get_mut(parent)) {
            Some(parent) => parent.transcript.made_worker(&start.call, link, &mut output),
            None => self.transcript.made_worker(&start.call, link, &mut output),
        }
        self.put(&made_in, output);
        self.workers.insert(agent, AtWork { chat, parent, transcript: Transcript::of_worker(turn) });
    }

    fn worker_ends(&mut self, agent: &str, end: End<Failure>) {
        let Some(mut worker) = self.workers.remove(agent) else { return };
        let mut output = Output::default();
        worker.transcript.end(end, self.duration, &mut output);
        output.actions = output.actions.into_iter().map(not_resumable).collect();
        self.put(&worker.chat, output);
    }

    /// The turn is over, and so is whatever it has made: a record is looked at afterwards.
    fn end(mut self, outcome: TurnOutcome) -> Retold {
        let mut output = Output::default();
        self.transcript.end(End::Agent(outcome), self.duration, &mut output);
        self.put(&Arc::clone(&self.session.chat_uri), output);
        let left: Vec<_> = self.workers.keys().cloned().collect();
        for agent in left {
            self.worker_ends(&agent, End::Cancelled);
        }
        self.retold
    }

    fn put(&mut self, channel: &Arc<str>, output: Output) {
        self.retold.blobs.extend(output.blobs);
        // What somebody did in a moment that is over is no news.
        let said = output.actions.into_iter().filter(|said| !matches!(said, StateAction::ChatActivityChanged(_)));
        self.retold.actions.extend(said.map(|said| (Arc::clone(channel), said)));
    }

    fn say(&mut self, channel: &Arc<str>, action: StateAction) {
        self.retold.actions.push((Arc::clone(channel), action));
    }
}

fn started(turn_id: String, started_at: String, text: String, kind: MessageKind) -> StateAction {
    StateAction::ChatTurnStarted(ChatTurnStartedAction {
        turn_id,
        started_at,
        message: message(text, kind),
        queued_message_id: None,
        meta: None,
    })
}

/// What stands where a person's pictures and documents would be shown.
fn attachments(count: usize) -> String {
    match count {
        1 => "1 attachment came with this message; the agent has it.".to_owned(),
        _ => format!("{count} attachments came with this message; the agent has them."),
    }
}

/// How many milliseconds lie between two times; none if the record runs backwards or cannot be read.
fn between(began: &str, ended: &str) -> i64 {
    let time = |text: &str| text.parse::<Timestamp>().map(|at| at.as_millisecond()).ok();
    let elapsed = time(began).zip(time(ended)).map_or(0, |(began, ended)| ended.saturating_sub(began));
    elapsed.clamp(0, MAX_DURATION)
}
