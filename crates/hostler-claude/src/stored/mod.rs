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

mod archive;
mod book;
mod chain;
mod conversations;
mod file;
mod index;
mod leaders;
mod leaf;
mod lines;
mod link;
mod notes;
mod outline;
mod replay;
mod sketch;
mod spans;
mod strays;
mod sub_agents;
mod words;

pub use archive::Transcripts;
pub use chain::Chain;
pub use conversations::{Conversation, Conversations, Look, Unreadable};
pub use index::{Damage, Index, LONGEST_LINE};
pub(crate) use leaders::OwnAgents;
pub use link::{Kind, Link, RecordId};
pub use notes::Notes;
pub use outline::Outline;
pub use replay::{Asked, Own, Replayed, SubAgents, replay};
pub use spans::Span;
