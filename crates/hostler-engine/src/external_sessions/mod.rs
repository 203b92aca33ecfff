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

mod catalog_sync;
mod deletion;
mod filter;
mod importer;
mod metadata_writer;
mod replay;
mod scanner;
mod startup_cleanup;
mod tag;
mod transcript_check;
mod unimported;

use hostler_driver::ExternalConversation;

pub(crate) use catalog_sync::{TAG_META_KEY, external_session_meta, session_tag};
pub use filter::ExternalSessionFilter;
pub(crate) use importer::{
    ImportBatch, ImportedSession, import_session, is_active_elsewhere, is_recent, load_import_batch,
};
pub(crate) use metadata_writer::{MetadataUpdate, MetadataWriter};
pub(crate) use replay::replay_turn;
pub(crate) use scanner::ExternalSessionScanner;
pub use transcript_check::{TranscriptCheckReport, TranscriptIssue, TranscriptIssueKind};
pub(crate) use unimported::UnimportedTurns;

/// A conversation that is no session of the store.
#[derive(Debug, Clone)]
pub(crate) struct ExternalSession {
    /// Whose it is.
    pub(crate) provider: String,
    /// What the archive says of it.
    pub(crate) conversation: ExternalConversation,
}
