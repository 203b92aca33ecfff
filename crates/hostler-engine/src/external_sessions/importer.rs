//! Loads external conversations for import: the last turns at once, the others in batches. Runs off the actor; the
//! actor stores the result.
//!
//! An external conversation costs nothing until it is opened. Snapshot, turn rows, contents and the session list entry
//! are one commit; from then on it is an ordinary session, and its next message resumes the transcript.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ahp_types::StringOrMarkdown;
use ahp_types::state::{
    ChatState, ChatSummary, MessageKind, ResponsePart, SessionConfigState, SessionLifecycle,
    SystemNotificationResponsePart, Turn, TurnState,
};
use hostler_driver::{ExternalActivity, LoadedTurn, Transcript, TranscriptStore, TranscriptStoreError, TurnIndexEntry};
use hostler_store::Blob;
use jiff::Timestamp;
use url::Url;
use uuid::Uuid;

use super::{ExternalSession, replay_turn};
use crate::EngineError;
use crate::clock::{self, ClockExt as _};
use crate::host::Host;
use crate::sessions::record::{ExternalTurn, MetadataSync};
use crate::sessions::session::{Session, new_message};
use crate::sessions::turn_storage::{EvictedTurns, TurnStorage};

/// Maximum age of the last entry of an incomplete turn that may still be running.
const ACTIVE_TURN_MAX_AGE_MS: i64 = 5 * 60 * 1000;

/// Maximum number of older turns per batch.
const IMPORT_BATCH_TURNS: usize = 64;

/// Maximum size of a batch with more than one turn.
const IMPORT_BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// A session that was created from a conversation and is not stored yet.
pub(crate) struct ImportedSession {
    pub(crate) session: Session,
    /// The contents that its turns refer to.
    pub(crate) blobs: Vec<Blob>,
    pub(crate) transcript: Arc<dyn Transcript>,
}

/// Creates a session from a conversation, with its last turns.
pub(crate) async fn import_session(
    host: &Host,
    uri: &Arc<str>,
    found: &ExternalSession,
) -> Result<ImportedSession, EngineError> {
    let driver = host.agents.driver(&found.provider);
    let transcript_store = driver.and_then(|driver| driver.transcript_store());
    let transcript_store = transcript_store.ok_or_else(|| EngineError::ProviderNotFound(found.provider.clone()))?;
    let transcript = transcript_store.open(found.conversation.id).await?;
    let mut turns = transcript.turns();
    let first = turns.len() - count_last_fitting(turns, host.settings.turns_in_memory.max(1));
    let mut loaded = load_turns(&transcript, first..turns.len()).await?;
    if let Some((last, before)) = turns.split_last()
        && let Some(Ok(turn)) = loaded.last()
        && is_active_elsewhere(&*transcript_store, found.conversation.id, last.is_complete)
            .await
            .unwrap_or_else(|| is_recent(turn, host.clock.now_ms()))
    {
        // Another process is running this turn. It is appended when it has ended.
        (turns, _) = (before, loaded.pop());
    }
    let first = first.min(turns.len());
    let mut session = new_session(host, uri, found);
    session.synced_through = Some(turns.last().map_or(Uuid::nil(), |mark| mark.id));
    session.last_external_turn = turns.last().map(|mark| ExternalTurn { turn: mark.id, length: mark.record_count });
    session.turn_storage = TurnStorage::for_import(EvictedTurns {
        count: first,
        has_completed_turn: first > 0,
        ..EvictedTurns::default()
    });
    session.unimported_turns = first;
    session.import_cursor = transcript.turns().get(first).map(|mark| mark.id);
    // The agent has the last message: a turn that failed there can be resumed here.
    session.delivered_turn = turns.last().map(|mark| mark.id.to_string());
    let applied = tokio::task::spawn_blocking(move || {
        let blobs = apply_turns(&mut session, loaded);
        (session, blobs)
    });
    let (session, blobs) = applied.await.map_err(|error| TranscriptStoreError::Failed(error.to_string()))?;
    Ok(ImportedSession { session, blobs, transcript })
}

