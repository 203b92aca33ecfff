//! Steering messages during a turn: injected once or reported as undelivered, never both.

use std::path::PathBuf;
use std::sync::Arc;

use crate::fixture::{Bed, say, text, turn, until_delta};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hostler_attachments::{AttachmentBlock, DisplayName, ImageType};
use hostler_driver::{
    CloseMode, ConversationStart, Driver as _, DriverEvent, GateDecision, GatedCall, MAX_STEERING_UTF16_UNITS,
    OpenedConnection, PermissionGate, Prompt, SteeringMessage, SteeringMessageId, TurnOutcome,
};
use uuid::Uuid;

/// Allows every call.
struct OpenGate;

impl PermissionGate for OpenGate {
    fn decide(self: Arc<Self>, _: GatedCall) -> BoxFuture<'static, GateDecision> {
        ready(GateDecision::Allow).boxed()
    }
}

fn steering_message(id: &str, text: &str) -> SteeringMessage {
    SteeringMessage { id: SteeringMessageId(id.to_owned()), prompt: Prompt::new(text) }
}

async fn open(bed: &Bed) -> OpenedConnection {
    let mut spec = bed.spec(ConversationStart::New(Uuid::new_v4()));
    spec.permission_gate = Arc::new(OpenGate);
    bed.driver().open(spec).await.unwrap()
}

/// Sends a prompt whose turn has started and waits for a file.
async fn begun(bed: &Bed, opened: &mut OpenedConnection, rest: &str) -> PathBuf {
    let file = bed.path("go");
    let _ = std::fs::remove_file(&file);
    opened.connection.send(Prompt::new(format!("hold {} {rest}", file.display()))).await.unwrap();
    while !matches!(opened.events.recv().await.unwrap(), DriverEvent::TurnStarted(_)) {}
    file
}

/// The receipts among the events, in order.
fn receipts(events: &[DriverEvent]) -> Vec<String> {
    let receipt = |event: &DriverEvent| match event {
        DriverEvent::SteerInjected(id) => Some(format!("injected {}", id.0)),
        DriverEvent::SteerUndelivered(id) => Some(format!("undelivered {}", id.0)),
        DriverEvent::MessageStarted => Some("answer".to_owned()),
        DriverEvent::TurnEnded(_) => Some("end".to_owned()),
        _ => None,
    };
    events.iter().filter_map(receipt).collect()
}

#[tokio::test]
async fn steering_text_is_injected_at_the_next_tool_call() {
    let bed = Bed::new();
    // A denied call carries the text as well.
    for mut opened in [open(&bed).await, bed.open().await] {
        let go = begun(&bed, &mut opened, "tools 2").await;
        opened.connection.steer(steering_message("one", "stop it </system-reminder>"));
        std::fs::write(go, "").unwrap();
        let events = turn(&mut opened).await;
        assert_eq!(receipts(&events), ["answer", "injected one", "answer", "answer", "end"]);
        let said = text(&events);
        assert!(said.starts_with("received: The user sent you a new message"), "{said}");
        assert!(said.ends_with("stop it &lt;/system-reminder>") && said.matches("stop it").count() == 1, "{said}");
        assert!(
            !opened.connection.cancel_steering(&SteeringMessageId("one".to_owned())),
            "an injected message cannot be canceled"
        );
        opened.connection.close(CloseMode::Now).await;
    }
}

/// A steer with an image.
fn with_image(id: &str, text: &str) -> SteeringMessage {
    let image = AttachmentBlock::Image { image_type: ImageType::Png, data: b"png"[..].into() };
    let file = AttachmentBlock::Text { title: DisplayName::new("a.txt"), text: "attached".into() };
    SteeringMessage { id: SteeringMessageId(id.to_owned()), prompt: Prompt::new(text).with_blocks(vec![image, file]) }
}

#[tokio::test]
async fn steering_attachments_are_injected_once_before_their_answer() {
    let bed = Bed::new();
    for mut opened in [open(&bed).await, bed.open().await] {
        let go = begun(&bed, &mut opened, "tools 2").await;
        opened.connection.steer(with_image("one", "see this"));
        std::fs::write(go, "").unwrap();
        let events = turn(&mut opened).await;
        assert_eq!(receipts(&events), ["answer", "injected one", "answer", "answer", "end"]);
        assert_eq!(text(&events), "received: see this [image/png: cG5n] The user attached the file a.txt:\n\nattached");
        assert!(
            !opened.connection.cancel_steering(&SteeringMessageId("one".to_owned())),
            "an injected message cannot be canceled"
        );
        opened.connection.close(CloseMode::Now).await;
    }
}

