//! Conformance checks for the contract between drivers and the engine; they run on any driver.
//!
//! A check opens its own connection and cleans up. Its prompts come from [`DriverUnderTest`], because every agent
//! needs its own prompts for a behavior.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hostler_attachments::{AttachmentBlock, ImageType};
use hostler_driver::{
    CloseMode, ConnectionError, Driver, DriverEvent, OpenSpec, OpenedConnection, Prompt, SteeringMessage,
    SteeringMessageId, TurnCause, TurnOutcome,
};

/// Timeout of each step of a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// Driver and the prompts that make its agents do what a check needs.
pub struct DriverUnderTest {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// Spec to open: a new conversation every time, with a gate that allows calls.
    pub open_spec: Box<dyn Fn() -> OpenSpec>,
    /// Prompt that is answered with text, without a call.
    pub answered_prompt: String,
    /// Prompt that makes a call of the agent's own, which ends after `release_turn`, followed by text.
    pub tool_call_prompt: String,
    /// Prompt that makes no call and does not end before `release_turn`, or not soon.
    pub text_only_prompt: String,
    /// Prompt that produces text and continues until it is interrupted.
    pub hanging_prompt: String,
    /// Makes turns wait for `release_turn` again.
    pub hold_turns: Box<dyn Fn()>,
    /// Lets the running turn continue.
    pub release_turn: Box<dyn Fn()>,
}

impl DriverUnderTest {
    async fn open(&self) -> OpenedConnection {
        self.driver.open((self.open_spec)()).await.unwrap()
    }
}

/// Runs all checks.
pub async fn check_all(subject: &DriverUnderTest) {
    check_turn_event_order(subject).await;
    check_steer_receipts(subject).await;
    check_steer_receipts_with_attachments(subject).await;
    check_interrupt_ends_turn_only(subject).await;
    check_close_is_idempotent(subject).await;
}

/// A turn starts before its contents; parts start before their deltas and are never reused; usage comes last.
pub async fn check_turn_event_order(subject: &DriverUnderTest) {
    let mut opened = subject.open().await;
    let mut parts = HashSet::new();
    for _ in 0..2 {
        opened.connection.send(Prompt::new(&*subject.answered_prompt)).await.unwrap();
        let events = collect_turn(&mut opened).await;
        assert!(matches!(events[0], DriverEvent::TurnStarted(TurnCause::Prompt)), "{events:#?}");
        let mut of_turn = HashSet::new();
        for event in &events {
            match event {
                DriverEvent::PartStarted { part, .. } => {
                    assert!(parts.insert(*part) && of_turn.insert(*part), "{part:?} was used before");
                }
                DriverEvent::PartDelta { part, .. } => {
                    assert!(of_turn.contains(part), "{part:?} grows before it starts")
                }
                _ => {}
            }
        }
        assert!(!of_turn.is_empty(), "no text: {events:#?}");
        let usage = events.iter().rposition(|event| matches!(event, DriverEvent::Usage(_))).expect("usage is reported");
        let said = events.iter().rposition(|event| matches!(event, DriverEvent::PartDelta { .. })).unwrap();
        assert!(said < usage, "usage comes last: {events:#?}");
        assert!(matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false }))));
    }
    close_and_drain(opened).await;
}

/// A steer has exactly one receipt: it is injected at a call, before the answer to it, or undelivered before the
/// turn's end.
pub async fn check_steer_receipts(subject: &DriverUnderTest) {
    check_receipts(subject, &[]).await;
}

/// The same for a steer with attachments.
pub async fn check_steer_receipts_with_attachments(subject: &DriverUnderTest) {
    check_receipts(subject, &[image_block()]).await;
}

/// A message arrives complete, with text and without. `given` counts how often a conversation contains an image, by
/// its bytes, as the agent has it.
pub async fn check_prompt_arrives_complete(subject: &DriverUnderTest, given: &dyn Fn(&[u8]) -> usize) {
    let mut opened = subject.open().await;
    for (text, count) in [(&*subject.answered_prompt, 1), ("", 2)] {
        opened.connection.send(Prompt::new(text).with_blocks(vec![image_block()])).await.unwrap();
        let events = collect_turn(&mut opened).await;
        assert!(matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Completed { .. }))), "{events:#?}");
        assert_eq!(given(ONE_PIXEL_GIF), count, "the image after {text:?}");
    }
    close_and_drain(opened).await;
}

/// Smallest image: one pixel.
const ONE_PIXEL_GIF: &[u8] = &[
    0x47, 0x49, 0x46, 0x38, 0x39, 0x61, 0x01, 0x00, 0x01, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff,
    0x2c, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x00, 0x02, 0x02, 0x44, 0x01, 0x00, 0x3b,
];

