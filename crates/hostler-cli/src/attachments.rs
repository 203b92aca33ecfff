//! `--attach`: reads files, sends them as attachments of a message and prints the host's attachment plan.

mod content_type;
mod plan;
mod read_files;

pub(crate) use plan::{AttachmentPlanResponse, FilePlanResponse, format_size};
pub(crate) use read_files::read_attachments;
