//! Tests of the pending messages: events in, effects out.

use std::cell::RefCell;
use std::sync::Arc;

use ahp_types::state::{MessageAttachment, MessageKind, SimpleMessageAttachment};
use hostler_driver::TurnOutcome;

use super::*;
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::session::new_message;
use crate::sessions::turn::{AgentPreparation, TurnInput};

struct Fixture {
    messages: PendingMessages,
    session: Session,
    machine: TurnMachine,
    can_deliver: bool,
    /// Whether the driver still has the steer when it is recalled.
    driver_has_steer: bool,
    recalled: RefCell<Vec<String>>,
}

impl Fixture {
    fn idle() -> Self {
        let session = Session::provisional(
            "ahp-session:/test/1".into(),
            "test".to_owned(),
            Vec::new(),
            None,
            "2026-01-01T00:00:00Z".to_owned(),
        );
        Self {
            messages: PendingMessages::default(),
            session,
            machine: TurnMachine::default(),
            can_deliver: true,
            driver_has_steer: true,
            recalled: RefCell::default(),
        }
    }

    /// With a turn that the agent works on.
    fn running() -> Self {
        let mut fixture = Self::idle();
        fixture.machine(TurnInput::Accepted { turn: "turn".to_owned(), preparation: AgentPreparation::None });
        fixture.machine(TurnInput::AgentOpened);
        fixture
    }

    fn machine(&mut self, input: TurnInput<TurnErrorDetails>) {
        self.machine.step(input);
    }

    fn on(&mut self, event: MessageEvent) -> Result<Vec<MessageEffect>, &'static str> {
        let Self { messages, session, machine, can_deliver, driver_has_steer, recalled } = self;
        let recall = |id: &SteeringMessageId| {
            recalled.borrow_mut().push(id.0.clone());
            *driver_has_steer
        };
        let context = MessageContext { session, machine, can_deliver: *can_deliver, max_queued: 2, recall: &recall };
        messages.on(event, &context).map_err(|rejection| rejection.code())
    }

    /// Carries out commits, and returns the other effects.
    fn apply(&mut self, event: MessageEvent) -> Vec<MessageEffect> {
        let mut others = Vec::new();
        for effect in self.on(event).unwrap() {
            match effect {
                MessageEffect::Commit(change) => {
                    let chat = Arc::clone(&self.session.chat_uri);
                    for action in change.actions() {
                        self.session.apply(&chat, action);
                    }
                }
                other => others.push(other),
            }
        }
        others
    }

    fn resolve_at_turn_end(&mut self) -> SteeringAtTurnEnd {
        let Self { messages, session, machine, can_deliver, driver_has_steer, .. } = self;
        let recall = |_: &SteeringMessageId| *driver_has_steer;
        messages.resolve_at_turn_end(&MessageContext {
            session,
            machine,
            can_deliver: *can_deliver,
            max_queued: 2,
            recall: &recall,
        })
    }

    fn queue(&self) -> Vec<&str> {
        self.session.queued_messages().iter().map(|message| message.id.as_str()).collect()
    }
}

fn origin() -> ActionOrigin {
    ActionOrigin { client_id: "client".to_owned(), client_seq: 1 }
}

fn set(kind: PendingMessageKind, id: &str) -> MessageEvent {
    let message = new_message(format!("text of {id}"), MessageKind::User);
    let action = ChatPendingMessageSetAction { kind, id: id.to_owned(), message };
    MessageEvent::Set {
        action,
        origin: origin(),
        blobs: Vec::new(),
        is_local_command: false,
        is_active_elsewhere: false,
    }
}

fn removed(kind: PendingMessageKind, id: &str) -> MessageEvent {
    MessageEvent::Removed { action: ChatPendingMessageRemovedAction { kind, id: id.to_owned() }, origin: origin() }
}

