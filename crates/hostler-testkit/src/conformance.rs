//! What every driver owes the engine, as checks that run over any of them.
//!
//! A check opens a connection of its own and leaves nothing behind. What it says to the agent comes from the
//! [`Subject`], since every agent is made to do something in its own way.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hostler_attachments::{Block, ImageType};
use hostler_driver::{
    CloseMode, ConnectionError, Driver, DriverEvent, OpenSpec, Opened, Prompt, Steer, SteerId, TurnCause, TurnOutcome,
};

/// How long anything may take before a check gives up and says what it waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A driver, and how its agents are made to do what a check needs.
pub struct Subject {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// What is opened: a new conversation every time, and a gate that lets calls pass.
    pub spec: Box<dyn Fn() -> OpenSpec>,
    /// Answered in words, without a call.
    pub answered: String,
    /// Makes a call of the agent's own that is not over before `release`, and then says something.
    pub calls: String,
    /// Makes no call and is not over before `release`, or not soon.
    pub talks: String,
    /// Says something and goes on until it is interrupted.
    pub hangs: String,
    /// From now on turns wait for `release` again.
    pub hold: Box<dyn Fn()>,
    /// Lets the running turn go on.
    pub release: Box<dyn Fn()>,
}

impl Subject {
    async fn open(&self) -> Opened {
        self.driver.open((self.spec)()).await.unwrap()
    }
}

/// All of them.
pub async fn all(subject: &Subject) {
    a_turn_is_told_in_order(subject).await;
    words_are_told_or_given_back(subject).await;
    what_is_attached_is_told_or_given_back(subject).await;
    an_interrupt_ends_the_turn_and_nothing_else(subject).await;
    closing_twice_is_closing_once(subject).await;
}

/// A turn begins before everything in it; parts start before they grow and are never reused; usage comes last.
pub async fn a_turn_is_told_in_order(subject: &Subject) {
    let mut opened = subject.open().await;
    let mut parts = HashSet::new();
    for _ in 0..2 {
        opened.connection.send(Prompt::new(&*subject.answered)).await.unwrap();
        let events = until_end(&mut opened).await;
        assert!(matches!(events[0], DriverEvent::TurnBegan(TurnCause::Prompt)), "{events:#?}");
        let mut of_turn = HashSet::new();
        for event in &events {
            match event {
                DriverEvent::PartStarted { part, .. } => {
                    assert!(parts.insert(*part) && of_turn.insert(*part), "{part:?} was used before");
                }
                DriverEvent::Delta { part, .. } => assert!(of_turn.contains(part), "{part:?} grows before it starts"),
                _ => {}
            }
        }
        assert!(!of_turn.is_empty(), "nothing was said: {events:#?}");
        let usage = events.iter().rposition(|event| matches!(event, DriverEvent::Usage(_))).expect("usage is told");
        let said = events.iter().rposition(|event| matches!(event, DriverEvent::Delta { .. })).unwrap();
        assert!(said < usage, "usage comes last: {events:#?}");
        assert!(matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false }))));
    }
    bury(opened).await;
}

/// Words have exactly one receipt: they are told at a call, before the answer to them, or given back before the end.
pub async fn words_are_told_or_given_back(subject: &Subject) {
    told_or_given_back(subject, &[]).await;
}

/// The same holds for words that something is attached to.
pub async fn what_is_attached_is_told_or_given_back(subject: &Subject) {
    told_or_given_back(subject, &[picture()]).await;
}

/// A message arrives whole, with words and without. `given` counts how often a conversation holds a picture, by its bytes,
/// as its agent has it.
pub async fn a_message_arrives_whole(subject: &Subject, given: &dyn Fn(&[u8]) -> usize) {
    let mut opened = subject.open().await;
    for (words, count) in [(&*subject.answered, 1), ("", 2)] {
        opened.connection.send(Prompt::new(words).with_blocks(vec![picture()])).await.unwrap();
        let events = until_end(&mut opened).await;
        assert!(matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Completed { .. }))), "{events:#?}");
        assert_eq!(given(PICTURE), count, "the picture behind {words:?}");
    }
    bury(opened).await;
}

/// The smallest picture: one pixel.
const PICTURE: &[u8] = &[
    0x47, 0x49, 0x46, 0x38, 0x39, 0x61, 0x01, 0x00, 0x01, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff,
    0x2c, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x00, 0x02, 0x02, 0x44, 0x01, 0x00, 0x3b,
];

