//! Full-text search over all sessions: an index beside the store, in a file of its own.
//!
//! The index is a cache. Its caller can fill it again from the sessions, so it is rebuilt rather than repaired, and
//! only search fails when it cannot be used.
//!
//! **Architecture Invariant:** this crate knows no session state, no protocol and no agent: texts are indexed,
//! locations are returned. All calls block.

#![forbid(unsafe_code)]

mod database;
mod document;
mod error;
mod fts_expression;
mod index;
mod query;
mod search;
mod segmentation;
mod time_expression;

pub use document::{SessionDocument, TextKind, TextsByKind, TurnDocument, TurnLocation};
pub use error::SearchError;
pub use index::SearchIndex;
pub use query::SearchQuery;
pub use search::{SearchHit, SearchHits, SearchPage, SessionHits};
