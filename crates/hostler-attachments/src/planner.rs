//! Plans a message's attachments: checks sizes, probes, optimizes and builds blocks. All attachments are accepted, or
//! none.

use std::sync::Arc;

use crate::probe::{ImageHeader, ProbedContent};
use crate::rejection_reason::{self, RejectionReason};
use crate::text_decoding::DecodedText;
use crate::{
    AttachmentBlock, AttachmentDisposition, AttachmentError, AttachmentKind, AttachmentLimits, AttachmentPlan,
    AttachmentPlanError, AttachmentSource, AttachmentSummary, AttachmentWarning, ConversationSize, DisplayName,
    FileReference, OriginalContent, PlannedAttachment, ReceivedAttachment, VariantKey,
};
use crate::{base64, image, pdf, probe, references, size_checks};

/// Plans a message's attachments. This decodes images and is slow: call it on a blocking thread.
///
/// # Errors
/// If an attachment cannot be sent; the error lists all that cannot.
pub fn plan_attachments(
    items: Vec<ReceivedAttachment>,
    limits: &AttachmentLimits,
    history: ConversationSize,
) -> Result<AttachmentPlan, AttachmentPlanError> {
    // Never cancelled.
    plan_attachments_cancellable(items, limits, history, &|| false)
        .unwrap_or(Ok(AttachmentPlan { attachments: Vec::new() }))
}

/// Like [`plan_attachments`], but calls `abandoned` before each attachment; returns `None` if that is true.
///
/// Attachments are processed one after the other. Besides the received and the sent contents, only one image is in
/// memory at a time: about ten bytes per pixel, at most [`AttachmentLimits::image_pixels`].
pub fn plan_attachments_cancellable(
    items: Vec<ReceivedAttachment>,
    limits: &AttachmentLimits,
    history: ConversationSize,
    abandoned: &dyn Fn() -> bool,
) -> Option<Result<AttachmentPlan, AttachmentPlanError>> {
    let sizes: Vec<usize> = items.iter().map(received_bytes).collect();
    let admitted = size_checks::check_received_sizes(&sizes, limits);
    let mut files = Vec::with_capacity(items.len());
    for (item, admitted) in items.into_iter().zip(admitted) {
        if abandoned() {
            return None;
        }
        let name = DisplayName::new(&item.name);
        let file = admitted.and_then(|()| plan_attachment(item, &name, limits));
        files.push(file.map_err(|fault| fault.for_attachment(&name)));
    }
    size_checks::check_payload_size(&mut files, limits, history);
    let outcome = finish_plan(files, &sizes);
    match &outcome {
        Ok(plan) => tracing::debug!(diagnostics = ?plan.diagnostics(), "planned attachments"),
        Err(rejection) => tracing::debug!(diagnostics = ?rejection.diagnostics(), "rejected attachments"),
    }
    Some(outcome)
}

/// The maximum number of pixels in memory while planning these attachments, in pixels of four bytes. Nothing is decoded
/// for it, and attachments that cannot be sent count as zero.
#[must_use]
pub fn max_decoded_pixels(items: &[ReceivedAttachment], limits: &AttachmentLimits) -> u64 {
    let sizes: Vec<usize> = items.iter().map(received_bytes).collect();
    let admitted =
        items.iter().zip(size_checks::check_received_sizes(&sizes, limits)).filter(|(_, admitted)| admitted.is_ok());
    let pixels = admitted.filter_map(|(item, _)| {
        let data = match &item.source {
            AttachmentSource::Base64(text) => base64::decode(text).ok()?.into(),
            AttachmentSource::Bytes(data) => Arc::clone(data),
            AttachmentSource::Reference(_) | AttachmentSource::Text(_) => return None,
        };
        match probe::probe_content(&data, &item.name, item.declared_media_type.as_deref(), limits).ok()?.0 {
            ProbedContent::Image(header) => Some(header.decoded_pixels()),
            ProbedContent::Pdf | ProbedContent::Text(_) => None,
        }
    });
    pixels.max().unwrap_or(0)
}

/// Returns the plan if all attachments are accepted, otherwise the rejections.
fn finish_plan(
    files: Vec<Result<PlannedAttachment, AttachmentError>>,
    sizes: &[usize],
) -> Result<AttachmentPlan, AttachmentPlanError> {
    if files.iter().all(Result::is_ok) {
        return Ok(AttachmentPlan { attachments: files.into_iter().flatten().collect() });
    }
    let summary = |(file, size): (&Result<PlannedAttachment, AttachmentError>, &usize)| match file {
        Ok(file) => AttachmentSummary::from_planned(file, AttachmentDisposition::WouldSend),
        Err(refusal) => AttachmentSummary::from_error(refusal, Some(*size)),
    };
    let summaries = files.iter().zip(sizes).map(summary).collect();
    Err(AttachmentPlanError { errors: files.into_iter().filter_map(Result::err).collect(), summaries })
}