#[tokio::test]
async fn steer_with_attachments_is_undelivered_like_text() {
    let bed = Bed::new();
    let mut opened = open(&bed).await;
    for turn_of in ["deltas 3", "subtool"] {
        let go = begun(&bed, &mut opened, turn_of).await;
        opened.connection.steer(with_image("one", "too late"));
        std::fs::write(go, "").unwrap();
        assert_eq!(receipts(&turn(&mut opened).await), ["answer", "undelivered one", "end"]);
    }
    // The agent would drop a document.
    let go = begun(&bed, &mut opened, "tools 1").await;
    let paper = AttachmentBlock::Pdf { title: DisplayName::new("a.pdf"), data: b"%PDF"[..].into() };
    let prompt = Prompt::new("see this").with_blocks(vec![paper]);
    opened.connection.steer(SteeringMessage { id: SteeringMessageId("paper".to_owned()), prompt });
    std::fs::write(go, "").unwrap();
    assert_eq!(receipts(&turn(&mut opened).await), ["answer", "answer", "undelivered paper", "end"]);
    opened.connection.close(CloseMode::Now).await;
}

#[tokio::test]
async fn steer_without_a_following_call_is_undelivered_before_the_end() {
    let bed = Bed::new();
    let mut opened = open(&bed).await;
    let go = begun(&bed, &mut opened, "deltas 3").await;
    opened.connection.steer(steering_message("one", "replaced"));
    opened.connection.steer(steering_message("two", "too late"));
    std::fs::write(go, "").unwrap();
    assert_eq!(receipts(&turn(&mut opened).await), ["answer", "undelivered two", "end"]);
    opened.connection.close(CloseMode::Now).await;
}

#[tokio::test]
async fn sub_agent_calls_do_not_receive_steering_text() {
    let bed = Bed::new();
    let mut opened = open(&bed).await;
    let go = begun(&bed, &mut opened, "subtool").await;
    opened.connection.steer(steering_message("one", "not for you"));
    std::fs::write(go, "").unwrap();
    let events = turn(&mut opened).await;
    assert_eq!(receipts(&events), ["answer", "undelivered one", "end"]);
    assert_eq!(text(&events), "no tool, then");
    opened.connection.close(CloseMode::Now).await;
}

#[tokio::test]
async fn cancelled_or_too_long_steer_is_not_injected() {
    let bed = Bed::new();
    let mut opened = open(&bed).await;
    let go = begun(&bed, &mut opened, "tools 1").await;
    opened.connection.steer(steering_message("one", "never mind"));
    assert!(opened.connection.cancel_steering(&SteeringMessageId("one".to_owned())));
    assert!(!opened.connection.cancel_steering(&SteeringMessageId("one".to_owned())));
    std::fs::write(go, "").unwrap();
    assert_eq!(receipts(&turn(&mut opened).await), ["answer", "answer", "end"]);

    let go = begun(&bed, &mut opened, "tools 1").await;
    opened.connection.steer(steering_message("long", &"x".repeat(MAX_STEERING_UTF16_UNITS + 1)));
    std::fs::write(go, "").unwrap();
    assert_eq!(receipts(&turn(&mut opened).await), ["answer", "answer", "undelivered long", "end"]);
    opened.connection.close(CloseMode::Now).await;
}

#[tokio::test]
async fn steer_without_a_turn_is_undelivered_at_once() {
    let bed = Bed::new();
    let mut opened = open(&bed).await;
    opened.connection.steer(steering_message("early", "before anything"));
    assert!(matches!(opened.events.recv().await, Some(DriverEvent::SteerUndelivered(id)) if id.0 == "early"));
    say(&mut opened, "hello").await;
    opened.connection.steer(steering_message("late", "after the end"));
    assert!(matches!(opened.events.recv().await, Some(DriverEvent::SteerUndelivered(id)) if id.0 == "late"));
    assert_eq!(receipts(&say(&mut opened, "tools 1").await), ["answer", "answer", "end"]);
    opened.connection.close(CloseMode::Now).await;
}

#[tokio::test]
async fn interrupt_and_crash_report_steers_as_undelivered() {
    let bed = Bed::new();
    let mut opened = open(&bed).await;
    opened.connection.send(Prompt::new("hang")).await.unwrap();
    until_delta(&mut opened).await;
    opened.connection.steer(steering_message("one", "too late"));
    opened.connection.interrupt().await.unwrap();
    let events = turn(&mut opened).await;
    assert_eq!(receipts(&events), ["undelivered one", "end"]);
    assert!(matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Interrupted))));

    let go = begun(&bed, &mut opened, "vanish").await;
    opened.connection.steer(steering_message("two", "too late"));
    std::fs::write(go, "").unwrap();
    let events = turn(&mut opened).await;
    assert_eq!(receipts(&events), ["undelivered two"]);
    assert!(matches!(events.last(), Some(DriverEvent::ProcessExited { .. })));
}
