//! What people attach to their messages, from the dispatch to the agent, against a driver in the test's hands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

#[path = "attachments/bench.rs"]
mod bench;
#[path = "attachments/delivery.rs"]
mod delivery;
#[path = "attachments/drafts.rs"]
mod drafts;
#[path = "attachments/dropping.rs"]
mod dropping;
#[path = "attachments/history.rs"]
mod history;
#[path = "attachments/picture_budget.rs"]
mod picture_budget;
#[path = "attachments/places.rs"]
mod places;
#[path = "attachments/refusals.rs"]
mod refusals;
#[path = "attachments/secrets.rs"]
mod secrets;
