//! Contents, paths and declared types appear only in the blocks.

use std::path::PathBuf;

use hostler_attachments::{
    AttachmentBlock, AttachmentLimits, AttachmentSource, ConversationSize, FileReference, FileReferenceKind,
    LineSelection, MessagesApiBlock, ReceivedAttachment, plan_attachments,
};
use image::ImageFormat;

use crate::support::{base64, encoded, file, gradient, jpeg, pdf, png};

const SECRET: &str = "hunter2-TOP-SECRET-k3y";

/// Whether a text contains the secret, or its base64 at any alignment.
fn leaks(text: &str) -> bool {
    let encodings = (0..3).map(|shift| {
        let shifted = base64(&[&vec![b' '; shift][..], SECRET.as_bytes()].concat());
        // The ends depend on the adjacent bytes.
        shifted.chars().skip(4).take(shifted.len() - 8).collect()
    });
    let bytes = format!("{:?}", SECRET.as_bytes());
    let listed = bytes.trim_matches(['[', ']']).to_owned();
    [SECRET.to_owned(), listed].into_iter().chain(encodings).any(|form| text.contains(&form))
}

/// Attachments of every outcome with the secret in all of their parts.
fn items() -> Vec<ReceivedAttachment> {
    let secret = SECRET.as_bytes();
    let image = gradient(40, 30);
    let chunk = png::chunk(b"tEXt", &[b"Comment\0", secret].concat());
    let png_file = png::with_chunks(&encoded(&image, ImageFormat::Png), &chunk);
    let jpeg_file = jpeg::with_segments(&encoded(&image, ImageFormat::Jpeg), &jpeg::segment(0xfe, secret));
    let mut document = pdf::pages(1);
    document.splice(9..9, [b"%", secret, b"\n"].concat());
    let place = |selection| {
        AttachmentSource::Reference(FileReference {
            path: PathBuf::from(format!("/home/{SECRET}/main.rs")),
            kind: FileReferenceKind::File,
            selection,
        })
    };
    let selection = LineSelection { first_line: 1, last_line: 2, text: Some(SECRET.to_owned()) };
    let contents: Vec<Vec<u8>> = vec![
        secret.to_vec(),
        png_file.clone(),
        jpeg_file,
        document.clone(),
        [&[0], secret].concat(),
        [b"PK\x03\x04", secret].concat(),
        [b"\xff\xfe", secret, b"x"].concat(),
        png_file[..png_file.len() - 9].to_vec(),
        document[..document.len() - 99].to_vec(),
        [&png_file[..], b"PK\x05\x06", &[0; 18]].concat(),
        [b"GIF89a", secret].concat(),
        secret.repeat(600_000),
    ];
    let mut items = Vec::new();
    for bytes in contents {
        let name = format!("/home/{SECRET}/a.png");
        items.push(ReceivedAttachment {
            declared_media_type: Some(format!("text/{SECRET}")),
            ..file(&name, bytes.clone())
        });
        items.push(ReceivedAttachment {
            declared_size: Some(7),
            ..ReceivedAttachment::new(name, AttachmentSource::Base64(base64(&bytes)))
        });
        items.push(file("b.txt", bytes));
    }
    items.push(ReceivedAttachment::new("c", AttachmentSource::Base64(SECRET.to_owned())));
    items.push(ReceivedAttachment::new("d", AttachmentSource::Text(SECRET.to_owned())));
    items.push(ReceivedAttachment::new("main.rs", place(None)));
    items.push(ReceivedAttachment::new("main.rs", place(Some(selection))));
    items
}

#[test]
fn only_the_blocks_contain_the_secret() {
    let tight = AttachmentLimits { image_bytes: 60, ..AttachmentLimits::default() };
    let full = ConversationSize { images: 100, bytes: 32_000_000 };
    let (mut accepted, mut refused) = (0, 0);
    for item in items() {
        assert!(!leaks(&format!("{item:?} {:?}", item.source)), "an item's Debug");
        for (limits, history) in [
            (&AttachmentLimits::default(), ConversationSize::default()),
            (&tight, ConversationSize::default()),
            (&tight, full),
        ] {
            let printed = match plan_attachments(vec![item.clone()], limits, history) {
                Ok(plan) => {
                    accepted += 1;
                    let claude: Vec<_> =
                        plan.attachments.iter().map(|file| format!("{:?}", MessagesApiBlock(&file.block))).collect();
                    let summaries = serde_json::to_string(&plan.summaries()).unwrap();
                    format!("{plan:?} {plan:#?} {:?} {claude:?} {summaries} {:?}", plan.blocks(), plan.diagnostics())
                }
                Err(rejection) => {
                    refused += 1;
                    let files = serde_json::to_string(&rejection.summaries).unwrap();
                    format!("{rejection} {rejection:?} {rejection:#?} {files} {:?}", rejection.diagnostics())
                }
            };
            assert!(!leaks(&printed), "{printed}");
            assert!(!printed.contains("/home"), "a path: {printed}");
        }
    }
    assert!(accepted > 10 && refused > 40, "{accepted} and {refused}");
}

#[test]
fn the_leak_check_detects_the_secret() {
    let detected = leaks(&format!("x{SECRET}")) && leaks(&base64(format!("ab{SECRET}cd").as_bytes()));
    assert!(detected && leaks(&format!("{:?}", SECRET.as_bytes())));
    // The blocks contain it, so they are never printed.
    let file = plan_attachments(vec![file("a.txt", SECRET)], &AttachmentLimits::default(), ConversationSize::default())
        .unwrap()
        .attachments
        .remove(0);
    assert!(matches!(&file.block, AttachmentBlock::Text { text, .. } if leaks(text)));
    assert!(leaks(&serde_json::to_string(&MessagesApiBlock(&file.block)).unwrap()));
}
