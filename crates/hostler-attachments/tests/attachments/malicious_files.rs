//! Malicious and damaged files: each is rejected with a code and a message.

use hostler_attachments::{AttachmentBlock, AttachmentErrorCode, AttachmentSource, ReceivedAttachment};
use image::ImageFormat;

use crate::support::{
    base64, encoded, file, gif, gradient, jpeg, noise, pdf, plan_all, png, refused, sent, warnings, webp,
};

const DAMAGED: &str = "the image is damaged";
const TWO_TYPES: &str = "the file is of two types at once";

fn program() -> Vec<u8> {
    [&b"\x7fELF\x02\x01\x01"[..], &[0; 57]].concat()
}

#[track_caller]
fn check(rows: Vec<(&str, Vec<u8>, AttachmentErrorCode, &str)>) {
    for (name, bytes, code, begin) in rows {
        let (found, message) = refused(file(name, bytes));
        assert_eq!(found, code, "{name}: {message}");
        assert!(message.starts_with(begin), "{name}: {message}");
    }
}

#[test]
fn files_with_a_wrong_name_or_type_are_rejected_or_sent_as_detected() {
    let png_file = encoded(&gradient(4, 4), ImageFormat::Png);
    check(vec![
        (
            "page.png",
            b"<html>not found</html>".to_vec(),
            AttachmentErrorCode::Corrupt,
            "the file is labeled as a PNG image but is not one",
        ),
        ("empty.jpg", Vec::new(), AttachmentErrorCode::Corrupt, "the file is labeled as a JPEG image but is not one"),
        (
            "paper.pdf",
            b"PK\x03\x04\0\0\0\0".to_vec(),
            AttachmentErrorCode::Corrupt,
            "the file is labeled as a PDF document but is not one",
        ),
        (
            "a.webp",
            vec![0, 1, 2, 3],
            AttachmentErrorCode::Corrupt,
            "the file is labeled as a WebP image but is not one",
        ),
    ]);
    // Contents of another supported type are sent as that type, with a warning.
    let misnamed = sent(file("photo.jpg", png_file.clone()));
    assert_eq!(misnamed.block.content_type(), Some("image/png"));
    assert_eq!(
        misnamed.warnings[0].message,
        "the file is labeled as a JPEG image but is a PNG image, and is sent as such"
    );
    let declared = ReceivedAttachment {
        declared_media_type: Some("application/pdf; x=y".to_owned()),
        ..file("photo.png", png_file.clone())
    };
    assert_eq!(warnings(&sent(declared)), ["mislabelled"]);
    for declared in ["image/png", "IMAGE/PNG", "application/octet-stream", "nonsense"] {
        let item =
            ReceivedAttachment { declared_media_type: Some(declared.to_owned()), ..file("photo", png_file.clone()) };
        assert!(sent(item).warnings.is_empty(), "{declared}");
    }
    let jpg = ReceivedAttachment {
        declared_media_type: Some("image/jpg".to_owned()),
        ..file("a.jpeg", encoded(&gradient(4, 4), ImageFormat::Jpeg))
    };
    assert!(sent(jpg).warnings.is_empty());
}

