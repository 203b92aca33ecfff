//! External sessions: conversations in the agents' transcripts, listed and opened as sessions of this host.
//!
//! * [`catalog_sync`]: lists them, according to the filter.
//! * [`deletion`]: deletes conversations, and prevents that a scan lists them again.
//! * [`filter`]: which external sessions are listed.
//! * [`importer`]: loads a conversation when its session is opened.
//! * [`metadata_writer`]: writes titles and tags of sessions to the transcripts.
//! * [`replay`]: maps a turn of a transcript to the actions that it would have been here; pure.
//! * [`scanner`]: scans the transcripts whenever they change.
//! * [`startup_cleanup`]: finishes deletions and imports that a restart interrupted.
//! * [`tag`]: sets the tag of a session, imported or not.
//! * [`transcript_check`]: reports problems of the transcripts.
//! * [`unimported`]: lets readers wait for turns that are not imported yet.

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

/// A conversation without a stored session.
#[derive(Debug, Clone)]
pub(crate) struct ExternalSession {
    /// Its provider.
    pub(crate) provider: String,
    /// Its metadata from the transcript.
    pub(crate) conversation: ExternalConversation,
}
