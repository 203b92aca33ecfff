//! Replays a turn of a transcript: maps it to the actions that it would have been if this host had run it. Pure.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::{ChatTurnStartedAction, SessionChatAddedAction};
use ahp_types::state::MessageKind;
use hostler_driver::{DriverEvent, LoadedTurn, SubAgentEvent, SubAgentOutcome, SubAgentStart, TurnOrigin, TurnOutcome};
use hostler_store::Blob;
use jiff::Timestamp;

use crate::sessions::action_mapper::{ActionBuffer, ActionMapper, SubAgentLink, TurnErrorDetails, mark_not_resumable};
use crate::sessions::session::{Session, new_message, title_from_text};
use crate::sessions::state::{MAX_TURN_DURATION_MS, is_valid_start_time};
use crate::sessions::sub_agent_chat;
use crate::sessions::turn::TurnEndReason;
use crate::uri;

/// The actions of a transcript's turn.
#[derive(Debug, Default)]
pub(crate) struct ReplayedTurn {
    /// The actions with their channels, in order.
    pub(crate) actions: Vec<(Arc<str>, StateAction)>,
    /// The contents that they refer to.
    pub(crate) blobs: Vec<Blob>,
}

/// Maps a loaded turn to actions on a session. `otherwise` replaces times that the transcript lacks.
pub(crate) fn replay_turn(session: &Session, loaded: LoadedTurn, otherwise: &str) -> ReplayedTurn {
    let began = loaded.started_at.filter(|began| is_valid_start_time(began)).unwrap_or_else(|| otherwise.to_owned());
    let duration = loaded.ended_at.map_or(0, |ended| elapsed_ms(&began, &ended));
    let turn = loaded.id.to_string();
    let mut replay = TurnReplayer {
        session,
        mapper: ActionMapper::new(turn.clone()),
        sub_agents: BTreeMap::new(),
        created_chats: HashSet::new(),
        turn,
        started_at: began,
        duration,
        output: ReplayedTurn::default(),
    };
    replay.start_turn(loaded.origin);
    let mut outcome = TurnOutcome::Interrupted;
    for event in loaded.events {
        match event {
            DriverEvent::TurnEnded(end) => outcome = end,
            DriverEvent::SubAgent { agent, event } => replay.apply_sub_agent_event(agent.0, event),
            event => replay.apply_event(event),
        }
    }
    replay.end_turn(outcome)
}

struct TurnReplayer<'a> {
    session: &'a Session,
    mapper: ActionMapper,
    /// The running sub-agents, by the driver's ids.
    sub_agents: BTreeMap<String, ReplayedSubAgent>,
    /// The chats that this turn has created.
    created_chats: HashSet<Arc<str>>,
    turn: String,
    started_at: String,
    /// Duration of the turn; a transcript does not contain the durations of sub-agents.
    duration: i64,
    output: ReplayedTurn,
}

struct ReplayedSubAgent {
    chat: Arc<str>,
    parent: Option<String>,
    mapper: ActionMapper,
}