fn picture() -> Block {
    Block::Image { media_type: ImageType::Gif, data: PICTURE.into() }
}

async fn told_or_given_back(subject: &Subject, blocks: &[Block]) {
    let mut opened = subject.open().await;
    let id = |name: &str| SteerId(name.to_owned());
    for (prompt, told) in [(&subject.calls, true), (&subject.talks, false)] {
        (subject.hold)();
        opened.connection.send(Prompt::new(&**prompt)).await.unwrap();
        until(&mut opened, |event| matches!(event, DriverEvent::TurnBegan(_))).await;
        for name in ["taken back", "replaced", "kept"] {
            opened.connection.steer(Steer { id: id(name), text: Prompt::new(name).with_blocks(blocks.to_vec()) });
            if name == "taken back" {
                assert!(opened.connection.unsteer(&id(name)), "it was held");
                assert!(!opened.connection.unsteer(&id(name)), "it is not held any more");
            }
        }
        (subject.release)();
        let events = until_end(&mut opened).await;
        let receipts: Vec<_> = events
            .iter()
            .enumerate()
            .filter_map(|(place, event)| match event {
                DriverEvent::SteerInjected(id) => Some((place, &*id.0, true)),
                DriverEvent::SteerUndelivered(id) => Some((place, &*id.0, false)),
                _ => None,
            })
            .collect();
        let [(place, "kept", was_told)] = receipts[..] else { panic!("{receipts:?} in {events:#?}") };
        assert_eq!(was_told, told, "{prompt}: {events:#?}");
        let answer = events.iter().rposition(|event| matches!(event, DriverEvent::MessageStarted));
        assert!(!told || answer.is_some_and(|answer| answer > place), "the answer comes behind: {events:#?}");
        assert!(!opened.connection.unsteer(&id("kept")), "a receipt is final");
    }
    bury(opened).await;
}

/// An interrupt ends the turn, and the next prompt is answered by the same agent.
pub async fn an_interrupt_ends_the_turn_and_nothing_else(subject: &Subject) {
    let mut opened = subject.open().await;
    opened.connection.send(Prompt::new(&*subject.hangs)).await.unwrap();
    until(&mut opened, |event| matches!(event, DriverEvent::Delta { .. })).await;
    opened.connection.interrupt().await.unwrap();
    let events = until_end(&mut opened).await;
    assert!(matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Interrupted))), "{events:#?}");
    opened.connection.send(Prompt::new(&*subject.answered)).await.unwrap();
    let events = until_end(&mut opened).await;
    assert!(matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Completed { .. }))), "{events:#?}");
    bury(opened).await;
}

/// Two closes at once, and a third one: one end, told last, and nobody is written to any more.
pub async fn closing_twice_is_closing_once(subject: &Subject) {
    let mut opened = subject.open().await;
    let Opened { connection, events, .. } = &mut opened;
    futures::join!(connection.close(CloseMode::Graceful), connection.close(CloseMode::Now));
    connection.close(CloseMode::Now).await;
    let mut last = None;
    while let Some(event) = within("the end", events.recv()).await {
        assert!(!matches!(last, Some(DriverEvent::Gone { .. })), "{event:?} behind the end");
        last = Some(event);
    }
    assert!(matches!(last, Some(DriverEvent::Gone { .. })), "{last:?}");
    let refused = connection.send(Prompt::new("anybody?")).await;
    assert!(matches!(refused, Err(ConnectionError::Gone(_))), "{refused:?}");
}

async fn until_end(opened: &mut Opened) -> Vec<DriverEvent> {
    until(opened, |event| matches!(event, DriverEvent::TurnEnded(_))).await
}

async fn until(opened: &mut Opened, wanted: impl Fn(&DriverEvent) -> bool) -> Vec<DriverEvent> {
    let mut events = Vec::new();
    while !events.last().is_some_and(&wanted) {
        match tokio::time::timeout(PATIENCE, opened.events.recv()).await {
            Ok(Some(event)) => events.push(event),
            other => panic!("{other:?} after {events:#?}"),
        }
    }
    events
}

async fn bury(mut opened: Opened) {
    opened.connection.close(CloseMode::Now).await;
    while within("the end", opened.events.recv()).await.is_some() {}
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}
