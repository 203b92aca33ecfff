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

#[cfg(test)]
mod tests {
    use ahp_types::StringOrMarkdown;
    use ahp_types::state::{ChatState, ResponsePart, ToolCallState, ToolResultContent, TurnState};
    use hostler_driver::{
        ApiErrorCategory, PartId, PartKind, Prompt, SubAgentId, ToolDisplay, ToolOutcome, TurnFailure,
    };
    use serde_json::value::RawValue;
    use uuid::Uuid;

    use super::*;

    const NOW: &str = "2026-02-02T00:00:00.000Z";

    fn session() -> Session {
        Session::provisional("claude:/s".into(), "claude".to_owned(), Vec::new(), None, NOW.to_owned())
    }

    fn told(said: Said, events: Vec<DriverEvent>) -> ToldTurn {
        let at = |second: u8| Some(format!("2026-01-01T00:00:{second:02}.000Z"));
        ToldTurn { id: Uuid::from_u128(7), said, began: at(1), ended: at(4), events }
    }

    fn person(text: &str, attached: usize) -> Said {
        Said::Person { text: text.to_owned(), attached }
    }

    fn text(part: u64, text: &str) -> [DriverEvent; 2] {
        let part = PartId(part);
        [DriverEvent::PartStarted { part, kind: PartKind::Text }, DriverEvent::Delta { part, text: text.to_owned() }]
    }

    fn call(id: &str) -> [DriverEvent; 2] {
        let input: Arc<RawValue> = RawValue::from_string("{}".to_owned()).unwrap().into();
        let (id, display) = (id.to_owned(), ToolDisplay::default());
        [
            DriverEvent::ToolStarted { id: id.clone(), name: "Agent".to_owned(), display: display.clone() },
            DriverEvent::ToolReady { id, input, display },
        ]
    }

    fn finished(id: &str) -> DriverEvent {
        let (id, output) = (id.to_owned(), "ok".to_owned());
        DriverEvent::ToolFinished { id, outcome: ToolOutcome::Succeeded, output, edit: None }
    }

    fn sub_agent(agent: &str, event: SubAgentEvent) -> DriverEvent {
        DriverEvent::SubAgent { agent: SubAgentId(agent.to_owned()), event }
    }

    fn started(call: &str, parent: Option<&str>) -> SubAgentEvent {
        SubAgentEvent::Started(SubAgentStart {
            call: call.to_owned(),
            parent: parent.map(|parent| SubAgentId(parent.to_owned())),
            kind: Some("explorer".to_owned()),
            description: format!("for {call}"),
            prompt: Prompt::new("look"),
        })
    }

