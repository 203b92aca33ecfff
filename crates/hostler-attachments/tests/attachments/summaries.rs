//! Summaries for clients, and diagnostics.

use hostler_attachments::{AttachmentErrorCode, AttachmentPlanError};
use image::ImageFormat;

use crate::support::{encoded, file, gradient, pdf, plan_all};

#[test]
fn a_plan_has_a_summary_for_each_file() {
    let items = vec![
        file("/home/me/wide.jpg", encoded(&gradient(1600, 80), ImageFormat::Png)),
        file("paper.pdf", pdf::pages(2)),
        file("a.txt", "four"),
    ];
    let mut summaries = serde_json::to_value(plan_all(items).unwrap().summaries()).unwrap();
    let bytes = summaries[0]["bytes"].take();
    assert!(bytes.as_u64().is_some_and(|bytes| bytes > 1000), "the size of an image depends on its encoder: {bytes}");
    insta::assert_json_snapshot!(summaries);
}

#[test]
fn a_rejection_has_a_summary_for_each_file() {
    let rejection = plan_all(vec![file("a.txt", ""), file("b.zip", *b"PK\x03\x04\x14\0")]).unwrap_err();
    insta::assert_json_snapshot!(rejection.summaries);
}

#[test]
fn diagnostics_contain_only_counts_kinds_sizes_and_codes() {
    let items = vec![file("a.txt", ""), file("b.zip", *b"PK\x03\x04\x14\0"), file("paper.pdf", pdf::pages(2))];
    insta::assert_json_snapshot!(plan_all(items).unwrap_err().diagnostics());
}

#[test]
fn a_single_error_becomes_a_plan_error() {
    let refusal = plan_all(vec![file("b.zip", *b"PK\x03\x04\x14\0")]).unwrap_err().errors.remove(0);
    let rejection = AttachmentPlanError::from(refusal.clone());
    assert_eq!(rejection.errors, [refusal]);
    assert_eq!(rejection.diagnostics().error_codes, [AttachmentErrorCode::TypeUnsupported]);
}