/// Received bytes, before decoding.
fn received_bytes(item: &ReceivedAttachment) -> usize {
    match &item.source {
        AttachmentSource::Base64(text) => base64::decoded_size(text),
        AttachmentSource::Bytes(bytes) => bytes.len(),
        AttachmentSource::Text(text) => text.len(),
        AttachmentSource::Reference(FileReference { selection, .. }) => {
            selection.as_ref().and_then(|selection| selection.text.as_ref()).map_or(0, String::len)
        }
    }
}

fn plan_attachment(
    item: ReceivedAttachment,
    name: &DisplayName,
    limits: &AttachmentLimits,
) -> Result<PlannedAttachment, RejectionReason> {
    let ReceivedAttachment { name: full_name, declared_media_type: declared, declared_size: size_hint, source } = item;
    let data: Arc<[u8]> = match source {
        AttachmentSource::Base64(text) => base64::decode(&text)?.into(),
        AttachmentSource::Bytes(data) => data,
        AttachmentSource::Reference(reference) => return Ok(plan_reference(name, reference)),
        AttachmentSource::Text(text) => return Ok(plan_text(name, text)),
    };
    if size_hint.is_some_and(|hint| hint != data.len() as u64) {
        return Err(RejectionReason::corrupt(format!(
            "the file has {}, which is not the declared size; send it again",
            rejection_reason::format_bytes(data.len())
        )));
    }
    let (probed, warning) = probe::probe_content(&data, &full_name, declared.as_deref(), limits)?;
    let mut file = match probed {
        ProbedContent::Image(header) => plan_image(name, data, &header, limits)?,
        ProbedContent::Pdf => plan_pdf(name, data, limits)?,
        ProbedContent::Text(text) => plan_text_file(name, data, text),
    };
    file.warnings.splice(0..0, warning);
    Ok(file)
}

fn plan_image(
    name: &DisplayName,
    data: Arc<[u8]>,
    header: &ImageHeader,
    limits: &AttachmentLimits,
) -> Result<PlannedAttachment, RejectionReason> {
    let optimized = image::optimize(&data, header, limits)?;
    let variant = (optimized.data != data).then(|| VariantKey::for_model(&data, limits));
    Ok(PlannedAttachment {
        name: name.clone(),
        kind: AttachmentKind::Image { width: optimized.width, height: optimized.height },
        original: Some(OriginalContent { media_type: header.image_type.media_type(), data }),
        variant,
        block: AttachmentBlock::Image { image_type: optimized.image_type, data: optimized.data },
        warnings: optimized.warnings,
        reference: None,
    })
}

fn plan_pdf(
    name: &DisplayName,
    data: Arc<[u8]>,
    limits: &AttachmentLimits,
) -> Result<PlannedAttachment, RejectionReason> {
    let pages = pdf::count_pages(&data, limits)?;
    let block = AttachmentBlock::Pdf { title: name.clone(), data: Arc::clone(&data) };
    let original = OriginalContent { media_type: "application/pdf", data };
    Ok(PlannedAttachment { original: Some(original), ..without_original(name, AttachmentKind::Pdf { pages }, block) })
}

fn plan_text_file(
    name: &DisplayName,
    data: Arc<[u8]>,
    DecodedText { text, from_utf16 }: DecodedText,
) -> PlannedAttachment {
    let mut file = plan_text(name, text);
    if from_utf16 {
        file.warnings.push(AttachmentWarning::new("decoded", "converted from UTF-16 to UTF-8"));
    }
    file.original = Some(OriginalContent { media_type: "text/plain", data });
    file
}

fn plan_text(name: &DisplayName, text: String) -> PlannedAttachment {
    let is_empty = text.is_empty();
    let mut file =
        without_original(name, AttachmentKind::Text, AttachmentBlock::Text { title: name.clone(), text: text.into() });
    if is_empty {
        file.warnings.push(AttachmentWarning::new("empty", "the file is empty"));
    }
    file
}

fn plan_reference(name: &DisplayName, reference: FileReference) -> PlannedAttachment {
    let block = references::build_block([&reference]);
    PlannedAttachment { reference: Some(reference), ..without_original(name, AttachmentKind::Reference, block) }
}

fn without_original(name: &DisplayName, kind: AttachmentKind, block: AttachmentBlock) -> PlannedAttachment {
    PlannedAttachment {
        name: name.clone(),
        kind,
        original: None,
        variant: None,
        block,
        warnings: Vec::new(),
        reference: None,
    }
}