fn steer(id: &str) -> SteeringMessage {
    SteeringMessage { id: SteeringMessageId(id.to_owned()), prompt: Prompt::new(format!("text of {id}")) }
}

const QUEUED: PendingMessageKind = PendingMessageKind::Queued;
const STEERING: PendingMessageKind = PendingMessageKind::Steering;

#[test]
fn queued_message_resumes_the_queue_and_an_edit_does_not() {
    let mut fixture = Fixture::idle();
    for resume in [true, false] {
        let effects = fixture.apply(set(QUEUED, "a"));
        assert_eq!(effects, [MessageEffect::QueueChanged { resume }]);
    }
    assert_eq!(fixture.queue(), ["a"]);
}

#[test]
fn full_queue_accepts_edits_only() {
    let mut fixture = Fixture::idle();
    fixture.apply(set(QUEUED, "a"));
    fixture.apply(set(QUEUED, "b"));
    assert_eq!(fixture.on(set(QUEUED, "c")), Err("queueFull"));
    fixture.apply(set(QUEUED, "b"));
    assert_eq!(fixture.queue(), ["a", "b"]);
}

#[test]
fn message_is_not_queued_while_another_process_runs_a_turn() {
    let set_elsewhere = |kind| {
        let MessageEvent::Set { action, origin, blobs, is_local_command, .. } = set(kind, "a") else { panic!() };
        MessageEvent::Set { action, origin, blobs, is_local_command, is_active_elsewhere: true }
    };
    assert_eq!(Fixture::idle().on(set_elsewhere(QUEUED)), Err("activeElsewhere"));
    let mut fixture = Fixture::running();
    fixture.apply(set_elsewhere(STEERING));
    assert!(fixture.session.steering_message().is_some(), "a running turn is steered");
}

#[test]
fn message_that_was_sent_can_be_neither_edited_nor_removed() {
    let mut fixture = Fixture::idle();
    fixture.session.consumed_messages.push_back("a".to_owned());
    assert_eq!(fixture.on(set(QUEUED, "a")), Err("messageAlreadySent"));
    assert_eq!(fixture.on(removed(QUEUED, "a")), Err("messageAlreadySent"));
    assert_eq!(fixture.on(removed(QUEUED, "b")), Err("messageNotQueued"));
}

#[test]
fn reorder_names_every_message_and_needs_a_queue() {
    let mut fixture = Fixture::idle();
    let reordered = |order: &[&str]| MessageEvent::Reordered {
        action: ChatQueuedMessagesReorderedAction { order: order.iter().map(ToString::to_string).collect() },
        origin: origin(),
    };
    assert_eq!(fixture.on(reordered(&["a"])), Err("queueEmpty"));
    fixture.apply(set(QUEUED, "a"));
    fixture.apply(set(QUEUED, "b"));
    assert_eq!(fixture.apply(reordered(&["b"])), [MessageEffect::QueueChanged { resume: true }]);
    assert_eq!(fixture.queue(), ["b", "a"]);
}

#[test]
fn steer_without_a_turn_is_queued() {
    let mut fixture = Fixture::idle();
    fixture.apply(set(STEERING, "a"));
    assert_eq!((fixture.queue(), fixture.session.steering_message()), (vec!["a"], None));
}

#[test]
fn local_command_and_long_text_are_queued_instead_of_steered() {
    let mut fixture = Fixture::running();
    let MessageEvent::Set { action, origin, blobs, .. } = set(STEERING, "a") else { panic!() };
    let is_active_elsewhere = false;
    fixture.apply(MessageEvent::Set { action, origin, blobs, is_local_command: true, is_active_elsewhere });
    let MessageEvent::Set { mut action, origin, blobs, .. } = set(STEERING, "b") else { panic!() };
    action.message.text = "x".repeat(1 << 20);
    fixture.apply(MessageEvent::Set { action, origin, blobs, is_local_command: false, is_active_elsewhere });
    assert_eq!((fixture.queue(), fixture.session.steering_message()), (vec!["a", "b"], None));
}