/// Whether another process still runs the last turn, as far as processes report it. A turn that looks complete may
/// continue, if a process reports that.
pub(crate) async fn is_active_elsewhere(
    transcript_store: &dyn TranscriptStore,
    conversation: Uuid,
    over: bool,
) -> Option<bool> {
    match (transcript_store.external_activity(conversation).await, over) {
        (Some(ExternalActivity::Busy), _) | (Some(ExternalActivity::Unknown), false) => Some(true),
        (_, true) | (Some(ExternalActivity::Idle), false) => Some(false),
        (None, false) => None,
    }
}

/// Whether the last entry of a turn is so recent that the turn may still be running.
pub(crate) fn is_recent(turn: &LoadedTurn, now_ms: i64) -> bool {
    let last = turn.ended_at.as_ref().or(turn.started_at.as_ref()).and_then(|time| time.parse::<Timestamp>().ok());
    last.is_some_and(|last| now_ms.saturating_sub(last.as_millisecond()) < ACTIVE_TURN_MAX_AGE_MS)
}

/// The session of a conversation, without turns.
fn new_session(host: &Host, uri: &Arc<str>, found: &ExternalSession) -> Session {
    let ExternalSession { provider, conversation } = found;
    // The directory may no longer exist: then the session can be read, and the next message reports it.
    let directory = conversation.working_directory.clone().filter(|directory| directory.is_absolute());
    let directory = directory.unwrap_or_else(|| host.settings.default_directory.clone());
    let directories = Url::from_file_path(&directory).map(String::from).into_iter().collect();
    let config = host.session_config(Some(&directory), &Default::default());
    let config = config.inspect_err(|error| tracing::warn!(%error, "imported session has no configuration"));
    let config = config.ok().map(|config| SessionConfigState { schema: config.schema, values: config.values });
    let modified = clock::format_timestamp(conversation.modified);
    let created = conversation.created.clone().unwrap_or_else(|| modified.clone());
    let mut session = Session::provisional(Arc::clone(uri), provider.clone(), directories, config, modified);
    session.created_at = created;
    session.conversation = conversation.id;
    session.resume_token = Some(conversation.resume_token.clone());
    let (transcript_title, transcript_tag) = (conversation.custom_title.clone(), conversation.tag.clone());
    session.metadata_sync = MetadataSync { transcript_title, transcript_tag };
    let state = Arc::make_mut(&mut session.session);
    state.title.clone_from(&conversation.title);
    state.meta = Some(super::external_session_meta(conversation));
    state.lifecycle = SessionLifecycle::Ready;
    session
}

/// How many of the last turns fit into a batch of at most `most` turns; at least one.
fn count_last_fitting(marks: &[TurnIndexEntry], most: usize) -> usize {
    let mut bytes = 0u64;
    let fits = |mark: &&TurnIndexEntry| {
        let before = bytes;
        bytes = bytes.saturating_add(mark.size_bytes);
        before == 0 || bytes <= IMPORT_BATCH_BYTES
    };
    marks.iter().rev().take(most).take_while(fits).count()
}

/// A turn of a transcript, or the placeholder for one that cannot be read.
type TranscriptTurn = Result<LoadedTurn, Box<Turn>>;

