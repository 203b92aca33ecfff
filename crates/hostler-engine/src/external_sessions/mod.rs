//! External sessions: conversations in the agents' transcripts, listed and opened as sessions of this host.
//! [`ExternalSessionService`] owns what their scans, imports and writes share.
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

use std::sync::Arc;

use hostler_driver::{ExternalConversation, TranscriptStore};
use uuid::Uuid;

pub(crate) use catalog_sync::{TAG_META_KEY, external_session_meta, session_tag};
pub use filter::ExternalSessionFilter;
pub(crate) use importer::{ImportBatch, ImportedSession, import_session, load_import_batch};
pub(crate) use replay::replay_turn;
use scanner::ExternalSessionScanner;
pub(crate) use sync_pass::{NewTurn, NewTurnKind, SyncPass, SyncPassRequest};
pub use transcript_check::{TranscriptCheckReport, TranscriptIssue, TranscriptIssueKind};
use unimported::UnimportedTurns;

use crate::EngineError;
use crate::sessions::prompt_ids::PromptIds;

/// A conversation without a stored session.
#[derive(Debug, Clone)]
pub(crate) struct ExternalSession {
    /// Its provider.
    pub(crate) provider: String,
    /// Its metadata from the transcript.
    pub(crate) conversation: ExternalConversation,
}

/// What this host knows about the agents' transcripts.
pub(crate) struct ExternalSessionService {
    scanner: ExternalSessionScanner,
    unimported_turns: UnimportedTurns,
    /// Distinguishes prompts of this host from those of other processes.
    prompt_ids: PromptIds,
}

impl ExternalSessionService {
    /// The filter is that of the host's own settings.
    pub(crate) fn new(
        transcript_stores: impl Iterator<Item = (String, Arc<dyn TranscriptStore>)>,
        filter: Option<ExternalSessionFilter>,
        prompt_ids: PromptIds,
    ) -> Self {
        Self {
            scanner: ExternalSessionScanner::new(transcript_stores, filter),
            unimported_turns: UnimportedTurns::default(),
            prompt_ids,
        }
    }

    /// The filter of the host's own settings.
    pub(crate) fn filter(&self) -> Option<ExternalSessionFilter> {
        self.scanner.filter()
    }

    /// Whether every transcript store was scanned.
    pub(crate) fn is_initial_scan_complete(&self) -> bool {
        self.scanner.is_initial_scan_complete()
    }

    /// Requests a scan after a change that affects the list.
    pub(crate) fn request_rescan(&self) {
        self.scanner.request_rescan();
    }

    /// Sets how many of a chat's first turns are not imported yet; zero releases all readers.
    pub(crate) fn set_unimported(&self, chat: &Arc<str>, turns: usize) {
        self.unimported_turns.set_missing(chat, turns);
    }

    /// Reports to waiting readers that the missing turns are unavailable at the moment.
    pub(crate) fn fail_import(&self, chat: &str, error: EngineError) {
        self.unimported_turns.fail(chat, error);
    }

    /// How many of a chat's first turns are not imported yet.
    pub(crate) fn unimported_count(&self, chat: &str) -> usize {
        self.unimported_turns.missing_count(chat)
    }

    /// Waits until the turn at this position of a chat is imported, or the import has ended.
    ///
    /// # Errors
    /// If it is unavailable at the moment.
    pub(crate) async fn wait_until_imported(&self, chat: &str, position: usize) -> Result<(), EngineError> {
        self.unimported_turns.wait_until_imported(chat, position).await
    }

    /// Creates an id for a prompt of a conversation.
    pub(crate) fn mint_prompt_id(&self, conversation: Uuid) -> Uuid {
        self.prompt_ids.mint(conversation)
    }

    /// Whether this host sent the prompt with this id to the conversation.
    pub(crate) fn is_own_prompt(&self, conversation: Uuid, id: Uuid) -> bool {
        self.prompt_ids.is_minted_here(conversation, id)
    }
}
