//! `--attach`: files of a person as attachments of a message, and what the host makes of them.

mod content_type;
mod files;
mod plan;

pub(crate) use files::attached;
pub(crate) use plan::{FilePlan, Plan, size};