/// Loads turns by their indices in the transcript. An unreadable turn does not affect its neighbors.
async fn load_turns(
    transcript: &Arc<dyn Transcript>,
    places: Range<usize>,
) -> Result<Vec<TranscriptTurn>, TranscriptStoreError> {
    match Arc::clone(transcript).load_turns(places.clone()).await {
        Ok(loaded) => return Ok(loaded.into_iter().map(Ok).collect()),
        Err(TranscriptStoreError::Unreadable(_)) => {}
        Err(error) => return Err(error),
    }
    let mut turns = Vec::with_capacity(places.len());
    for place in places {
        match Arc::clone(transcript).load_turns(place..place + 1).await {
            Ok(loaded) => turns.extend(loaded.into_iter().map(Ok)),
            Err(error @ TranscriptStoreError::Unreadable(_)) => {
                let id = transcript.turns().get(place).map_or_else(Uuid::new_v4, |mark| mark.id);
                tracing::warn!(turn = %id, "failed to load a turn from a transcript");
                turns.push(Err(Box::new(placeholder_turn(id.to_string(), &error.to_string()))));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(turns)
}

/// Applies turns to a session, in order. Returns the contents that they refer to.
fn apply_turns(session: &mut Session, turns: Vec<TranscriptTurn>) -> Vec<Blob> {
    let mut blobs = Vec::new();
    for turn in turns {
        let otherwise = session.chat.modified_at.clone();
        match turn.and_then(|turn| catch_turn_panic(turn.id, || replay_turn(session, turn, &otherwise))) {
            Ok(replayed) => {
                for (channel, action) in &replayed.actions {
                    session.apply(channel, action);
                }
                blobs.extend(replayed.blobs);
            }
            Err(placeholder) => Arc::make_mut(&mut session.chat).turns.push(*placeholder),
        }
    }
    let uri = Arc::clone(&session.uri);
    for projection in session.chat_projections() {
        session.apply(&uri, &projection);
    }
    blobs
}

/// Runs work on a turn that may panic. A panic would repeat, so the turn is replaced by a placeholder, and no other
/// turn is affected.
fn catch_turn_panic<T>(turn: Uuid, work: impl FnOnce() -> T) -> Result<T, Box<Turn>> {
    // The state that the work has changed is not used again.
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let why = "the host failed while reading the transcript";
        Box::new(placeholder_turn(turn.to_string(), why))
    })
}

/// Older turns of a session, ready to be stored.
pub(crate) struct ImportBatch {
    /// The position of the first turn; the batch ends where the session's turns start.
    pub(crate) first: usize,
    pub(crate) turns: Vec<Turn>,
    /// The chats of their sub-agents, each with its summary in the session.
    pub(crate) sub_agent_chats: Vec<(ChatSummary, ChatState)>,
    pub(crate) blobs: Vec<Blob>,
    /// The turn of the transcript before which the next batch ends.
    pub(crate) import_cursor: Option<Uuid>,
    /// The transcript, for the next batch; `None` if it was given up.
    pub(crate) transcript: Option<Arc<dyn Transcript>>,
}

/// Loads one batch of turns before those that a session has. `empty` is the session without turns.
///
/// Turns that the transcript no longer contains are replaced by placeholders, so that every turn keeps its position. If
/// `gone`, a missing transcript counts as deleted; any other failure is an error, because it may be temporary.
pub(crate) async fn load_import_batch(
    transcript_store: Option<Arc<dyn TranscriptStore>>,
    transcript: Option<Arc<dyn Transcript>>,
    mut empty: Session,
    gone: bool,
) -> Result<ImportBatch, TranscriptStoreError> {
    let opened = match (transcript, transcript_store) {
        (Some(transcript), _) => Ok(transcript),
        (None, Some(transcript_store)) => transcript_store.open(empty.conversation).await,
        (None, None) => Err(TranscriptStoreError::Missing),
    };
    let (transcript, why) = match opened {
        Err(error @ TranscriptStoreError::Missing) if gone => {
            tracing::warn!(session = &*empty.uri, %error, "gave up importing turns of a transcript");
            (None, error.to_string())
        }
        opened => (Some(opened?), "the transcript has become shorter".to_owned()),
    };
    // Positions in the session match the transcript unless the conversation has switched branches.
    let marks = transcript.as_ref().map_or(&[][..], |transcript| transcript.turns());
    let until = empty.unimported_turns;
    let end = match empty.import_cursor {
        Some(next) => marks.iter().position(|mark| mark.id == next).unwrap_or(0),
        // Sessions from an earlier version have no cursor.
        None => until.min(marks.len()),
    };
    let count = count_last_fitting(marks.get(..end).unwrap_or_default(), IMPORT_BATCH_TURNS.min(until));
    // Turns that the transcript lacks are the first ones.
    let first = until - if count == end { IMPORT_BATCH_TURNS.min(until) } else { count };
    let begin = end - count;
    let import_cursor = marks.get(begin).filter(|_| count > 0).map(|mark| mark.id).or(empty.import_cursor);
    let turns_to_apply = match &transcript {
        Some(transcript) => load_turns(transcript, begin..end).await?,
        None => Vec::new(),
    };
    let piece = tokio::task::spawn_blocking(move || {
        let blobs = apply_turns(&mut empty, turns_to_apply);
        let known = std::mem::take(&mut Arc::make_mut(&mut empty.chat).turns);
        let turns = fill_missing_turns(first..until, known, &why);
        let line = |chat: &ChatState| empty.session.chats.iter().find(|line| line.resource == chat.resource).cloned();
        let workers =
            empty.sub_agent_chats.iter().filter_map(|worker| Some((line(&worker.state)?, (*worker.state).clone())));
        let workers = workers.collect();
        ImportBatch { first, turns, sub_agent_chats: workers, blobs, import_cursor, transcript }
    });
    piece.await.map_err(|error| TranscriptStoreError::Failed(error.to_string()))
}

/// The turns for these positions: if there are too few, placeholders replace the first ones.
fn fill_missing_turns(places: Range<usize>, known: Vec<Turn>, why: &str) -> Vec<Turn> {
    let missing = places.len().saturating_sub(known.len());
    places.take(missing).map(|place| placeholder_turn(format!("lost-{place}"), why)).chain(known).collect()
}

/// The placeholder for a turn that the transcript no longer contains.
fn placeholder_turn(id: String, why: &str) -> Turn {
    let says = format!("This turn could not be imported: {why}.");
    Turn {
        id,
        started_at: None,
        duration: None,
        message: new_message(String::new(), MessageKind::SystemNotification),
        response_parts: vec![ResponsePart::SystemNotification(SystemNotificationResponsePart {
            content: StringOrMarkdown::Plain(says),
            meta: None,
        })],
        usage: None,
        state: TurnState::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_limited_by_turns_and_bytes() {
        let mark = |bytes| TurnIndexEntry {
            id: Uuid::nil(),
            message_id: None,
            is_command: false,
            is_complete: true,
            record_count: 1,
            size_bytes: bytes,
        };
        let fitting =
            |bytes: &[u64], most| count_last_fitting(&bytes.iter().copied().map(mark).collect::<Vec<_>>(), most);
        assert_eq!(fitting(&[], 3), 0);
        assert_eq!(fitting(&[1, 2, 3, 4], 3), 3);
        let half = IMPORT_BATCH_BYTES / 2;
        assert_eq!(fitting(&[1, half, half], 3), 2);
        assert_eq!(fitting(&[1, half, half + 1], 3), 1);
        assert_eq!(fitting(&[1, u64::MAX], 3), 1, "however long it is");
        assert_eq!(fitting(&[u64::MAX, 1], 3), 1);
    }

    #[test]
    fn panic_in_one_turn_becomes_a_placeholder() {
        let id = Uuid::from_u128(3);
        assert_eq!(catch_turn_panic(id, || 7).ok(), Some(7));
        let lost = catch_turn_panic(id, || -> u8 { std::panic::resume_unwind(Box::new("no")) }).unwrap_err();
        assert_eq!((lost.id, lost.state), (id.to_string(), TurnState::Error));
        let known = vec![placeholder_turn("c".to_owned(), "no")];
        let turns = fill_missing_turns(3..6, known, "it is gone");
        assert_eq!(turns.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["lost-3", "lost-4", "c"]);
    }
}
