//! `--attach`: files of a person as attachments of a message, and what the host makes of them.

mod content_type;
mod plan;
mod read_files;

pub(crate) use plan::{AttachmentPlanResponse, FilePlanResponse, format_size};
pub(crate) use read_files::read_attachments;
