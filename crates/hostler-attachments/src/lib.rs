//! Plans the attachments of messages, from received bytes to the blocks that an agent receives.
//!
//! `received → probed → planned → optimized → serialized as blocks`. A plan is all or nothing: it lists every
//! attachment with its outcome, and if one cannot be sent, none is.
//!
//! `probe` detects types by bytes and reads headers before a pixel is decoded; `image` sends an image unchanged,
//! without its metadata or re-encoded, whichever changes less; `pdf` counts pages in one pass, because a document's own
//! page tree can keep a reader busy for hours; `size_checks` counts what the conversation already carries. One image is
//! in memory at a time, about ten bytes per pixel, at most 64 million pixels.
//!
//! **Architecture Invariant:** no I/O, no session, no process. Bytes come in, a plan goes out; the caller reads files,
//! stores originals and delivers blocks. Messages without attachments never reach this crate.

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