impl TurnReplayer<'_> {
    fn start_turn(&mut self, said: TurnOrigin) {
        let (text, kind, attached) = match said {
            TurnOrigin::User { text, attachment_count: attached } => (text, MessageKind::User, attached),
            TurnOrigin::Agent(reason) => (reason, MessageKind::SystemNotification, 0),
        };
        let chat = Arc::clone(&self.session.chat_uri);
        self.push_action(&chat, turn_started_action(self.turn.clone(), self.started_at.clone(), text, kind));
        if attached > 0 {
            let mut output = ActionBuffer::default();
            self.mapper.add_notice(attachments_notice(attached), &mut output);
            self.push_output(&chat, output);
        }
    }

    fn apply_event(&mut self, event: DriverEvent) {
        let mut output = ActionBuffer::default();
        self.mapper.map_event(event, &mut output);
        self.push_output(&Arc::clone(&self.session.chat_uri), output);
    }

    fn apply_sub_agent_event(&mut self, agent: String, event: SubAgentEvent) {
        match event {
            SubAgentEvent::Started(start) => self.start_sub_agent(agent, start),
            SubAgentEvent::Activity(event) => {
                let Some(worker) = self.sub_agents.get_mut(&agent) else { return };
                let (chat, mut output) = (Arc::clone(&worker.chat), ActionBuffer::default());
                worker.mapper.map_event(*event, &mut output);
                self.push_output(&chat, output);
            }
            SubAgentEvent::Finished(outcome) => {
                let children = self.sub_agents.iter().filter(|(_, worker)| worker.parent.as_ref() == Some(&agent));
                let children: Vec<_> = children.map(|(id, _)| id.clone()).collect();
                for child in children {
                    self.end_sub_agent(&child, TurnEndReason::Cancelled);
                }
                self.end_sub_agent(
                    &agent,
                    match outcome {
                        SubAgentOutcome::Completed => {
                            TurnEndReason::AgentOutcome(TurnOutcome::Completed { empty: false })
                        }
                        SubAgentOutcome::Failed(message) => {
                            TurnEndReason::Failed(TurnErrorDetails::from_sub_agent(message))
                        }
                        SubAgentOutcome::Stopped => TurnEndReason::Cancelled,
                    },
                );
            }
        }
    }

    fn start_sub_agent(&mut self, agent: String, start: SubAgentStart) {
        let parent = start.parent_id.map(|parent| parent.0);
        let made_in = match &parent {
            Some(parent) => match self.sub_agents.get(parent) {
                Some(parent) => Arc::clone(&parent.chat),
                None => return,
            },
            None => Arc::clone(&self.session.chat_uri),
        };
        let chat: Arc<str> = uri::sub_agent_chat_uri(&self.session.uri, &start.call_id).into();
        let known = self.session.sub_agent_chat(&chat).is_some() || self.created_chats.contains(&chat);
        let chats = self.session.sub_agent_chats.len() + self.created_chats.len();
        if self.sub_agents.values().any(|worker| worker.chat == chat)
            || (!known && chats >= sub_agent_chat::MAX_SUB_AGENT_CHATS)
        {
            return;
        }
        let title =
            title_from_text(if start.description.is_empty() { start.prompt.expose() } else { &start.description });
        if !known {
            let summary = sub_agent_chat::sub_agent_chat_summary(
                &chat,
                title.clone(),
                &made_in,
                &start.call_id,
                self.started_at.clone(),
            );
            let session = Arc::clone(&self.session.uri);
            self.push_action(&session, StateAction::SessionChatAdded(SessionChatAddedAction { summary }));
            self.created_chats.insert(Arc::clone(&chat));
        }
        // Unique in the session, and stable over repeated reads.
        let turn = format!("{}:{}", self.turn, start.call_id);
        let prompt = start.prompt.expose().to_owned();
        self.push_action(&chat, turn_started_action(turn.clone(), self.started_at.clone(), prompt, MessageKind::Tool));
        let link = SubAgentLink { chat: chat.to_string(), description: title, kind: start.kind };
        let mut output = ActionBuffer::default();
        match parent.as_ref().and_then(|parent| self.sub_agents.get_mut(parent)) {
            Some(parent) => parent.mapper.link_sub_agent(&start.call_id, link, &mut output),
            None => self.mapper.link_sub_agent(&start.call_id, link, &mut output),
        }
        self.push_output(&made_in, output);
        self.sub_agents.insert(agent, ReplayedSubAgent { chat, parent, mapper: ActionMapper::for_sub_agent(turn) });
    }

    fn end_sub_agent(&mut self, agent: &str, end: TurnEndReason<TurnErrorDetails>) {
        let Some(mut worker) = self.sub_agents.remove(agent) else { return };
        let mut output = ActionBuffer::default();
        worker.mapper.end_turn(end, self.duration, &mut output);
        output.actions = output.actions.into_iter().map(mark_not_resumable).collect();
        self.push_output(&worker.chat, output);
    }

    /// Ends the turn and its sub-agents, because nothing of a replayed turn is still running.
    fn end_turn(mut self, outcome: TurnOutcome) -> ReplayedTurn {
        let mut output = ActionBuffer::default();
        self.mapper.end_turn(TurnEndReason::AgentOutcome(outcome), self.duration, &mut output);
        self.push_output(&Arc::clone(&self.session.chat_uri), output);
        let left: Vec<_> = self.sub_agents.keys().cloned().collect();
        for agent in left {
            self.end_sub_agent(&agent, TurnEndReason::Cancelled);
        }
        self.output
    }

    fn push_output(&mut self, channel: &Arc<str>, output: ActionBuffer) {
        self.output.blobs.extend(output.blobs);
        // Activities of a past turn are left out.
        let said = output.actions.into_iter().filter(|said| !matches!(said, StateAction::ChatActivityChanged(_)));
        self.output.actions.extend(said.map(|said| (Arc::clone(channel), said)));
    }

    fn push_action(&mut self, channel: &Arc<str>, action: StateAction) {
        self.output.actions.push((Arc::clone(channel), action));
    }
}

