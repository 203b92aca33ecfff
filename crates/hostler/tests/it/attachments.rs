//! Attachments of messages, with the real binary and the real Claude Code, both builds.

mod command_line;
mod image_delivery;
mod rejected_attachments;
