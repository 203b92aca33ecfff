//! Attachments of messages, from the dispatch to the agent, with a fake driver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

#[path = "attachments/delivery.rs"]
mod delivery;
#[path = "attachments/drafts.rs"]
mod drafts;
#[path = "attachments/helpers.rs"]
mod helpers;
#[path = "attachments/history.rs"]
mod history;
#[path = "attachments/image_removal.rs"]
mod image_removal;
#[path = "attachments/pixel_budget.rs"]
mod pixel_budget;
#[path = "attachments/references.rs"]
mod references;
#[path = "attachments/refusals.rs"]
mod refusals;
#[path = "attachments/secrets.rs"]
mod secrets;
