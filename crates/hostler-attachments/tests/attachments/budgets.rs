//! All or nothing, within every limit, and with a reason for each attachment.

use std::cell::Cell;
use std::sync::Arc;

use hostler_attachments::{
    AttachmentDisposition, AttachmentErrorCode, AttachmentLimits, AttachmentPlan, AttachmentPlanError,
    AttachmentSource, ConversationSize, ReceivedAttachment, plan_attachments, plan_attachments_cancellable,
};
use image::ImageFormat;

use crate::support::{encoded, file, gif, gradient, pdf};

fn codes(outcome: &Result<AttachmentPlan, AttachmentPlanError>) -> Vec<Option<AttachmentErrorCode>> {
    match outcome {
        Ok(plan) => plan.attachments.iter().map(|_| None).collect(),
        Err(rejection) => rejection.summaries.iter().map(|file| file.code).collect(),
    }
}

fn texts(count: usize, bytes: usize) -> Vec<ReceivedAttachment> {
    (0..count).map(|at| file(&format!("{at}.txt"), "x".repeat(bytes))).collect()
}

fn image() -> ReceivedAttachment {
    file("a.png", encoded(&gradient(4, 4), ImageFormat::Png))
}

const TOO_LARGE: Option<AttachmentErrorCode> = Some(AttachmentErrorCode::TooLarge);
const PAYLOAD: Option<AttachmentErrorCode> = Some(AttachmentErrorCode::PayloadTooLarge);

#[test]
fn one_rejected_file_prevents_sending_and_all_files_are_listed() {
    let items = vec![file("a.txt", "x"), file("b.zip", *b"PK\x03\x04\x14\0"), image(), file("c.bin", [0])];
    let rejection = plan_attachments(items, &AttachmentLimits::default(), ConversationSize::default()).unwrap_err();
    let decisions: Vec<_> = rejection.summaries.iter().map(|file| (file.label.as_str(), file.decision)).collect();
    use AttachmentDisposition::{Reject, WouldSend};
    assert_eq!(decisions, [("a.txt", WouldSend), ("b.zip", Reject), ("a.png", WouldSend), ("c.bin", Reject)]);
    let names: Vec<_> = rejection.errors.iter().map(|refusal| refusal.name.as_str()).collect();
    assert_eq!(names, ["b.zip", "c.bin"]);
    let message = rejection.to_string();
    assert!(message.starts_with("b.zip: the file is an archive"), "{message}");
    assert!(message.contains("; c.bin: the file is binary"), "{message}");
    assert!(rejection.errors.iter().all(|refusal| !refusal.code.is_retryable()));
}

#[test]
fn an_empty_list_gives_an_empty_plan() {
    assert!(
        plan_attachments(Vec::new(), &AttachmentLimits::default(), ConversationSize::default())
            .unwrap()
            .blocks()
            .is_empty()
    );
}

#[test]
fn file_count_file_size_and_total_size_are_limited() {
    let limits = AttachmentLimits { files: 3, file_bytes: 10, total_bytes: 22, ..AttachmentLimits::default() };
    let of = |items| codes(&plan_attachments(items, &limits, ConversationSize::default()));
    assert_eq!(of(texts(3, 7)), [None; 3]);
    assert_eq!(of(texts(4, 1)), [None, None, None, TOO_LARGE]);
    assert_eq!(of(texts(1, 11)), [TOO_LARGE]);
    assert_eq!(of(texts(3, 8)), [None, None, TOO_LARGE]);
    let carried = ReceivedAttachment::new("a.txt", AttachmentSource::Base64("A".repeat(16)));
    assert_eq!(of(vec![carried]), [TOO_LARGE], "twelve bytes, of which none was decoded");
    let exactly = ReceivedAttachment::new("a.txt", AttachmentSource::Base64("eHh4eHh4eHh4eA==".to_owned()));
    assert_eq!(of(vec![exactly]), [None]);
    assert_eq!(of(vec![ReceivedAttachment::new("text", AttachmentSource::Text("x".repeat(11)))]), [TOO_LARGE]);

    let rejection = plan_attachments(texts(4, 11), &limits, ConversationSize::default()).unwrap_err();
    assert_eq!(
        rejection.errors[0].message.split(';').next(),
        Some("the file has 11 bytes, more than the maximum of 10 bytes")
    );
    assert_eq!(rejection.errors[3].message.split(';').next(), Some("a message can have at most 3 files"));
}

