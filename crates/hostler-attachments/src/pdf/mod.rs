//! PDF documents: counts pages and checks that they can be opened. Documents are sent unchanged.
//!
//! A document's page tree can reference one object a million times, or objects that unpack to gigabytes. So the file is
//! scanned once from start to end, each object is parsed at most once, and unpacking is limited. Time and memory are
//! proportional to the file's size.

mod objects;
mod page_tree;
mod scan;

use crate::AttachmentLimits;
use crate::rejection_reason::RejectionReason;

/// The number of pages of a document that can be sent.
pub(crate) fn count_pages(file: &[u8], limits: &AttachmentLimits) -> Result<usize, RejectionReason> {
    let scanned = scan::scan_pdf(file);
    if !has_startxref(file) || scanned.trailers.is_empty() {
        return Err(RejectionReason::corrupt(
            "the document is damaged or incomplete; save it again and attach the new file",
        ));
    }
    if scanned.trailers.iter().any(|trailer| trailer.has(b"Encrypt")) {
        return Err(RejectionReason::unsupported_type(
            "the document is encrypted; save it without protection and attach the new file",
        ));
    }
    let nodes = page_tree::PageTree::build(&scanned)?;
    match nodes.count_pages(scanned.trailers.iter().rev().find_map(|trailer| trailer.reference(b"Root"))) {
        0 => Err(RejectionReason::corrupt(
            "the document is damaged or has no pages; save it again and attach the new file",
        )),
        pages if pages > limits.pdf_pages => Err(RejectionReason::too_large(format!(
            "the document has {pages} pages, more than the maximum of {}; split it and attach the relevant pages",
            limits.pdf_pages
        ))),
        pages => Ok(pages),
    }
}

/// Whether the file ends with `startxref`, which readers look for from the end.
fn has_startxref(file: &[u8]) -> bool {
    const REACH: usize = 2048;
    let tail = file.get(file.len().saturating_sub(REACH)..).unwrap_or_default();
    scan::find_bytes(tail, b"startxref", 0).is_some()
}