#[test]
fn steer_is_passed_to_the_driver_once_the_agent_can_receive_it() {
    let mut fixture = Fixture::running();
    fixture.can_deliver = false;
    assert_eq!(fixture.apply(set(STEERING, "a")), [MessageEffect::DeliverSteering]);
    assert_eq!(fixture.apply(MessageEvent::DeliverSteering), []);
    fixture.can_deliver = true;
    assert_eq!(fixture.apply(MessageEvent::DeliverSteering), [MessageEffect::Steer(steer("a"))]);
    assert_eq!(fixture.apply(MessageEvent::DeliverSteering), [], "once");
}

#[test]
fn second_steer_replaces_the_first_only_while_the_driver_has_it() {
    let mut fixture = Fixture::running();
    fixture.apply(set(STEERING, "a"));
    fixture.apply(MessageEvent::DeliverSteering);
    fixture.apply(set(STEERING, "b"));
    assert_eq!(*fixture.recalled.borrow(), ["a"]);
    assert_eq!(fixture.apply(MessageEvent::DeliverSteering), [MessageEffect::Steer(steer("b"))]);
    fixture.driver_has_steer = false;
    fixture.apply(set(STEERING, "c"));
    let slot = fixture.session.steering_message().map(|(message, _)| message.id.as_str());
    assert_eq!((slot, fixture.queue()), (Some("b"), vec!["c"]));
}

#[test]
fn queued_message_cannot_be_steered_under_the_same_id() {
    let mut fixture = Fixture::running();
    fixture.apply(set(QUEUED, "a"));
    assert_eq!(fixture.on(set(STEERING, "a")), Err("messageAlreadyQueued"));
    fixture.apply(set(STEERING, "b"));
    assert_eq!(fixture.on(set(QUEUED, "b")), Err("messageIsSteering"));
}

#[test]
fn delivered_steer_cannot_be_removed() {
    let mut fixture = Fixture::running();
    assert_eq!(fixture.on(removed(STEERING, "a")), Err("messageNotSteering"));
    fixture.apply(set(STEERING, "a"));
    fixture.apply(MessageEvent::DeliverSteering);
    fixture.driver_has_steer = false;
    assert_eq!(fixture.on(removed(STEERING, "a")), Err("messageAlreadyDelivered"));
    fixture.driver_has_steer = true;
    fixture.apply(removed(STEERING, "a"));
    assert_eq!(fixture.session.steering_message(), None);
}

#[test]
fn removal_that_is_not_stored_delivers_the_steer_again() {
    let mut fixture = Fixture::running();
    fixture.apply(set(STEERING, "a"));
    fixture.apply(MessageEvent::DeliverSteering);
    let effects = fixture.on(removed(STEERING, "a")).unwrap();
    assert_eq!(effects.last(), Some(&MessageEffect::DeliverSteering));
    assert_eq!(fixture.apply(MessageEvent::DeliverSteering), [MessageEffect::Steer(steer("a"))]);
}

#[test]
fn contents_of_a_replaced_steer_are_ignored() {
    let mut fixture = Fixture::running();
    let with_contents = |id: &str| {
        let MessageEvent::Set { mut action, origin, blobs, .. } = set(STEERING, id) else { panic!() };
        let attachment = SimpleMessageAttachment {
            label: "notes.txt".to_owned(),
            model_representation: None,
            range: None,
            display_kind: None,
            meta: None,
        };
        action.message.attachments = Some(vec![MessageAttachment::Simple(attachment)]);
        MessageEvent::Set { action, origin, blobs, is_local_command: false, is_active_elsewhere: false }
    };
    fixture.apply(with_contents("a"));
    let load = |effects: Vec<MessageEffect>| match effects.as_slice() {
        [MessageEffect::LoadContents { load, message }] => (*load, message.id.clone()),
        other => panic!("{other:?}"),
    };
    let (first, id) = load(fixture.apply(MessageEvent::DeliverSteering));
    assert_eq!(id, "a");
    fixture.apply(with_contents("b"));
    let (second, _) = load(fixture.apply(MessageEvent::DeliverSteering));
    let loaded = |load, id| MessageEvent::ContentsLoaded { load, message: Some(steer(id)) };
    assert_eq!(fixture.apply(loaded(first, "a")), []);
    assert_eq!(fixture.apply(loaded(second, "b")), [MessageEffect::Steer(steer("b"))]);
}

