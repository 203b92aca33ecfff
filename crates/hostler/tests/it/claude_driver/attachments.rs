//! Attachments of a message, as the real agent passes them to the model.

use hostler_attachments::{AttachmentBlock, ImageType};
use hostler_driver::{ApiErrorCategory, Driver as _, DriverEvent, Prompt, TurnFailure, TurnOutcome};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::claude_driver::attachment_blocks::{base64_contents, image, pdf, png, request_block_contents, text};
use crate::claude_driver::driver_fixture::{DriverFixture, markdown_text};
use crate::common::BUILDS;

/// Widths and heights: the longest edge that both builds accept, and almost the maximum bytes.
const LARGEST_IMAGE_SIZES: [(u32, u32); 2] = [(2000, 80), (408, 417)];

#[tokio::test(flavor = "multi_thread")]
async fn every_block_type_reaches_the_model_unchanged_and_in_order() {
    let references = AttachmentBlock::References("The user names these:\n- src/main.rs".into());
    let blocks = vec![
        png(40, 30),
        text("notes.txt", "one < two\n/cost é 🦀"),
        image(ImageType::Jpeg, include_bytes!("../../data/image.jpeg")),
        pdf("a \"paper\".pdf", b"%PDF-1.4\n%%EOF\n"),
        image(ImageType::Gif, include_bytes!("../../data/image.gif")),
        image(ImageType::WebP, include_bytes!("../../data/image.webp")),
        references,
    ];
    let expected = |prompt: Option<&str>| {
        let prompt = prompt.map(|prompt| ("text".to_owned(), prompt.to_owned(), None)).into_iter();
        let attached = blocks.iter().map(|block| {
            let (kind, title) = match block {
                AttachmentBlock::Image { image_type, .. } => (image_type.media_type(), None),
                AttachmentBlock::Pdf { title, .. } => ("application/pdf", Some(title.as_str().to_owned())),
                AttachmentBlock::Text { title, .. } => ("text/plain", Some(title.as_str().to_owned())),
                AttachmentBlock::References(_) => ("text", None),
            };
            (kind.to_owned(), base64_contents(block), title)
        });
        prompt.chain(attached).collect::<Vec<_>>()
    };
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        for prompt in [Some("look\n!say seen"), None] {
            bed.send_with(prompt.unwrap_or_default(), blocks.clone()).await;
            let events = bed.wait_for_turn_end().await;
            let ended = matches!(events.last(), Some(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })));
            assert!(ended, "{build}: {events:#?}");
            let asked: Vec<_> = bed.last_user_blocks().iter().filter_map(request_block_contents).collect();
            assert!(asked == expected(prompt), "{build}: {:#?}", bed.last_user_blocks());
        }
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn image_within_limits_is_passed_byte_for_byte() {
    for build in BUILDS {
        for (width, height) in LARGEST_IMAGE_SIZES {
            // One conversation each: the scripted model counts an image's bytes as tokens, and the agent would
            // compact.
            let mut bed = DriverFixture::open(build).await;
            let image_block = png(width, height);
            bed.send_with("!say seen", vec![image_block.clone()]).await;
            bed.wait_for_turn_end().await;
            let asked: Vec<_> = bed.last_user_blocks().iter().filter_map(request_block_contents).collect();
            let is_same =
                asked.iter().any(|(kind, data, _)| kind == "image/png" && *data == base64_contents(&image_block));
            let shapes: Vec<_> = asked.iter().map(|(kind, data, _)| (kind, data.len())).collect();
            assert!(is_same, "{build}: {width} by {height}, {} bytes: {shapes:?}", image_block.content_bytes());
            bed.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn command_with_attachments_is_plain_text_and_attachments_are_no_commands() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        let image_block = png(4, 4);
        for (prompt, block, asked) in [
            ("/cost", image_block.clone(), "/cost"),
            ("hello", AttachmentBlock::References("/cost".into()), "The user says: /cost"),
            ("", AttachmentBlock::References("/cost".into()), "The user says: /cost"),
        ] {
            let before = bed.environment.model.requests().len();
            bed.send_with(prompt, vec![block]).await;
            bed.wait_for_turn_end().await;
            assert_eq!(
                bed.environment.model.requests().len(),
                before + 1,
                "{build}: the model is asked about {prompt:?}"
            );
            let contents: Vec<_> = bed
                .last_user_blocks()
                .iter()
                .filter_map(request_block_contents)
                .map(|(_, contents, _)| contents)
                .collect();
            assert!(contents.iter().any(|content| content == asked), "{build}: {contents:#?}");
        }
        // Without attachments it is a command.
        let before = bed.environment.model.requests().len();
        bed.send("/cost").await;
        assert!(markdown_text(&bed.wait_for_turn_end().await).contains("Total cost"), "{build}");
        assert_eq!(bed.environment.model.requests().len(), before, "{build}");
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn longest_prompt_is_accepted_whole() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        let driver = bed.environment.driver();
        let prompt = |bytes: usize| Prompt::new("!say taken").with_blocks(vec![pdf("long.pdf", &vec![b'%'; bytes])]);
        let empty = driver.measure_prompt_bytes(&prompt(0));
        let longest = prompt((driver.max_prompt_bytes() - empty) / 4 * 3);
        let left = driver.max_prompt_bytes() - driver.measure_prompt_bytes(&longest);
        assert!(left < 4, "{build}: {left} bytes are left");
        bed.opened.connection.send(longest.clone()).await.unwrap();
        assert_eq!(markdown_text(&bed.wait_for_turn_end().await), "taken", "{build}");
        let same = bed
            .last_user_blocks()
            .iter()
            .filter_map(request_block_contents)
            .any(|(_, data, _)| data == base64_contents(&longest.blocks()[0]));
        assert!(same, "{build}");
        bed.close().await;
    }
}

/// Returns how the turn failed, or is being retried.
fn failure(event: &DriverEvent) -> Option<(ApiErrorCategory, Option<u16>)> {
    match event {
        DriverEvent::TurnEnded(TurnOutcome::Failed(TurnFailure { category, status, .. }))
        | DriverEvent::Retrying { category, status, .. } => Some((*category, *status)),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_with_attachments_have_the_same_categories() {
    for build in BUILDS {
        for (status, message, expected) in [
            (401, "invalid x-api-key", ApiErrorCategory::Auth),
            (400, "messages.0: roles must alternate", ApiErrorCategory::InvalidRequest),
            (400, "this model takes no image input", ApiErrorCategory::AttachmentRejected),
        ] {
            let mut bed = DriverFixture::open(build).await;
            bed.environment.model.reject_requests_containing("\"type\":\"image\"", status, message);
            bed.send_with("look", vec![png(4, 4)]).await;
            let events = bed.wait_for("failure", |event| failure(event).is_some()).await;
            assert_eq!(events.last().and_then(failure), Some((expected, Some(status))), "{build}: {events:#?}");
            bed.close().await;
        }
        let mut bed = DriverFixture::open(build).await;
        bed.send_with("!hang", vec![png(4, 4)]).await;
        kill(Pid::from_raw(bed.opened.info.pid.try_into().unwrap()), Signal::SIGKILL).unwrap();
        let events = bed.wait_for("end", |event| matches!(event, DriverEvent::ProcessExited { .. })).await;
        assert!(!events.iter().any(|event| failure(event).is_some()), "{build}: {events:#?}");
        bed.close().await;
    }
}
