//! Words of all sessions, found again: a full-text index beside the store, in a file of its own.
//!
//! The index is a cache. Whoever keeps the sessions can fill it again from nothing, so it is thrown away rather than
//! repaired, and nothing but a search suffers when it cannot be used.
//!
//! **Architecture Invariant:** it knows no session's state, no protocol and no agent: texts go in, places come out. All
//! calls block.

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