fn turn_started_action(turn_id: String, started_at: String, text: String, kind: MessageKind) -> StateAction {
    StateAction::ChatTurnStarted(ChatTurnStartedAction {
        turn_id,
        started_at,
        message: new_message(text, kind),
        queued_message_id: None,
        meta: None,
    })
}

/// The notice that replaces the attachments of a person's message.
fn attachments_notice(count: usize) -> String {
    match count {
        1 => "This message has 1 attachment, which the agent received.".to_owned(),
        _ => format!("This message has {count} attachments, which the agent received."),
    }
}

/// Milliseconds between two times; 0 if they are reversed or unreadable.
fn elapsed_ms(began: &str, ended: &str) -> i64 {
    let time = |text: &str| text.parse::<Timestamp>().map(|at| at.as_millisecond()).ok();
    let elapsed = time(began).zip(time(ended)).map_or(0, |(began, ended)| ended.saturating_sub(began));
    elapsed.clamp(0, MAX_TURN_DURATION_MS)
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

    fn loaded(said: TurnOrigin, events: Vec<DriverEvent>) -> LoadedTurn {
        let at = |second: u8| Some(format!("2026-01-01T00:00:{second:02}.000Z"));
        LoadedTurn { id: Uuid::from_u128(7), origin: said, started_at: at(1), ended_at: at(4), events }
    }

    fn person(text: &str, attached: usize) -> TurnOrigin {
        TurnOrigin::User { text: text.to_owned(), attachment_count: attached }
    }

    fn text(part: u64, text: &str) -> [DriverEvent; 2] {
        let part = PartId(part);
        [
            DriverEvent::PartStarted { part, kind: PartKind::Text },
            DriverEvent::PartDelta { part, text: text.to_owned() },
        ]
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
            call_id: call.to_owned(),
            parent_id: parent.map(|parent| SubAgentId(parent.to_owned())),
            kind: Some("explorer".to_owned()),
            description: format!("for {call}"),
            prompt: Prompt::new("look"),
        })
    }

    fn done() -> DriverEvent {
        DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })
    }

    /// The session after a replayed turn, each action of which must have an effect.
    fn with(loaded: LoadedTurn) -> Session {
        let mut session = session();
        for (channel, action) in replay_turn(&session.clone(), loaded, NOW).actions {
            let outcome = session.apply(&channel, &action);
            assert_eq!(outcome, crate::sessions::state::ApplyOutcome::Applied, "{action:?}");
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
    fn replayed_turn_has_text_times_and_id() {
        let session = with(loaded(person("hi", 0), [text(1, "yes").to_vec(), vec![done()]].concat()));
        let turn = &session.chat.turns[0];
        assert_eq!((turn.id.as_str(), turn.state), ("00000000-0000-0000-0000-000000000007", TurnState::Complete));
        assert_eq!((turn.started_at.as_deref(), turn.duration), (Some("2026-01-01T00:00:01.000Z"), Some(3_000)));
        assert_eq!((turn.message.text.as_str(), turn.message.origin.kind.clone()), ("hi", MessageKind::User));
        assert!(matches!(&turn.response_parts[..], [ResponsePart::Markdown(part)] if part.content == "yes"));
        assert_eq!(session.chat.modified_at, "2026-01-01T00:00:04.000Z");
    }

    #[test]
    fn attachments_become_a_notice_and_agent_turns_have_no_user() {
        let session = with(loaded(person("look", 2), vec![done()]));
        assert_eq!(notes(&session.chat), ["This message has 2 attachments, which the agent received."]);
        let session = with(loaded(TurnOrigin::Agent("The build is over.".to_owned()), vec![done()]));
        let message = &session.chat.turns[0].message;
        assert_eq!(
            (message.text.as_str(), message.origin.kind.clone()),
            ("The build is over.", MessageKind::SystemNotification)
        );
    }

    #[test]
    fn invalid_timestamps_are_ignored() {
        for (began, ended, duration) in [
            (None, None, 0),
            (Some("yesterday"), Some("2026-01-01T00:00:00Z"), 0),
            (Some("2026-01-01T00:00:09Z"), Some("2026-01-01T00:00:01Z"), 0),
            (Some("2026-01-01T00:00:00Z"), Some("soon"), 0),
            (Some("-009999-01-01T00:00:00Z"), Some("9999-01-01T00:00:00Z"), MAX_TURN_DURATION_MS),
        ] {
            let mut turn = loaded(person("hi", 0), vec![done()]);
            (turn.started_at, turn.ended_at) = (began.map(str::to_owned), ended.map(str::to_owned));
            assert_eq!(with(turn).chat.turns[0].duration, Some(duration), "{began:?} {ended:?}");
        }
    }

    #[test]
    fn incomplete_turns_are_cancelled_and_failed_turns_have_an_error() {
        assert_eq!(with(loaded(person("hi", 0), text(1, "I wa").to_vec())).chat.turns[0].state, TurnState::Cancelled);
        let failure =
            TurnFailure { category: ApiErrorCategory::Overloaded, message: "no horses".to_owned(), status: Some(529) };
        let failed = with(loaded(person("hi", 0), vec![DriverEvent::TurnEnded(TurnOutcome::Failed(failure))]));
        let turn = &failed.chat.turns[0];
        assert_eq!(turn.state, TurnState::Error);
        assert!(matches!(turn.response_parts.last(), Some(ResponsePart::Error(part)) if part.resumable == Some(true)));
    }

    #[test]
    fn nested_sub_agents_have_chats() {
        let events = [
            call("c1").to_vec(),
            vec![sub_agent("a", started("c1", None))],
            call("c2").into_iter().map(|event| sub_agent("a", SubAgentEvent::Activity(Box::new(event)))).collect(),
            vec![sub_agent("b", started("c2", Some("a")))],
            text(9, "found")
                .into_iter()
                .map(|event| sub_agent("b", SubAgentEvent::Activity(Box::new(event))))
                .collect(),
            // The parent ends before its child's end is reported.
            vec![sub_agent("a", SubAgentEvent::Finished(SubAgentOutcome::Completed)), finished("c1")],
            call("c3").to_vec(),
            vec![sub_agent("c", started("c3", None))],
            vec![sub_agent("c", SubAgentEvent::Finished(SubAgentOutcome::Failed("it fell".to_owned())))],
            call("c4").to_vec(),
            vec![sub_agent("d", started("c4", None)), sub_agent("orphan", started("c5", Some("unknown"))), done()],
        ];
        let session = with(loaded(person("go", 0), events.concat()));
        let workers: Vec<_> = session
            .sub_agent_chats
            .iter()
            .map(|worker| (worker.state.title.as_str(), worker.state.turns[0].state, worker.state.turns.len()))
            .collect();
        let (complete, cancelled, error) = (TurnState::Complete, TurnState::Cancelled, TurnState::Error);
        let expected =
            [("for c1", complete, 1), ("for c2", cancelled, 1), ("for c3", error, 1), ("for c4", cancelled, 1)];
        assert_eq!(workers, expected);
        let failed = session.sub_agent_chats[2].state.turns[0].response_parts.last();
        assert!(matches!(failed, Some(ResponsePart::Error(part)) if part.resumable == Some(false)));
        // The call refers to the chat, and the chat to the call.
        let Some(ResponsePart::ToolCall(part)) = session.chat.turns[0].response_parts.first() else { panic!() };
        let ToolCallState::Completed(part) = &part.tool_call else { panic!("{part:?}") };
        let link = part.content.iter().flatten().find_map(|content| match content {
            ToolResultContent::Subagent(link) => Some(link.resource.as_str()),
            _ => None,
        });
        assert_eq!(link, Some(&*session.sub_agent_chats[0].uri));
        assert_eq!(session.session.chats.len(), 5);
    }
}
