//! For any input, nothing panics and accepted attachments are within every limit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod support;

use hostler_attachments::{
    AttachmentBlock, AttachmentKind, AttachmentLimits, AttachmentPlan, AttachmentSource, ConversationSize,
    ReceivedAttachment, plan_attachments,
};
use image::ImageFormat;
use proptest::prelude::*;
use support::{encoded, file, gif, gradient, jpeg, noise, pdf, png, veiled, webp};

fn limits() -> AttachmentLimits {
    AttachmentLimits {
        image_pixels: 1_000_000,
        image_edge_pixels: 100,
        image_bytes: 9_000,
        pdf_pages: 5,
        ..AttachmentLimits::default()
    }
}

fn holds(plan: &AttachmentPlan, limits: &AttachmentLimits) {
    for file in &plan.attachments {
        match (&file.block, &file.kind) {
            (AttachmentBlock::Image { data, .. }, AttachmentKind::Image { width, height }) => {
                assert!(data.len() <= limits.image_bytes);
                let image = image::load_from_memory(data).expect("a decodable image");
                assert_eq!((image.width(), image.height()), (*width, *height));
                assert!(*width.max(height) <= AttachmentLimits::MAX_IMAGE_EDGE_PIXELS);
            }
            (AttachmentBlock::Pdf { .. }, AttachmentKind::Pdf { pages }) => {
                assert!((1..=limits.pdf_pages).contains(pages))
            }
            (AttachmentBlock::Text { text, .. }, AttachmentKind::Text) => assert!(!text.contains('\0')),
            (block, kind) => panic!("{block:?} is no {kind:?}"),
        }
    }
}

/// Valid files to derive others from.
fn good() -> Vec<Vec<u8>> {
    let small = gradient(30, 20);
    let webp_file = encoded(&small, ImageFormat::WebP);
    vec![
        encoded(&small, ImageFormat::Png),
        encoded(&veiled(300, 20), ImageFormat::Png),
        jpeg::with_segments(&encoded(&small, ImageFormat::Jpeg), &jpeg::exif_segment(6)),
        jpeg::cmyk(0xc0, 16, 16, [9, 99, 0, 50]),
        encoded(&small, ImageFormat::Gif),
        gif::animated(20, 20, 3),
        webp_file.clone(),
        webp::with_metadata(&webp_file, 30, 20, &support::exif(3)),
        webp::animated(&webp_file, 30, 20, 2),
        png::with_chunks(&encoded(&small, ImageFormat::Png), &png::chunk(b"eXIf", &support::exif(8))),
        pdf::pages(3),
        pdf::modern(3),
        b"\xff\xfea\0b\0".to_vec(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_accepted_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..400), name in ".{0,20}", head in 0..8_usize) {
        let heads: [&[u8]; 8] =
            [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\x40\0\0\0WEBP", b"%PDF-1.7\n", b"\xff\xfe", b"\xfe\xff"];
        let item = ReceivedAttachment::new(name, AttachmentSource::Bytes([heads[head], &bytes].concat().into()));
        if let Ok(plan) = plan_attachments(vec![item], &limits(), ConversationSize::default()) {
            holds(&plan, &limits());
        }
    }

    #[test]
    fn valid_files_with_changed_bytes_are_accepted_or_rejected(
        which in 0..13_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = good().swap_remove(which);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(plan) = plan_attachments(vec![file("x", bytes)], &limits(), ConversationSize::default()) {
            holds(&plan, &limits());
        }
    }

    #[test]
    fn base64_is_accepted_exactly_if_it_is_canonical(text in "[A-Za-z0-9+/=]{0,12}") {
        use base64::Engine as _;
        let proper = base64::engine::general_purpose::STANDARD.decode(&text).is_ok_and(|bytes| support::base64(&bytes) == text);
        let outcome = plan_attachments(vec![ReceivedAttachment::new("x", AttachmentSource::Base64(text))], &AttachmentLimits::default(), ConversationSize::default());
        let refused = outcome.as_ref().err().is_some_and(|rejection| rejection.to_string().contains("canonical base64"));
        prop_assert_eq!(refused, !proper);
    }
}

proptest! {
    // Each case encodes an image several times.
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn images_of_any_size_are_within_the_limits(width in 1..200_u32, height in 1..200_u32, alpha: bool, form in 0..4_usize) {
        let format = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP][form];
        let image = noise(width, height, alpha && format != ImageFormat::Jpeg);
        let plan = plan_attachments(vec![file("x", encoded(&image, format))], &limits(), ConversationSize::default()).unwrap();
        holds(&plan, &limits());
        let AttachmentKind::Image { width: sent_width, height: sent_height } = plan.attachments[0].kind else { panic!("an image") };
        prop_assert!(sent_width <= width.min(100) && sent_height <= height.min(100), "never larger");
    }
}