#[test]
fn receipt_during_the_turn_is_stored_and_the_answer_splits_the_turn() {
    let mut fixture = Fixture::running();
    fixture.apply(set(STEERING, "a"));
    fixture.apply(MessageEvent::DeliverSteering);
    assert_eq!(fixture.apply(MessageEvent::AnswerStarted), [], "no receipt yet");
    let injected = || MessageEvent::Injected(SteeringMessageId("a".to_owned()));
    assert_eq!(fixture.apply(injected()), [MessageEffect::MarkInjected("a".to_owned())]);
    fixture.session.injected_message = Some("a".to_owned());
    let effects = fixture.apply(MessageEvent::AnswerStarted);
    assert!(matches!(effects.as_slice(), [MessageEffect::SplitTurn(message)] if message.id == "a"), "{effects:?}");
}

#[test]
fn receipt_after_the_turn_is_recorded_in_the_chat() {
    let mut fixture = Fixture::running();
    fixture.apply(set(STEERING, "a"));
    fixture.apply(MessageEvent::DeliverSteering);
    fixture.driver_has_steer = false;
    assert_eq!(fixture.resolve_at_turn_end(), SteeringAtTurnEnd::default(), "the receipt is outstanding");
    fixture.machine(TurnInput::AgentFinished(TurnOutcome::Completed { empty: false }));
    let effects = fixture.apply(MessageEvent::Injected(SteeringMessageId("a".to_owned())));
    assert!(matches!(effects.as_slice(), [MessageEffect::RecordLate(message)] if message.id == "a"), "{effects:?}");
}

#[test]
fn undelivered_steer_becomes_the_head_of_the_queue() {
    for event in [MessageEvent::Undelivered(SteeringMessageId("a".to_owned())), MessageEvent::AgentEnded] {
        let mut fixture = Fixture::running();
        fixture.apply(set(QUEUED, "b"));
        fixture.apply(set(STEERING, "a"));
        fixture.apply(MessageEvent::DeliverSteering);
        fixture.machine(TurnInput::Cancelled("turn".to_owned()));
        assert_eq!(fixture.apply(event), [MessageEffect::QueueChanged { resume: false }]);
        assert_eq!((fixture.queue(), fixture.session.steering_message()), (vec!["a", "b"], None));
    }
}

#[test]
fn undelivered_steer_waits_for_the_end_of_a_running_turn() {
    let mut fixture = Fixture::running();
    fixture.apply(set(STEERING, "a"));
    fixture.apply(MessageEvent::DeliverSteering);
    assert_eq!(fixture.apply(MessageEvent::Undelivered(SteeringMessageId("a".to_owned()))), []);
    assert!(fixture.session.steering_message().is_some());
}

#[test]
fn turn_end_requeues_an_undelivered_steer_and_notes_a_received_one() {
    let mut fixture = Fixture::running();
    fixture.apply(set(STEERING, "a"));
    let end = fixture.resolve_at_turn_end();
    assert_eq!((end.notice, end.actions_after_end.len()), (None, 3));
    fixture.session.injected_message = Some("a".to_owned());
    let end = fixture.resolve_at_turn_end();
    assert_eq!(end.notice.as_deref(), Some("You said, while the agent was working: text of a"));
    assert_eq!(end.actions_after_end, [steering_removed("a".to_owned())]);
}
