//! Reads Claude Code's transcripts without the agent.
//!
//! ```text
//!   file ── index ──► records (without contents) ── chain ──► conversation, in order
//!                                                                  │
//!                    lines of one turn ◄── spans (where each turn starts and ends)
//! ```
//!
//! * [`TranscriptIndex`]: one pass over a file; stores position, id, parent and kind of each record.
//! * [`RecordChain`]: the records that are the conversation, whatever happened to the file.
//! * [`TurnSpan`]: the conversation divided into turns; `abandoned_turns`: turns on abandoned branches;
//!   `branch_leaf`: where the next agent continues.
//! * `open_transcript`: one opened transcript, its turns by index; `regular_file`: opens files without blocking on
//!   pipes; `sub_agent_files`: the transcripts of its sub-agents.
//! * [`replay_turn`]: a turn as driver events, through the mapping of live agents.
//! * [`ConversationCatalog`]: all conversations, from the directory; [`ConversationListing`]: a list entry, from the
//!   head and the tail of a file; [`TranscriptMetadata`]: titles and tags.
//! * `session_registry`: which processes run which conversation.
//! * [`ClaudeTranscriptStore`]: the driver's transcript store, which the engine uses.
//!
//! A message's id, as the host wrote it, is the id of its record (both builds). A message that is folded into a
//! running turn is a record of its own (`queued_command`), which names that id as its source. Steering text in the
//! answer to a hook has no id, and the older build gives a command like `/compact` another id.
//!
//! **Architecture Invariant:** transcripts are written by other programs. A transcript may be truncated, damaged,
//! written by an unknown build, or grow while it is read: each such case is reported, and none affects other records
//! or files.

mod abandoned_turns;
mod branch_leaf;
mod catalog;
mod index;
mod lines;
mod listing;
mod message_tags;
mod metadata;
mod open_transcript;
mod record;
mod record_chain;
mod regular_file;
mod replay;
mod session_registry;
mod store;
mod sub_agent_files;
mod turn_spans;

pub use catalog::{CatalogEntry, CatalogScan, ConversationCatalog, UnreadablePath};
pub use index::{MAX_TRANSCRIPT_LINE_BYTES, TranscriptDamage, TranscriptIndex};
pub use listing::ConversationListing;
pub use metadata::TranscriptMetadata;
pub use record::{IndexedRecord, RecordId, RecordKind};
pub use record_chain::RecordChain;
pub use replay::{SubAgentLookup, SubAgentQuery, SubAgentTranscript, TranscriptReplay, replay_turn};
pub(crate) use session_registry::HostAgents;
pub use store::ClaudeTranscriptStore;
pub use sub_agent_files::SubAgentTranscriptError;
pub use turn_spans::TurnSpan;
