//! External sessions: conversations in the agents' transcripts, listed and opened as sessions of this host.
//!
//! * [`catalog_sync`]: lists them, according to the filter.
//! * [`deletion`]: deletes conversations, and prevents that a scan lists them again.
//! * [`filter`]: which external sessions are listed.
//! * [`importer`]: loads a conversation when its session is opened.
//! * [`replay`]: maps a turn of a transcript to the actions that it would have been here; pure.
//! * [`scanner`]: scans the transcripts whenever they change.
//! * [`sync_pass`]: finds and loads turns that other processes added.
//! * [`startup_cleanup`]: finishes deletions and imports that a restart interrupted.
//! * [`tag`]: sets the tag of a session, imported or not.
//! * [`transcript_check`]: reports problems of the transcripts.
//! * [`unimported`]: lets readers wait for turns that are not imported yet.

mod catalog_sync;
mod deletion;
mod filter;
mod importer;
mod replay;
mod scanner;
mod startup_cleanup;
mod sync_pass;
mod tag;
mod transcript_check;
mod unimported;

use hostler_driver::ExternalConversation;

pub(crate) use catalog_sync::{TAG_META_KEY, external_session_meta, session_tag};
pub use filter::ExternalSessionFilter;
pub(crate) use importer::{ImportBatch, ImportedSession, import_session, load_import_batch};
pub(crate) use replay::replay_turn;
pub(crate) use scanner::ExternalSessionScanner;
pub(crate) use sync_pass::{NewTurn, NewTurnKind, SyncPass, SyncPassRequest};
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
