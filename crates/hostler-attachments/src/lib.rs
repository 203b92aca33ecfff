//! What people attach to their messages, from bytes to what an agent is given.
//!
//! `received → probed → planned → made deliverable → written as blocks`. A plan is all or nothing: it lists every file
//! with what becomes of it, and if one cannot be sent, none is.
//!
//! **Architecture Invariant:** no I/O, no session, no process. Bytes come in, a plan goes out; whoever calls reads files,
//! stores originals and delivers. A message without attachments never comes here.

#![forbid(unsafe_code)]

mod attachment_plan;
mod base64;
mod block;
mod diagnostics;
mod display_name;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod image;
mod limits;
mod messages_api;
mod pdf;
mod planner;
mod probe;
mod received_attachment;
mod references;
mod rejection_reason;
mod size_checks;
mod summary;
mod text_decoding;
mod variant;

pub use attachment_plan::{AttachmentKind, AttachmentPlan, AttachmentWarning, OriginalContent, PlannedAttachment};
pub use block::{AttachmentBlock, ImageType};
pub use diagnostics::AttachmentDiagnostics;
pub use display_name::DisplayName;
pub use error::{AttachmentError, AttachmentErrorCode, AttachmentPlanError};
pub use limits::{AttachmentLimits, ConversationSize};
pub use messages_api::MessagesApiBlock;
pub use planner::{max_decoded_pixels, plan_attachments, plan_attachments_cancellable};
pub use received_attachment::{AttachmentSource, FileReference, FileReferenceKind, LineSelection, ReceivedAttachment};
pub use summary::{AttachmentDisposition, AttachmentSummary};
pub use variant::{IMAGE_OPTIMIZER_VERSION, VariantKey};