fn image_block() -> AttachmentBlock {
    AttachmentBlock::Image { image_type: ImageType::Gif, data: ONE_PIXEL_GIF.into() }
}

async fn check_receipts(subject: &DriverUnderTest, blocks: &[AttachmentBlock]) {
    let mut opened = subject.open().await;
    let id = |name: &str| SteeringMessageId(name.to_owned());
    for (prompt, injected) in [(&subject.tool_call_prompt, true), (&subject.text_only_prompt, false)] {
        (subject.hold_turns)();
        opened.connection.send(Prompt::new(&**prompt)).await.unwrap();
        collect_until(&mut opened, |event| matches!(event, DriverEvent::TurnStarted(_))).await;
        for name in ["canceled", "replaced", "pending"] {
            opened
                .connection
                .steer(SteeringMessage { id: id(name), prompt: Prompt::new(name).with_blocks(blocks.to_vec()) });
            if name == "canceled" {
                assert!(opened.connection.cancel_steering(&id(name)), "it was pending");
                assert!(!opened.connection.cancel_steering(&id(name)), "it is no longer pending");
            }
        }
        (subject.release_turn)();
        let events = collect_turn(&mut opened).await;
        let receipts: Vec<_> = events
            .iter()
            .enumerate()
            .filter_map(|(place, event)| match event {
                DriverEvent::SteerInjected(id) => Some((place, &*id.0, true)),
                DriverEvent::SteerUndelivered(id) => Some((place, &*id.0, false)),
                _ => None,
            })
            .collect();
        let [(place, "pending", was_injected)] = receipts[..] else { panic!("{receipts:?} in {events:#?}") };
        assert_eq!(was_injected, injected, "{prompt}: {events:#?}");
        let answer = events.iter().rposition(|event| matches!(event, DriverEvent::MessageStarted));
        assert!(!injected || answer.is_some_and(|answer| answer > place), "the answer comes after it: {events:#?}");
        assert!(!opened.connection.cancel_steering(&id("pending")), "a receipt is final");
    }
    close_and_drain(opened).await;
}

/// An interrupt ends the turn, and the same agent answers the next prompt.
pub async fn check_interrupt_ends_turn_only(subject: &DriverUnderTest) {
    let mut opened = subject.open().await;
    opened.connection.send(Prompt::new(&*subject.hanging_prompt)).await.unwrap();
    collect_until(&mut opened, |event| matches!(event, DriverEvent::PartDelta { .. })).await;
    opened.connection.interrupt().await.unwrap();
    let events = collect_turn(&mut opened).await;
    assert!(matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Interrupted))), "{events:#?}");
    opened.connection.send(Prompt::new(&*subject.answered_prompt)).await.unwrap();
    let events = collect_turn(&mut opened).await;
    assert!(matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Completed { .. }))), "{events:#?}");
    close_and_drain(opened).await;
}

/// Two concurrent closes and a third one give one end, reported last, and later writes fail.
pub async fn check_close_is_idempotent(subject: &DriverUnderTest) {
    let mut opened = subject.open().await;
    let OpenedConnection { connection, events, .. } = &mut opened;
    futures::join!(connection.close(CloseMode::Graceful), connection.close(CloseMode::Now));
    connection.close(CloseMode::Now).await;
    let mut last = None;
    while let Some(event) = with_timeout("the end", events.recv()).await {
        assert!(!matches!(last, Some(DriverEvent::ProcessExited { .. })), "{event:?} after the end");
        last = Some(event);
    }
    assert!(matches!(last, Some(DriverEvent::ProcessExited { .. })), "{last:?}");
    let refused = connection.send(Prompt::new("hello?")).await;
    assert!(matches!(refused, Err(ConnectionError::Exited(_))), "{refused:?}");
}

async fn collect_turn(opened: &mut OpenedConnection) -> Vec<DriverEvent> {
    collect_until(opened, |event| matches!(event, DriverEvent::TurnEnded(_))).await
}

async fn collect_until(opened: &mut OpenedConnection, wanted: impl Fn(&DriverEvent) -> bool) -> Vec<DriverEvent> {
    let mut events = Vec::new();
    while !events.last().is_some_and(&wanted) {
        match tokio::time::timeout(CHECK_TIMEOUT, opened.events.recv()).await {
            Ok(Some(event)) => events.push(event),
            other => panic!("{other:?} after {events:#?}"),
        }
    }
    events
}

async fn close_and_drain(mut opened: OpenedConnection) {
    opened.connection.close(CloseMode::Now).await;
    while with_timeout("the end", opened.events.recv()).await.is_some() {}
}

async fn with_timeout<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(CHECK_TIMEOUT, future).await.unwrap_or_else(|_| panic!("timed out waiting for {what}"))
}
