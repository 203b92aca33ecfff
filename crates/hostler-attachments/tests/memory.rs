//! Small files that unpack to large contents take limited memory.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod support;

use hostler_attachments::{AttachmentLimits, ConversationSize, ReceivedAttachment, plan_attachments};
use image::{DynamicImage, ImageFormat};
use support::{encoded, file, gif, pdf, png, webp};

/// Memory in addition to the pixels that the limits allow.
const MEMORY_TOLERANCE_BYTES: usize = 96 << 20;

/// The increase of memory at its peak.
fn peak_of(item: ReceivedAttachment, limits: &AttachmentLimits) -> usize {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    let _decided = plan_attachments(vec![item], limits, ConversationSize::default());
    status("VmHWM:").saturating_sub(before)
}

fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// A single test, because parallel tests would be measured, too.
#[test]
fn decompression_bombs_take_no_more_memory_than_the_allowed_pixels() {
    let limits = AttachmentLimits { image_pixels: 4_000_000, ..AttachmentLimits::default() };
    let pixels = 10 * usize::try_from(limits.image_pixels).unwrap();
    let zeros = png::packed_zeros(256 << 20);
    let profile = png::chunk(b"iCCP", &[b"x\0\0", &zeros[..]].concat());
    let text = png::chunk(b"zTXt", &[b"x\0\0", &zeros[..]].concat());
    let black = encoded(&DynamicImage::new_rgb8(2000, 2000), ImageFormat::Png);
    let layers = webp::animated(&encoded(&DynamicImage::new_rgba8(2000, 2000), ImageFormat::WebP), 2000, 2000, 400);
    for (name, bytes) in [
        ("an image of few pixels that expands to 256 megabytes", png::lying(64, 64, &zeros)),
        ("an image of all pixels that expands to 256 megabytes", png::lying(2000, 2000, &zeros)),
        ("a color profile that expands to 256 megabytes", png::with_chunks(&black, &profile)),
        ("a comment that unpacks to 256 megabytes", png::with_chunks(&black, &text)),
        ("an image of the maximum size", black),
        ("a head that promises four gigapixels", png::lying(65_535, 65_535, &zeros)),
        ("a frame larger than its film", gif::lying((4, 4), (65_535, 65_535))),
        ("a film that unpacks to 320 megabytes", gif::animated(2000, 2000, 20)),
        ("another one", layers),
        ("a lossless head", webp::lying(16_384, 16_384)),
        ("a document that unpacks to 256 megabytes", pdf::bomb(256 << 20, 1)),
        ("a document in parts that unpack to 90 megabytes", pdf::bomb(3 << 20, 30)),
    ] {
        assert!(bytes.len() <= limits.file_bytes, "{name}: {}", bytes.len());
        let peak = peak_of(file("x", bytes), &limits);
        assert!(peak <= pixels + MEMORY_TOLERANCE_BYTES, "{name} takes {} MiB", peak >> 20);
    }
}
