//! Conversations that the agent keeps by itself, whoever led them, as sessions of this host.
//!
//! * [`retell`]: a turn of a record as the actions that it would have been here; pure.
//! * [`taking`]: a conversation becomes a stored session when somebody opens it.
//! * [`untold`]: whoever wants turns that are not taken in yet waits for them here.

mod look;
mod retell;
mod taking;
mod untold;

use hostler_driver::FoundConversation;

pub(crate) use retell::retell;
pub(crate) use taking::{Piece, Taken, gather, is_under_way, take_in};
pub(crate) use untold::Untold;

/// A conversation that is no session of the store.
#[derive(Debug, Clone)]
pub(crate) struct FoundSession {
    /// Whose it is.
    pub(crate) provider: String,
    /// What the archive says of it.
    pub(crate) conversation: FoundConversation,
}
