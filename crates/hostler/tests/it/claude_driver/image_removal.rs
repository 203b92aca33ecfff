//! One rejected image does not end a conversation: it is removed from the agent's transcript.

use std::path::PathBuf;
use std::time::Duration;

use hostler_attachments::AttachmentBlock;
use hostler_driver::{
    ApiErrorCategory, CloseMode, ConversationStart, Driver as _, DriverEvent, GateDecision, ImageSelection,
    RemoveImagesError, ResumeToken, TurnFailure, TurnOutcome,
};
use serde_json::json;

use crate::claude_driver::attachment_blocks::{pdf, png};
use crate::claude_driver::driver_fixture::{DriverFixture, markdown_text};
use crate::common::{BUILDS, TEST_TIMEOUT, list_files};

/// Content that the provider rejects, and its error.
const REJECTED_IMAGE: (&str, &str) =
    ("\"type\":\"image\"", "messages.2.content.1.image.source.base64: Could not process image");
const REJECTED_DOCUMENT: (&str, &str) =
    ("application/pdf", "messages.2.content.1.pdf.source.base64.data: The PDF specified was not valid.");

/// Returns the resume token of the conversation.
fn token(bed: &DriverFixture) -> ResumeToken {
    let tokens = bed.received.iter().rev().find_map(|event| match event {
        DriverEvent::ResumeToken(token) => Some(token.clone()),
        _ => None,
    });
    tokens.expect("a token")
}

/// Returns the transcript. The agent writes it with a delay, so that it may not exist yet.
async fn record(bed: &DriverFixture) -> PathBuf {
    let name = format!("{}.jsonl", bed.conversation);
    let written = async {
        loop {
            if let Some(found) =
                list_files(&bed.environment.home.path("claude")).into_iter().find(|path| path.ends_with(&name))
            {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, written).await.expect("a record")
}

/// Returns whether the provider rejected the request.
fn is_rejected(events: &[DriverEvent]) -> bool {
    let rejected = |failure: &TurnFailure| failure.category == ApiErrorCategory::AttachmentRejected;
    matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Failed(failure))) if rejected(failure))
}

/// Resumes the conversation in another process.
async fn resume(bed: &mut DriverFixture) {
    let mut spec = bed.environment.spec(GateDecision::Allow);
    spec.conversation = ConversationStart::Resume { id: bed.conversation, token: token(bed) };
    bed.opened = bed.environment.driver().open(spec).await.unwrap();
}

/// Sends content that the provider rejects, removes it, and continues.
async fn remove_rejected_content_and_continue(
    build: &'static str,
    (part, reason): (&str, &str),
    prompt: &str,
    blocks: Vec<AttachmentBlock>,
) {
    let mut bed = DriverFixture::open(build).await;
    std::fs::write(bed.file("image.jpeg"), include_bytes!("../../data/image.jpeg")).unwrap();
    bed.send("!say hello").await;
    bed.wait_for_turn_end().await;
    bed.environment.model.reject_requests_containing(part, 400, reason);
    bed.send_with(prompt, blocks).await;
    let events = bed.wait_for_turn_end().await;
    // Newer builds remove it from the request by themselves, report it, and continue.
    let helps_itself = build == "native";
    assert_eq!(is_rejected(&events), !helps_itself, "{build}: {events:#?}");
    if !helps_itself {
        bed.send("!say stuck").await;
        assert!(is_rejected(&bed.wait_for_turn_end().await), "{build}: it is sent again with every message");
    }
    let driver = bed.environment.driver();
    let token = token(&bed);
    let record = record(&bed).await;
    assert_eq!(driver.remove_images(&token, ImageSelection::All).await, Err(RemoveImagesError::Busy), "{build}");
    bed.opened.connection.close(CloseMode::Now).await;
    let before = std::fs::metadata(&record).unwrap().len();
    assert_eq!(driver.remove_images(&token, ImageSelection::Last).await, Ok(1), "{build}");
    assert_eq!(driver.remove_images(&token, ImageSelection::All).await, Ok(0), "{build}: nothing is left");
    assert_ne!(std::fs::metadata(&record).unwrap().len(), before, "{build}");

    resume(&mut bed).await;
    bed.send("!say on we go").await;
    let events = bed.wait_for_turn_end().await;
    assert_eq!(markdown_text(&events), "on we go", "{build}: {events:#?}");
    let last = bed.environment.model.requests().last().unwrap().body["messages"].to_string();
    assert!(!last.contains(part), "{build}: the model is not sent it again");
    assert!(last.contains("was removed from the conversation") && last.contains("!say hello"), "{build}: {last}");
    bed.opened.connection.close(CloseMode::Now).await;
    let lost = ResumeToken(format!("{}.gone", token.0));
    assert_eq!(driver.remove_images(&lost, ImageSelection::All).await, Err(RemoveImagesError::Missing), "{build}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_image_is_removed_and_the_conversation_continues() {
    for build in BUILDS {
        remove_rejected_content_and_continue(build, REJECTED_IMAGE, "look\n!say seen", vec![png(4, 4)]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_document_is_removed_and_the_conversation_continues() {
    for build in BUILDS {
        let paper = pdf("a.pdf", b"%PDF-1.4\n%%EOF\n");
        remove_rejected_content_and_continue(build, REJECTED_DOCUMENT, "look\n!say seen", vec![paper]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_image_of_a_tool_result_is_removed_and_the_conversation_continues() {
    for build in BUILDS {
        let read = json!({ "file_path": "image.jpeg" });
        remove_rejected_content_and_continue(
            build,
            REJECTED_IMAGE,
            &format!("!tool Read {read}\n!say seen"),
            Vec::new(),
        )
        .await;
    }
}
