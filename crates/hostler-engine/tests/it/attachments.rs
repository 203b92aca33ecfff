//! Attachments of messages, from the dispatch to the agent, with a fake driver.

mod delivery;
mod drafts;
mod helpers;
mod history;
mod image_removal;
mod pixel_budget;
mod references;
mod refusals;
mod secrets;
