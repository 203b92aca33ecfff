//! The durable middle of the host: one sequencer, the journal behind it, and the catalogue of sessions.
//!
//! Every change of state passes the [`Sequencer`], which numbers it, hands it to the [`Publisher`] and writes it to the
//! journal. Numbers are one sequence over all channels and only grow, also across restarts.
//!
//! **Architecture Invariant:** the store moves no state. It does not know what an action means; it keeps order and
//! durability.

#![forbid(unsafe_code)]

mod audit;
mod batch;
mod blob;
mod collect;
mod database;
mod error;
mod keeper;
mod quota;
mod reader;
mod readers;
mod retention;
mod rows;
mod sequencer;
mod store;
mod sweep;
mod turns;
mod writer;

pub use audit::{AuditEntry, AuditRow};
pub use batch::{
    Batch, CatalogueChange, ChatRow, Durability, Entry, HostRecord, Published, Publisher, SnapshotRow, StoredClient,
    StoredConversation, TurnRow,
};
pub use blob::Blob;
pub use error::StoreError;
pub use quota::BlobOptions;
pub use reader::{JournalRow, StoredSession, StoredState};
pub use retention::Retention;
pub use sequencer::Sequencer;
pub use store::{Life, Store, StoreOptions};
pub use turns::{Page, StoredTurn, TurnName};
