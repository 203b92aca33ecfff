//! Conversations that the agent keeps by itself, whoever led them, as sessions of this host.
//!
//! * [`list`]: they are in the list of sessions, as far as people want to see them there.
//! * [`forget`]: what a person deletes is not found again.
//! * [`left`]: what an earlier life of the host has left undone is done after the start.
//! * [`checkup`]: what is wrong with what the agents keep.
//! * [`namer`]: what people put on a session is written into the agent's record.
//! * [`watch`]: the archives are looked at whenever something changes in them.
//! * [`retell`]: a turn of a record as the actions that it would have been here; pure.
//! * [`tag`]: a session gets a tag, whether it was opened or not.
//! * [`taking`]: a conversation becomes a stored session when somebody opens it.
//! * [`untold`]: whoever wants turns that are not taken in yet waits for them here.

mod checkup;
mod forget;
mod left;
mod list;
mod namer;
mod retell;
mod show;
mod tag;
mod taking;
mod untold;
mod watch;

use hostler_driver::FoundConversation;

pub use checkup::{Checkup, Finding, FindingKind};
pub(crate) use list::{TAG, meta, tag_of};
pub(crate) use namer::{Namer, Note};
pub(crate) use retell::retell;
pub use show::ShowExternal;
pub(crate) use taking::{Piece, Taken, gather, is_led, is_young, take_in};
pub(crate) use untold::Untold;
pub(crate) use watch::Finder;

/// A conversation that is no session of the store.
#[derive(Debug, Clone)]
pub(crate) struct FoundSession {
    /// Whose it is.
    pub(crate) provider: String,
    /// What the archive says of it.
    pub(crate) conversation: FoundConversation,
}