    fn done() -> DriverEvent {
        DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })
    }

    /// The session with a turn, every action of which has moved it.
    fn with(told: ToldTurn) -> Session {
        let mut session = session();
        for (channel, action) in retell(&session.clone(), told, NOW).actions {
            let outcome = session.apply(&channel, &action);
            assert_eq!(outcome, crate::state::Outcome::Applied, "{action:?}");
        }
        assert!(session.chats().all(|(_, chat, _)| chat.active_turn.is_none()), "a record is over");
        session
    }

    fn notes(chat: &ChatState) -> Vec<&str> {
        let parts = chat.turns.iter().flat_map(|turn| &turn.response_parts);
        parts
            .filter_map(|part| match part {
                ResponsePart::SystemNotification(note) => match &note.content {
                    StringOrMarkdown::Plain(text) => Some(text.as_str()),
                    StringOrMarkdown::Markdown { markdown } => Some(markdown.as_str()),
                },
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_turn_has_its_words_its_times_and_its_id() {
        let session = with(told(person("hi", 0), [text(1, "yes").to_vec(), vec![done()]].concat()));
        let turn = &session.chat.turns[0];
        assert_eq!((turn.id.as_str(), turn.state), ("00000000-0000-0000-0000-000000000007", TurnState::Complete));
        assert_eq!((turn.started_at.as_deref(), turn.duration), (Some("2026-01-01T00:00:01.000Z"), Some(3_000)));
        assert_eq!((turn.message.text.as_str(), turn.message.origin.kind.clone()), ("hi", MessageKind::User));
        assert!(matches!(&turn.response_parts[..], [ResponsePart::Markdown(part)] if part.content == "yes"));
        assert_eq!(session.chat.modified_at, "2026-01-01T00:00:04.000Z");
    }

    #[test]
    fn what_was_attached_is_named_and_what_woke_the_agent_is_no_person() {
        let session = with(told(person("look", 2), vec![done()]));
        assert_eq!(notes(&session.chat), ["2 attachments came with this message; the agent has them."]);
        let session = with(told(Said::Agent("The build is over.".to_owned()), vec![done()]));
        let message = &session.chat.turns[0].message;
        assert_eq!(
            (message.text.as_str(), message.origin.kind.clone()),
            ("The build is over.", MessageKind::SystemNotification)
        );
    }

    #[test]
    fn times_that_make_no_sense_harm_nobody() {
        for (began, ended, duration) in [
            (None, None, 0),
            (Some("yesterday"), Some("2026-01-01T00:00:00Z"), 0),
            (Some("2026-01-01T00:00:09Z"), Some("2026-01-01T00:00:01Z"), 0),
            (Some("2026-01-01T00:00:00Z"), Some("soon"), 0),
            (Some("-009999-01-01T00:00:00Z"), Some("9999-01-01T00:00:00Z"), MAX_DURATION),
        ] {
            let mut turn = told(person("hi", 0), vec![done()]);
            (turn.began, turn.ended) = (began.map(str::to_owned), ended.map(str::to_owned));
            assert_eq!(with(turn).chat.turns[0].duration, Some(duration), "{began:?} {ended:?}");
        }
    }

    #[test]
    fn a_turn_that_has_no_end_was_cut_off_and_one_that_failed_says_why() {
        assert_eq!(with(told(person("hi", 0), text(1, "I wa").to_vec())).chat.turns[0].state, TurnState::Cancelled);
        let failure =
            TurnFailure { category: ApiErrorCategory::Overloaded, message: "no horses".to_owned(), status: Some(529) };
        let failed = with(told(person("hi", 0), vec![DriverEvent::TurnEnded(TurnOutcome::Failed(failure))]));
        let turn = &failed.chat.turns[0];
        assert_eq!(turn.state, TurnState::Error);
        assert!(matches!(turn.response_parts.last(), Some(ResponsePart::Error(part)) if part.resumable == Some(true)));
    }

    #[test]
    fn sub_agents_have_chats_and_theirs_have_chats_as_well() {
        let events = [
            call("c1").to_vec(),
            vec![sub_agent("a", started("c1", None))],
            call("c2").into_iter().map(|event| sub_agent("a", SubAgentEvent::Did(Box::new(event)))).collect(),
            vec![sub_agent("b", started("c2", Some("a")))],
            text(9, "found").into_iter().map(|event| sub_agent("b", SubAgentEvent::Did(Box::new(event)))).collect(),
            // Its parent is over before anybody says that it is.
            vec![sub_agent("a", SubAgentEvent::Finished(SubAgentOutcome::Completed)), finished("c1")],
            call("c3").to_vec(),
            vec![sub_agent("c", started("c3", None))],
            vec![sub_agent("c", SubAgentEvent::Finished(SubAgentOutcome::Failed("it fell".to_owned())))],
            call("c4").to_vec(),
            vec![sub_agent("d", started("c4", None)), sub_agent("nobody", started("c5", Some("stranger"))), done()],
        ];
        let session = with(told(person("go", 0), events.concat()));
        let workers: Vec<_> = session
            .workers
            .iter()
            .map(|worker| (worker.chat.title.as_str(), worker.chat.turns[0].state, worker.chat.turns.len()))
            .collect();
        let (complete, cancelled, error) = (TurnState::Complete, TurnState::Cancelled, TurnState::Error);
        let expected =
            [("for c1", complete, 1), ("for c2", cancelled, 1), ("for c3", error, 1), ("for c4", cancelled, 1)];
        assert_eq!(workers, expected);
        let failed = session.workers[2].chat.turns[0].response_parts.last();
        assert!(matches!(failed, Some(ResponsePart::Error(part)) if part.resumable == Some(false)));
        // The call names the chat, and the chat the call.
        let Some(ResponsePart::ToolCall(part)) = session.chat.turns[0].response_parts.first() else { panic!() };
        let ToolCallState::Completed(part) = &part.tool_call else { panic!("{part:?}") };
        let link = part.content.iter().flatten().find_map(|content| match content {
            ToolResultContent::Subagent(link) => Some(link.resource.as_str()),
            _ => None,
        });
        assert_eq!(link, Some(&*session.workers[0].uri));
        assert_eq!(session.session.chats.len(), 5);
    }
}
