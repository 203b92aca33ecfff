//! What Claude Code keeps of its conversations: transcripts, read without the agent.
//!
//! ```text
//!   file ── index ──► links (one per record, without its contents) ── chain ──► the conversation, in order
//!                                                                        │
//!                                              lines of one page ◄── spans (where each turn begins and ends)
//! ```
//!
//! * [`index`](Index): one pass over a file; remembers where each record stands and what it hangs from, nothing else.
//! * [`chain`](Chain): which records are the conversation that a person saw, whatever became of the file.
//! * `book`: one transcript, opened: its turns by their places; `file`: how it is opened without ever waiting;
//!   `sub_agents`: the transcripts of its sub-agents.
//! * `leaf`: from where the next agent goes on.
//! * [`Transcripts`]: what the engine asks: the driver's archive.
//! * [`Conversations`]: all of them, by a look at the directory.
//! * [`Outline`]: what a list says of a conversation; `sketch`: how far its file was read for that; [`Notes`]: what stands
//!   anywhere in it.
//! * [`replay`]: a turn as driver events, by the mapping of live agents.
//! * [`spans`](Span): the conversation cut into turns; `strays`: the turns that it has left.
//!
//! A message's id, as the host wrote it, is the id of its record (both builds). A message that is folded into a running turn
//! is a record of its own (`queued_command`), which names that id as its source. Words that are told in the answer to a hook
//! have none, and a command like `/compact` gets another one from the older build.
//!
//! **Architecture Invariant:** a transcript is somebody else's file. It may be cut off, damaged, written by a build that
//! we have never seen, or grow while it is read: every such thing has a name here, none is an error of its neighbours.

mod abandoned_turns;
mod branch_leaf;
mod catalog;
mod index;
mod lines;
mod listing;
mod message_tags;
mod metadata;
mod open_transcript;
mod partial_scan;
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
pub use turn_spans::TurnSpan;