#[test]
fn unsupported_types_are_rejected() {
    let by_path = "put it in the workspace and attach its path instead";
    let mut tar = vec![0; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    check(vec![
        ("a.zip", b"PK\x03\x04\0\0\0\0".to_vec(), AttachmentErrorCode::TypeUnsupported, "the file is an archive"),
        ("a.tar", tar, AttachmentErrorCode::TypeUnsupported, "the file is an archive"),
        ("a.mp3", b"ID3\x03\0\0".to_vec(), AttachmentErrorCode::TypeUnsupported, "the file is an audio file"),
        (
            "a.mp4",
            b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom".to_vec(),
            AttachmentErrorCode::TypeUnsupported,
            "the file is a video",
        ),
        ("a.out", program(), AttachmentErrorCode::TypeUnsupported, "the file is a program"),
        (
            "a.bmp",
            b"BM\0\0\0\0\0\0\0\0\x36\0\0\0".to_vec(),
            AttachmentErrorCode::TypeUnsupported,
            "the image format is not supported",
        ),
        (
            "a.heic",
            b"\0\0\0\x18ftypheic\0\0\0\0mif1heic".to_vec(),
            AttachmentErrorCode::TypeUnsupported,
            "the image format is not supported",
        ),
        ("a.bin", vec![7, 0, 9], AttachmentErrorCode::TypeUnsupported, "the file is binary and of an unsupported type"),
        (
            "latin.txt",
            b"caf\xe9".to_vec(),
            AttachmentErrorCode::TypeUnsupported,
            "the file is neither UTF-8 text nor a supported type",
        ),
        (
            "wide.txt",
            b"\xff\xfea".to_vec(),
            AttachmentErrorCode::Corrupt,
            "the file starts like UTF-16 text but is not valid",
        ),
        ("wider.txt", b"\xff\xfe\0\0a\0\0\0".to_vec(), AttachmentErrorCode::TypeUnsupported, "the file is binary"),
    ]);
    for bytes in [&b"PK\x03\x04\0\0\0\0"[..], &[7, 0, 9], b"caf\xe9"] {
        let (_, message) = refused(file("x", bytes));
        assert!(message.contains(by_path), "{message}");
    }
    // Text that starts like another format.
    assert!(matches!(sent(file("cars.txt", "BMW is a car")).block, AttachmentBlock::Text { .. }));
    assert!(matches!(sent(file("drawing.svg", "<svg/>")).block, AttachmentBlock::Text { .. }));
}

#[test]
fn polyglot_files_are_rejected() {
    let simple = gradient(4, 4);
    let zip_end = [&b"PK\x05\x06"[..], &[0; 16], &[3, 0], b"hey"].concat();
    let png_file = encoded(&simple, ImageFormat::Png);
    let jpeg_file = encoded(&simple, ImageFormat::Jpeg);
    let gif_file = encoded(&simple, ImageFormat::Gif);
    let with_pdf = jpeg::with_segments(&jpeg_file, &jpeg::segment(0xfe, b"%PDF-1.4 and so on"));
    check(vec![
        ("zip.png", [&png_file[..], &zip_end].concat(), AttachmentErrorCode::Corrupt, TWO_TYPES),
        ("zip.gif", [&gif_file[..], b"PK\x03\x04", &zip_end].concat(), AttachmentErrorCode::Corrupt, TWO_TYPES),
        ("zip.pdf", [&pdf::pages(1)[..], &zip_end].concat(), AttachmentErrorCode::Corrupt, TWO_TYPES),
        ("pdf.jpg", with_pdf, AttachmentErrorCode::Corrupt, TWO_TYPES),
        ("pdf.png", [&png_file[..], &pdf::pages(1)].concat(), AttachmentErrorCode::Corrupt, TWO_TYPES),
        ("program.png", [&png_file[..], &program()].concat(), AttachmentErrorCode::Corrupt, TWO_TYPES),
        ("page.jpg", [&jpeg_file[..], b"<html><script>"].concat(), AttachmentErrorCode::Corrupt, TWO_TYPES),
        ("script.gif", b"GIF89a/*\0\0\0\0\0*/=1;alert(1)".to_vec(), AttachmentErrorCode::Corrupt, DAMAGED),
    ]);
}

#[test]
fn truncated_images_are_rejected() {
    let simple = noise(24, 24, false);
    for (name, whole) in [
        ("a.png", encoded(&simple, ImageFormat::Png)),
        ("a.jpg", encoded(&simple, ImageFormat::Jpeg)),
        ("a.gif", encoded(&simple, ImageFormat::Gif)),
        ("a.webp", encoded(&simple, ImageFormat::WebP)),
        ("video.gif", gif::animated(8, 8, 3)),
        ("video.webp", webp::animated(&encoded(&simple, ImageFormat::WebP), 24, 24, 2)),
    ] {
        assert!(sent(file(name, whole.clone())).warnings.is_empty(), "{name}");
        for length in (0..whole.len()).step_by(whole.len() / 60 + 1) {
            let (code, message) = refused(file(name, &whole[..length]));
            assert_eq!(code, AttachmentErrorCode::Corrupt, "{length} bytes of {name}: {message}");
        }
    }
}

#[test]
fn images_with_damaged_pixels_are_rejected() {
    let png_file = encoded(&noise(24, 24, false), ImageFormat::Png);
    let mut flipped = png_file.clone();
    flipped[png_file.len() / 2] ^= 0x55;
    check(vec![
        ("flipped.png", flipped, AttachmentErrorCode::Corrupt, DAMAGED),
        ("nothing.png", png::lying(4, 4, b""), AttachmentErrorCode::Corrupt, DAMAGED),
        ("noise.png", png::lying(4, 4, b"no pixels at all"), AttachmentErrorCode::Corrupt, DAMAGED),
        (
            "no-pixels.png",
            [png::MAGIC, &png::header(4, 4, 8, 2), &png::chunk(b"IEND", b"")].concat(),
            AttachmentErrorCode::Corrupt,
            DAMAGED,
        ),
        ("lossless.webp", webp::lying(300, 300), AttachmentErrorCode::Corrupt, DAMAGED),
    ]);
}

#[test]
fn excessive_dimensions_are_rejected_before_decoding() {
    let few = b"x\x01\x03\0\0\0\0\x01";
    let pixels = "pixels, more than the maximum of 64 million; reduce its size";
    for (width, height) in [(30_000, 30_000), (65_535, 65_535), (8_001, 8_000), (64_000_001, 1)] {
        let (code, message) = refused(file("huge.png", png::lying(width, height, few)));
        assert_eq!(
            (code, message),
            (AttachmentErrorCode::TooLarge, format!("the image has {width} × {height} {pixels}"))
        );
    }
    let taken = refused(file("large.png", png::lying(8_000, 8_000, few)));
    assert_eq!(taken.0, AttachmentErrorCode::Corrupt, "its size alone is accepted: {}", taken.1);

    let deep = [png::MAGIC, &png::header(8_000, 5_000, 16, 6), &png::chunk(b"IDAT", few), &png::chunk(b"IEND", b"")];
    let none = png::lying(0, 4, few);
    check(vec![
        (
            "deep.png",
            deep.concat(),
            AttachmentErrorCode::TooLarge,
            "the image has 8000 × 5000 pixels, more than the maximum of 32 million",
        ),
        ("none.png", none, AttachmentErrorCode::Corrupt, "the image has no pixels"),
        (
            "huge.gif",
            gif::lying((30_000, 30_000), (1, 1)),
            AttachmentErrorCode::TooLarge,
            "the image has 30000 × 30000",
        ),
        ("frame.gif", gif::lying((4, 4), (65_535, 65_535)), AttachmentErrorCode::TooLarge, "the image has 4 × 4"),
        ("huge.webp", webp::lying(16_384, 16_384), AttachmentErrorCode::TooLarge, "the image has 16384 × 16384"),
        (
            "canvas.webp",
            webp::riff(&[webp::extended(0, 1 << 24, 1 << 24), webp::pixels(&webp::lying(4, 4))]),
            AttachmentErrorCode::TooLarge,
            "the image has 16777216",
        ),
        (
            "huge.jpg",
            jpeg::cmyk(0xc0, 65_000, 1_000, [0; 4]),
            AttachmentErrorCode::TooLarge,
            "the image has 65000 × 1000",
        ),
    ]);
}

#[test]
fn images_with_contradicting_dimensions_are_rejected() {
    let small = encoded(&gradient(4, 4), ImageFormat::WebP);
    let two = webp::riff(&[webp::extended(0, 40, 40), webp::pixels(&small)]);
    let jpeg_file = encoded(&gradient(4, 4), ImageFormat::Jpeg);
    let frame = jpeg::segment(0xc0, &[8, 0, 90, 0, 90, 1, 1, 0x11, 0]);
    check(vec![
        ("two.webp", two, AttachmentErrorCode::Corrupt, DAMAGED),
        ("two.jpg", jpeg::with_segments(&jpeg_file, &frame), AttachmentErrorCode::Corrupt, DAMAGED),
    ]);
}

#[test]
fn rare_encodings_are_rejected() {
    // Arithmetic coding with a valid JPEG header.
    let (code, message) = refused(file("rare.jpg", jpeg::cmyk(0xc9, 8, 8, [0; 4])));
    assert_eq!(code, AttachmentErrorCode::OptimizationFailed);
    assert!(message.contains("save it again as PNG or JPEG"), "{message}");
}

#[test]
fn non_canonical_base64_is_rejected() {
    let proper = base64(&encoded(&gradient(4, 4), ImageFormat::Png));
    assert!(sent(ReceivedAttachment::new("a.png", AttachmentSource::Base64(proper.clone()))).warnings.is_empty());
    for text in [
        format!("{proper}\n"),
        proper.replacen("AAAA", "AA\nAA", 1),
        format!("data:image/png;base64,{proper}"),
        proper.trim_end_matches('=').to_owned() + "=====",
        "Zh==".to_owned(),
        "Zg".to_owned(),
        "%%%%".to_owned(),
    ] {
        let (code, message) = refused(ReceivedAttachment::new("a.png", AttachmentSource::Base64(text)));
        assert_eq!(code, AttachmentErrorCode::Corrupt);
        assert!(message.starts_with("the contents are not canonical base64"), "{message}");
    }
}

#[test]
fn wrong_declared_sizes_are_rejected() {
    let announced = |size| ReceivedAttachment { declared_size: Some(size), ..file("a.txt", "four") };
    assert!(sent(announced(4)).warnings.is_empty());
    for size in [0, 3, 5, u64::MAX] {
        let (code, message) = refused(announced(size));
        assert_eq!(code, AttachmentErrorCode::Corrupt);
        assert!(message.starts_with("the file has 4 bytes, which is not the declared size"), "{message}");
    }
    let carried = ReceivedAttachment {
        declared_size: Some(5),
        ..ReceivedAttachment::new("a.txt", AttachmentSource::Base64(base64(b"four")))
    };
    assert_eq!(refused(carried).0, AttachmentErrorCode::Corrupt);
}

#[test]
fn unusual_names_are_sanitized() {
    for (name, title) in [
        ("../../etc/passwd", "passwd"),
        ("a\nb\0c.txt", "abc.txt"),
        ("evil\u{202e}txt.exe", "eviltxt.exe"),
        ("\u{1b}[31mred", "[31mred"),
        ("/", "attachment"),
        ("/compact", "compact"),
    ] {
        let plan = plan_all(vec![file(name, "x")]).unwrap();
        assert_eq!(plan.attachments[0].name.as_str(), title, "{name:?}");
        assert!(
            matches!(&plan.attachments[0].block, AttachmentBlock::Text { title: shown, .. } if shown.as_str() == title)
        );
    }
    let long = sent(file(&"long ".repeat(2_000), "x"));
    assert!(long.name.as_str().chars().count() <= 180);
    let refusal = plan_all(vec![file(&format!("{}\n.zip", "x/".repeat(5_000)), *b"PK\x03\x04\x14\0")]).unwrap_err();
    assert_eq!(refusal.errors[0].name.as_str(), ".zip");
}
