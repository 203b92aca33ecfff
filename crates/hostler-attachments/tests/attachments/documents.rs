//! PDF documents: sent unchanged if they can be opened.

use hostler_attachments::{AttachmentBlock, AttachmentErrorCode, AttachmentKind, AttachmentLimits};

use crate::support::{file, pdf, plan_within, position, refused, sent};

fn pages(bytes: &[u8]) -> usize {
    let file = sent(file("paper.pdf", bytes));
    let AttachmentBlock::Pdf { data, .. } = &file.block else { panic!("a document") };
    assert_eq!(&**data, bytes, "it is sent as it is");
    let AttachmentKind::Pdf { pages } = file.kind else { panic!("a document") };
    pages
}

#[test]
fn pages_are_counted_with_and_without_object_streams() {
    for count in [1, 7, 100] {
        assert_eq!(pages(&pdf::pages(count)), count);
        assert_eq!(pages(&pdf::modern(count)), count);
    }
}

#[test]
fn pages_of_the_last_revision_are_counted() {
    let mut changed = pdf::pages(3);
    changed.extend(b"2 0 obj\n<< /Type /Pages /Count 1 /Kids [4 0 R] >>\nendobj\n");
    changed.extend(b"xref\n0 0\ntrailer\n<< /Size 6 /Root 1 0 R /Prev 9 >>\nstartxref\n9\n%%EOF\n");
    assert_eq!(pages(&changed), 1);
}

#[test]
fn pages_are_found_in_nested_trees_and_untyped_nodes_and_cycles_end() {
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Count 99 /Kids 3 0 R >>",
        "[4 0 R 5 0 R 2 0 R]",
        "<< /Kids [5 0 R 6 0 R 4 0 R 3 0 R] /Parent 2 0 R >>",
        "<< /Type /Page /Parent 4 0 R >>",
        "<< /Parent 4 0 R /MediaBox [0 0 1 1] >>",
    ];
    assert_eq!(pages(&pdf::written(&objects.map(str::to_owned), "/Root 1 0 R")), 2);
}

#[test]
fn pages_of_an_embedded_document_are_not_counted() {
    let inner = String::from_utf8(pdf::pages(9)).unwrap();
    let objects = [
        "<< /Type /Catalog /Pages 3 0 R >>".to_owned(),
        format!("<< /Length {} >>\nstream\n{inner}\nendstream", inner.len()),
        "<< /Type /Pages /Kids [4 0 R] /Note (a stream\nof text) >>".to_owned(),
        "<< /Type /Page /Parent 3 0 R >>".to_owned(),
    ];
    assert_eq!(pages(&pdf::written(&objects, "/Root 1 0 R")), 1);
}

#[test]
fn too_many_pages_are_rejected_with_their_number() {
    for bytes in [pdf::pages(500), pdf::modern(500)] {
        let (code, sentence) = refused(file("book.pdf", bytes));
        assert_eq!(code, AttachmentErrorCode::TooLarge);
        assert!(sentence.starts_with("the document has 500 pages, more than the maximum of 100"), "{sentence}");
    }
    let few = AttachmentLimits { pdf_pages: 2, ..AttachmentLimits::default() };
    assert_eq!(plan_within(file("a.pdf", pdf::pages(3)), &few).unwrap_err().code, AttachmentErrorCode::TooLarge);
}

#[test]
fn an_encrypted_document_is_rejected_with_advice() {
    let mut objects = vec!["<< /Type /Catalog /Pages 2 0 R >>".to_owned()];
    objects.push("<< /Type /Pages /Kids [3 0 R] >>".to_owned());
    objects.push("<< /Type /Page /Parent 2 0 R >>".to_owned());
    objects.push("<< /Filter /Standard /V 2 /R 3 /P -44 /O (x) /U (x) >>".to_owned());
    let (code, sentence) = refused(file("secret.pdf", pdf::written(&objects, "/Root 1 0 R /Encrypt 4 0 R")));
    assert_eq!(code, AttachmentErrorCode::TypeUnsupported);
    assert!(sentence.contains("save it without protection"), "{sentence}");
}

#[test]
fn a_truncated_document_is_corrupt() {
    for whole in [pdf::pages(3), pdf::modern(3)] {
        let end = position(&whole, b"startxref").unwrap();
        for length in (5..end).step_by(whole.len() / 23) {
            let (code, sentence) = refused(file("cut.pdf", &whole[..length]));
            assert_eq!(code, AttachmentErrorCode::Corrupt, "{length} of {}: {sentence}", whole.len());
        }
    }
}

#[test]
fn a_document_without_pages_is_corrupt() {
    let none = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 5 /Kids [] >>"].map(str::to_owned);
    for bytes in [pdf::written(&none, "/Root 1 0 R"), pdf::written(&none, "/Root 7 0 R"), pdf::written(&[], "")] {
        let (code, sentence) = refused(file("none.pdf", bytes));
        assert_eq!(code, AttachmentErrorCode::Corrupt);
        assert!(sentence.contains("damaged or has no pages"), "{sentence}");
    }
}

#[test]
fn documents_that_unpack_to_too_much_are_rejected() {
    // One object stream that exceeds the limit, and many that exceed it together.
    for bytes in [pdf::bomb(64 << 20, 1), pdf::bomb(3 << 20, 30)] {
        assert!(bytes.len() < 1 << 20);
        let (code, sentence) = refused(file("bomb.pdf", bytes));
        assert_eq!(code, AttachmentErrorCode::TooLarge);
        assert!(sentence.contains("expands to too much data"), "{sentence}");
    }
}

#[test]
fn streams_with_too_many_filters_are_not_unpacked() {
    let objects = "<< /Type /Catalog /Pages 2 0 R >> << /Type /Pages /Kids [3 0 R] >> << /Type /Page >>";
    let document = |packed: usize| {
        let hex: String = objects.bytes().map(|byte| format!("{byte:02x}")).collect();
        let index: String = "1 0 2 34 3 67 ".bytes().map(|byte| format!("{byte:02x}")).collect();
        let filters = format!("/ASCIIHexDecode {}", "/Crypt ".repeat(packed - 1));
        let part = format!("<< /Type /ObjStm /N 3 /First 14 /Filter [{filters}] >>\nstream\n{index}{hex}>\nendstream");
        pdf::written(&[String::new(), String::new(), String::new(), part], "/Root 1 0 R")
    };
    assert_eq!(pages(&document(1)), 1);
    assert_eq!(refused(file("deep.pdf", document(5))).0, AttachmentErrorCode::Corrupt);
}
