//! Tests of image removal: events in, effects out. A requester is its name.

use hostler_driver::ResumeToken;

use super::*;
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::turn::{AgentPreparation, TurnInput};

use ImageRemovalEffect::{BlockAgent, Record, Refuse, Remove, UnblockAgent};

const ALL: ImageSelection = ImageSelection::All;

struct Fixture {
    removal: ImageRemoval<&'static str>,
    session: Session,
    machine: TurnMachine,
    has_background_work: bool,
    has_process: bool,
}

impl Fixture {
    /// A session with a conversation and without an agent.
    fn new() -> Self {
        let mut session = Session::provisional(
            "ahp-session:/test/1".into(),
            "test".to_owned(),
            Vec::new(),
            None,
            "2026-01-01T00:00:00Z".to_owned(),
        );
        session.resume_token = Some(ResumeToken("token".to_owned()));
        let machine = TurnMachine::default();
        Self { removal: ImageRemoval::default(), session, machine, has_background_work: false, has_process: false }
    }

    fn machine(&mut self, input: TurnInput<TurnErrorDetails>) {
        self.machine.step(input);
    }

    fn on(&mut self, event: ImageRemovalEvent<&'static str>) -> Vec<ImageRemovalEffect<&'static str>> {
        let Self { removal, session, machine, has_background_work, has_process } = self;
        let (has_background_work, has_process) = (*has_background_work, *has_process);
        removal.on(event, session, ImageRemovalFacts { machine, has_background_work, has_process })
    }

    fn request(&mut self, requester: &'static str) -> Vec<ImageRemovalEffect<&'static str>> {
        self.on(ImageRemovalEvent::Requested { images: ALL, requester })
    }
}

#[test]
fn images_are_removed_at_once_without_an_agent() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.request("a"), [BlockAgent]);
    fixture.machine(TurnInput::BlockOpening);
    assert_eq!(fixture.on(ImageRemovalEvent::AgentBlocked), [Remove(ALL)]);
    assert_eq!(fixture.request("b"), [Refuse("b", ImageRemovalError::InProgress)]);
    let effects = fixture.on(ImageRemovalEvent::Removed(Ok(3)));
    assert_eq!(effects, [Record { images: ALL, count: 3, requester: "a" }, UnblockAgent]);
}

#[test]
fn removal_waits_for_the_agent_to_close() {
    let mut fixture = Fixture { has_process: true, ..Fixture::new() };
    fixture.machine(TurnInput::Prewarm);
    fixture.machine(TurnInput::AgentOpened);
    assert_eq!(fixture.request("a"), [BlockAgent]);
    fixture.machine(TurnInput::RetireAgent);
    assert_eq!(fixture.on(ImageRemovalEvent::AgentBlocked), []);
    assert_eq!(fixture.on(ImageRemovalEvent::AgentEnded), [Remove(ALL)]);
    let error = || RemoveImagesError::Missing;
    let effects = fixture.on(ImageRemovalEvent::Removed(Err(error())));
    assert_eq!(effects, [Refuse("a", ImageRemovalError::Driver(error())), UnblockAgent]);
}

#[test]
fn agent_that_does_not_close_is_busy() {
    let mut fixture = Fixture { has_process: true, ..Fixture::new() };
    fixture.request("a");
    assert_eq!(fixture.on(ImageRemovalEvent::AgentBlocked), [Refuse("a", ImageRemovalError::AgentBusy)]);
}

#[test]
fn end_of_an_agent_without_a_request_lets_the_next_one_open() {
    assert_eq!(Fixture::new().on(ImageRemovalEvent::AgentEnded), [UnblockAgent]);
    assert_eq!(Fixture::new().on(ImageRemovalEvent::Removed(Ok(1))), [UnblockAgent]);
}

#[test]
fn removal_needs_an_idle_session_with_a_conversation() {
    let mut fixture = Fixture { has_background_work: true, ..Fixture::new() };
    assert_eq!(fixture.request("a"), [Refuse("a", ImageRemovalError::BackgroundWork)]);
    fixture.machine(TurnInput::Accepted { turn: "turn".to_owned(), preparation: AgentPreparation::None });
    assert_eq!(fixture.request("a"), [Refuse("a", ImageRemovalError::TurnActive)]);
    let mut fixture = Fixture::new();
    fixture.session.resume_token = None;
    assert_eq!(fixture.request("a"), [Refuse("a", ImageRemovalError::NoConversation)]);
}
