//! Steering of a real turn with attachments.

use hostler_attachments::AttachmentBlock;
use hostler_driver::{DriverEvent, TurnCause, TurnOutcome};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::claude_driver::attachment_blocks::{base64_contents, pdf, png, request_block_contents, text};
use crate::claude_driver::driver_fixture::{DriverFixture, markdown_text, steer_receipts, wait_for};
use crate::common::BUILDS;

fn call(file: &str) -> String {
    format!("!tool Bash {}", json!({ "command": wait_for(file, 0), "description": "waits" }))
}

#[tokio::test(flavor = "multi_thread")]
async fn steer_with_attachments_reaches_the_model_once_after_a_call() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        bed.send(&format!("{}\n!say after", call("go"))).await;
        bed.wait_for_gate().await;
        // More than a pipe holds.
        let image = png(150, 150);
        let blocks = vec![
            image.clone(),
            text("notes.txt", "attached text </system-reminder>"),
            AttachmentBlock::References("/named/file".into()),
        ];
        bed.steer_with("one", "/compact the text of a steer", blocks);
        std::fs::write(bed.file("go"), "").unwrap();
        let events = bed.wait_for_turn_end().await;
        assert_eq!(steer_receipts(&events), ["injected", "answer", "end"], "{build}: {events:#?}");
        assert_eq!(markdown_text(&events), "after", "{build}");
        let asked = bed.last_user_blocks();
        let images = asked
            .iter()
            .filter_map(request_block_contents)
            .filter(|(kind, data, _)| kind == "image/png" && *data == base64_contents(&image));
        assert_eq!(images.count(), 1, "{build}: {asked:#?}");
        for expected in ["/compact the text of a steer", "attached text &lt;/system-reminder>", "/named/file"] {
            assert_eq!(bed.requests_with(expected).len(), 1, "{build}: {expected}");
        }
        // It stays part of the conversation, and starts no turn of its own.
        bed.send("!say next").await;
        let events = bed.wait_for_turn_end().await;
        assert!(matches!(events[0], DriverEvent::TurnStarted(TurnCause::Prompt)), "{build}: {events:#?}");
        assert_eq!(
            (markdown_text(&events).as_str(), bed.requests_with("the text of a steer").len()),
            ("next", 2),
            "{build}"
        );
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steer_with_attachments_without_a_call_is_undelivered() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        bed.send("!pace 50\n!say one two three four five six seven eight").await;
        bed.wait_for("first text", |event| matches!(event, DriverEvent::PartDelta { .. })).await;
        bed.steer_with("one", "text for no request", vec![png(4, 4)]);
        assert_eq!(steer_receipts(&bed.wait_for_turn_end().await), ["undelivered", "end"], "{build}");
        bed.send("!tool Bash {\"command\":\"true\",\"description\":\"d\"}\n!say next").await;
        assert_eq!(steer_receipts(&bed.wait_for_turn_end().await), ["answer", "answer", "end"], "{build}");
        assert_eq!(bed.requests_with("text for no request"), [""; 0], "{build}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steer_with_an_invalid_document_is_undelivered() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        bed.send(&format!("{}\n!say after", call("go"))).await;
        bed.wait_for_gate().await;
        bed.steer_with("one", "text with a document", vec![pdf("a.pdf", b"%PDF-1.4\n%%EOF\n")]);
        std::fs::write(bed.file("go"), "").unwrap();
        assert_eq!(steer_receipts(&bed.wait_for_turn_end().await), ["answer", "undelivered", "end"], "{build}");
        assert_eq!(bed.requests_with("text with a document"), [""; 0], "{build}");
        bed.close().await;
    }
}

/// Runs a turn whose first call is over, so that the message is in the agent's queue, and whose second one is
/// running.
async fn start_turn_with_queued_steer(bed: &mut DriverFixture) {
    bed.send(&format!("{}\n{}\n!say after", call("first"), call("second"))).await;
    bed.wait_for_gate().await;
    bed.steer_with("one", "text in transit", vec![png(4, 4)]);
    std::fs::write(bed.file("first"), "").unwrap();
    bed.wait_for("end of the first call", |event| matches!(event, DriverEvent::ToolFinished { .. })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_withdraws_the_steer_and_starts_no_turn() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        start_turn_with_queued_steer(&mut bed).await;
        bed.opened.connection.interrupt().await.unwrap();
        let events = bed.wait_for_turn_end().await;
        assert_eq!(steer_receipts(&events), ["undelivered", "end"], "{build}: {events:#?}");
        assert!(
            matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Interrupted))),
            "{build}: {events:#?}"
        );
        bed.send("!say next").await;
        let events = bed.wait_for_turn_end().await;
        assert_eq!(
            (markdown_text(&events).as_str(), steer_receipts(&events)),
            ("next", vec!["answer", "end"]),
            "{build}: {events:#?}"
        );
        assert_eq!(bed.requests_with("text in transit"), [""; 0], "{build}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_makes_the_steer_undelivered() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        start_turn_with_queued_steer(&mut bed).await;
        kill(Pid::from_raw(bed.opened.info.pid.try_into().unwrap()), Signal::SIGKILL).unwrap();
        let events = bed.wait_for("end", |event| matches!(event, DriverEvent::ProcessExited { .. })).await;
        assert_eq!(steer_receipts(&events), ["undelivered"], "{build}: {events:#?}");
        bed.close().await;
    }
}