#[test]
fn images_of_the_conversation_count() {
    let limits = AttachmentLimits { images_per_request: 3, ..AttachmentLimits::default() };
    let of = |images, items| codes(&plan_attachments(items, &limits, ConversationSize { images, bytes: 0 }));
    assert_eq!(of(2, vec![image()]), [None]);
    assert_eq!(of(2, vec![image(), file("a.txt", "x"), image()]), [None, None, PAYLOAD]);
    assert_eq!(of(3, vec![file("a.txt", "x")]), [None], "text does not count as an image");
    let rejection = plan_attachments(vec![image()], &limits, ConversationSize { images: 3, bytes: 0 }).unwrap_err();
    let sentence = &rejection.errors[0].message;
    assert!(sentence.contains("more than 3 images; compact it, remove images"), "{sentence}");
}

#[test]
fn no_image_exceeds_the_maximum_edge() {
    let many = ConversationSize { images: 20, bytes: 0 };
    let film = vec![file("film.gif", gif::animated(2001, 2, 2))];
    assert_eq!(codes(&plan_attachments(film, &AttachmentLimits::default(), many)), [TOO_LARGE]);
    let wide = vec![file("wide.png", encoded(&gradient(2400, 2), ImageFormat::Png))];
    let sent =
        plan_attachments(wide, &AttachmentLimits { image_edge_pixels: 4000, ..AttachmentLimits::default() }, many)
            .unwrap();
    assert_eq!(sent.summaries()[0].width, Some(AttachmentLimits::MAX_IMAGE_EDGE_PIXELS));
}

#[test]
fn conversation_and_agent_line_are_limited_by_serialized_size() {
    let full = ConversationSize { images: 0, bytes: 31_999_000 };
    let rejection =
        plan_attachments(vec![file("a.txt", "x".repeat(1000))], &AttachmentLimits::default(), full).unwrap_err();
    assert_eq!(rejection.errors[0].code, AttachmentErrorCode::PayloadTooLarge);
    let sentence = &rejection.errors[0].message;
    assert!(sentence.contains("compact it, remove images of earlier messages"), "{sentence}");
    assert!(plan_attachments(vec![file("a.txt", "x".repeat(100))], &AttachmentLimits::default(), full).is_ok());

    // Escaped characters and base64 take more space than the original.
    let line = AttachmentLimits { agent_line_bytes: 3000, ..AttachmentLimits::default() };
    let of = |item| codes(&plan_attachments(vec![item], &line, ConversationSize::default()));
    assert_eq!(of(file("a.txt", "x".repeat(2500))), [None]);
    assert_eq!(of(file("a.txt", "\n".repeat(2500))), [PAYLOAD]);
    let mut document = pdf::pages(1);
    document.splice(9..9, [&b"%"[..], &[b'x'; 1500], b"\n"].concat());
    assert_eq!(of(file("a.pdf", document)), [None]);
    let mut document = pdf::pages(1);
    document.splice(9..9, [&b"%"[..], &[b'x'; 2000], b"\n"].concat());
    assert_eq!(of(file("a.pdf", document)), [PAYLOAD]);
}

#[test]
fn planning_can_be_cancelled_between_files() {
    let asked = Cell::new(0);
    let abandoned = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    assert!(
        plan_attachments_cancellable(
            texts(5, 1),
            &AttachmentLimits::default(),
            ConversationSize::default(),
            &abandoned
        )
        .is_none()
    );
    assert_eq!(asked.get(), 3);
    assert!(
        plan_attachments_cancellable(texts(5, 1), &AttachmentLimits::default(), ConversationSize::default(), &|| false)
            .unwrap()
            .is_ok()
    );
}

#[test]
fn unchanged_contents_are_not_copied() {
    let bytes: Arc<[u8]> = encoded(&gradient(4, 4), ImageFormat::Png).into();
    let item = ReceivedAttachment::new("a.png", AttachmentSource::Bytes(Arc::clone(&bytes)));
    let plan = plan_attachments(vec![item], &AttachmentLimits::default(), ConversationSize::default()).unwrap();
    let hostler_attachments::AttachmentBlock::Image { data, .. } = &plan.attachments[0].block else {
        panic!("an image")
    };
    assert!(Arc::ptr_eq(data, &bytes));
}
