//! Sequencer, journal, host records and session catalog on SQLite.
//!
//! Every change of state passes the [`Sequencer`], which numbers it, hands it to the [`Publisher`] and writes it to the
//! journal. All channels share one sequence of numbers, which only grows, also across restarts.
//!
//! **Architecture Invariant:** the store changes no state. It does not know what an action means; it provides order and
//! durability.

#![forbid(unsafe_code)]

mod audit;
mod batch;
mod blob;
mod blob_cleanup;
mod blob_collector;
mod blob_quota;
mod database;
mod error;
mod pending_rows;
mod queries;
mod reader_pool;
mod retention;
mod retention_sweeper;
mod sequencer;
mod store;
mod turns;
mod writer;

pub use audit::{AuditEntry, AuditRow};
pub use batch::{
    ActionEntry, Batch, BatchDurability, CatalogChange, ChatRow, HostRecord, PublishedAction, PublishedRejection,
    Publisher, SnapshotRow, StoredClient, StoredConversation, TurnRow,
};
pub use blob::Blob;
pub use blob_quota::BlobOptions;
pub use error::StoreError;
pub use queries::{JournalRow, StoredSession, StoredSessionState};
pub use retention::JournalRetention;
pub use sequencer::Sequencer;
pub use store::{SequenceAtStart, Store, StoreOptions};
pub use turns::{StoredTurn, StoredTurnRef, TurnPageLimits};
