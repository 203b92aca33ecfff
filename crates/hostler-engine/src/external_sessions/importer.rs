//! Taking a conversation in: the last turns at once, the others in pieces. Off the actor; the actor stores what comes out.

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
use crate::session::{Session, new_message};
use crate::session_record::ExternalTurn;
use crate::turn_storage::{EvictedTurns, TurnStorage};

/// How long ago the last word of an unfinished turn may be, if somebody is still at it.
const ACTIVE_TURN_MAX_AGE_MS: i64 = 5 * 60 * 1000;

/// How many older turns are told at a time.
const IMPORT_BATCH_TURNS: usize = 64;

/// No further turn is told with others once there are so many bytes.
const IMPORT_BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// A conversation that is a session now, but not stored yet.
pub(crate) struct ImportedSession {
    pub(crate) session: Session,
    /// What its turns name.
    pub(crate) blobs: Vec<Blob>,
    pub(crate) transcript: Arc<dyn Transcript>,
}

/// Makes a session of a conversation, with its last turns.
pub(crate) async fn import_session(
    host: &Host,
    uri: &Arc<str>,
    found: &ExternalSession,
) -> Result<ImportedSession, EngineError> {
    let driver = host.drivers.get(&found.provider);
    let archive = driver.and_then(|driver| driver.transcript_store());
    let archive = archive.ok_or_else(|| EngineError::ProviderNotFound(found.provider.clone()))?;
    let chronicle = archive.open(found.conversation.id).await?;
    let mut turns = chronicle.turns();
    let first = turns.len() - count_last_fitting(turns, host.turns_in_memory.max(1));
    let mut told = load_turns(&chronicle, first..turns.len()).await?;
    if let Some((last, before)) = turns.split_last()
        && let Some(TranscriptTurn::Loaded(turn)) = told.last()
        && is_active_elsewhere(&*archive, found.conversation.id, last.is_complete)
            .await
            .unwrap_or_else(|| is_recent(turn, host.clock.now_ms()))
    {
        // Somebody is in the middle of it. It is appended when it is over.
        (turns, _) = (before, told.pop());
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
    session.import_cursor = chronicle.turns().get(first).map(|mark| mark.id);
    // The agent has what was said last: a turn that failed there can be taken up here.
    session.delivered_turn = turns.last().map(|mark| mark.id.to_string());
    let applied = tokio::task::spawn_blocking(move || {
        let blobs = apply_turns(&mut session, told);
        (session, blobs)
    });
    let (session, blobs) = applied.await.map_err(|error| TranscriptStoreError::Failed(error.to_string()))?;
    Ok(ImportedSession { session, blobs, transcript: chronicle })
}

/// Whether somebody is still at the last turn, as far as processes tell. A turn that looks as if it were over may go on, if
/// somebody says so.
pub(crate) async fn is_active_elsewhere(archive: &dyn TranscriptStore, conversation: Uuid, over: bool) -> Option<bool> {
    match (archive.external_activity(conversation).await, over) {
        (Some(ExternalActivity::Busy), _) | (Some(ExternalActivity::Unknown), false) => Some(true),
        (_, true) | (Some(ExternalActivity::Idle), false) => Some(false),
        (None, false) => None,
    }
}

/// Whether the last word of a turn is so young that somebody may still be at it.
pub(crate) fn is_recent(turn: &LoadedTurn, now_ms: i64) -> bool {
    let last = turn.ended_at.as_ref().or(turn.started_at.as_ref()).and_then(|time| time.parse::<Timestamp>().ok());
    last.is_some_and(|last| now_ms.saturating_sub(last.as_millisecond()) < ACTIVE_TURN_MAX_AGE_MS)
}

/// The session of a conversation, before anything is told of it.
fn new_session(host: &Host, uri: &Arc<str>, found: &ExternalSession) -> Session {
    let ExternalSession { provider, conversation } = found;
    // It may be gone: then the session can be read, and the next message says so.
    let directory = conversation.working_directory.clone().filter(|directory| directory.is_absolute());
    let directory = directory.unwrap_or_else(|| host.default_directory.clone());
    let directories = Url::from_file_path(&directory).map(String::from).into_iter().collect();
    let config = host.session_config(Some(&directory), &Default::default());
    let config = config.inspect_err(|error| tracing::warn!(%error, "a found session begins without a configuration"));
    let config = config.ok().map(|config| SessionConfigState { schema: config.schema, values: config.values });
    let modified = clock::format_timestamp(conversation.modified);
    let created = conversation.created.clone().unwrap_or_else(|| modified.clone());
    let mut session = Session::provisional(Arc::clone(uri), provider.clone(), directories, config, modified);
    session.created_at = created;
    session.conversation = conversation.id;
    session.resume_token = Some(conversation.resume_token.clone());
    session.metadata_sync.transcript_title.clone_from(&conversation.custom_title);
    let state = Arc::make_mut(&mut session.session);
    state.title.clone_from(&conversation.title);
    state.meta = Some(super::external_session_meta(conversation));
    state.lifecycle = SessionLifecycle::Ready;
    session
}

/// How many of the last turns are told at a time: at most so many, and at least one.
fn count_last_fitting(marks: &[TurnIndexEntry], most: usize) -> usize {
    let mut bytes = 0u64;
    let fits = |mark: &&TurnIndexEntry| {
        let before = bytes;
        bytes = bytes.saturating_add(mark.size_bytes);
        before == 0 || bytes <= IMPORT_BATCH_BYTES
    };
    marks.iter().rev().take(most).take_while(fits).count()
}

/// A turn of a record.
enum TranscriptTurn {
    /// What happened in it.
    Loaded(LoadedTurn),
    /// It cannot be told, and this stands in its place.
    Unreadable(Box<Turn>),
}

/// Tells turns by their places in the record. One that cannot be told does not take its neighbours with it.
async fn load_turns(
    chronicle: &Arc<dyn Transcript>,
    places: Range<usize>,
) -> Result<Vec<TranscriptTurn>, TranscriptStoreError> {
    match Arc::clone(chronicle).load_turns(places.clone()).await {
        Ok(told) => return Ok(told.into_iter().map(TranscriptTurn::Loaded).collect()),
        Err(TranscriptStoreError::Unreadable(_)) => {}
        Err(error) => return Err(error),
    }
    let mut tales = Vec::with_capacity(places.len());
    for place in places {
        match Arc::clone(chronicle).load_turns(place..place + 1).await {
            Ok(told) => tales.extend(told.into_iter().map(TranscriptTurn::Loaded)),
            Err(error @ TranscriptStoreError::Unreadable(_)) => {
                let id = chronicle.turns().get(place).map_or_else(Uuid::new_v4, |mark| mark.id);
                tracing::warn!(turn = %id, "a turn of a record cannot be told");
                tales.push(TranscriptTurn::Unreadable(Box::new(placeholder_turn(id.to_string(), &error.to_string()))));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(tales)
}

/// Applies turns to a session, in their order. Gives the contents that they name.
fn apply_turns(session: &mut Session, tales: Vec<TranscriptTurn>) -> Vec<Blob> {
    let mut blobs = Vec::new();
    for tale in tales {
        match tale {
            TranscriptTurn::Loaded(turn) => {
                let id = turn.id;
                let otherwise = session.chat.modified_at.clone();
                match catch_turn_panic(id, || replay_turn(session, turn, &otherwise)) {
                    Ok(retold) => {
                        for (channel, action) in &retold.actions {
                            session.apply(channel, action);
                        }
                        blobs.extend(retold.blobs);
                    }
                    Err(lost) => push_placeholder(session, *lost),
                }
            }
            TranscriptTurn::Unreadable(turn) => push_placeholder(session, *turn),
        }
    }
    let uri = Arc::clone(&session.uri);
    for projection in session.chat_projections() {
        session.apply(&uri, &projection);
    }
    blobs
}

fn push_placeholder(session: &mut Session, turn: Turn) {
    Arc::make_mut(&mut session.chat).turns.push(turn);
}

/// Work on a turn that would fail again where it failed: then the turn is lost, and no other one with it.
fn catch_turn_panic<T>(turn: Uuid, work: impl FnOnce() -> T) -> Result<T, Box<Turn>> {
    // Nothing that the work has changed is seen again.
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let why = "the host failed while it read the agent's record of the conversation";
        Box::new(placeholder_turn(turn.to_string(), why))
    })
}

/// Older turns of a session, ready to be stored.
pub(crate) struct ImportBatch {
    /// The place of the first of them; they go on to where the session's turns began.
    pub(crate) first: usize,
    pub(crate) turns: Vec<Turn>,
    /// The chats of their sub-agents, each with its line in the session.
    pub(crate) sub_agent_chats: Vec<(ChatSummary, ChatState)>,
    pub(crate) blobs: Vec<Blob>,
    /// The turn of the record that the first of them is, so that the next piece is found before it.
    pub(crate) import_cursor: Option<Uuid>,
    /// The record, for the next piece; nothing if it was given up.
    pub(crate) transcript: Option<Arc<dyn Transcript>>,
}

/// Tells the turns before those that a session has: as many as make a piece. `empty` is the session without any turn.
///
/// What the record does not tell any more is said in its place, so that every turn keeps its own. One that is `gone` has been
/// looked for often enough; any other trouble is an error, since it may be over later.
pub(crate) async fn load_import_batch(
    archive: Option<Arc<dyn TranscriptStore>>,
    chronicle: Option<Arc<dyn Transcript>>,
    mut empty: Session,
    gone: bool,
) -> Result<ImportBatch, TranscriptStoreError> {
    let until = empty.unimported_turns;
    let older = match load_older_turns(archive, chronicle, &empty).await {
        Err(error @ TranscriptStoreError::Missing) if gone => {
            tracing::warn!(session = &*empty.uri, %error, "turns of a record are given up");
            let (first, told_from) = (until.saturating_sub(IMPORT_BATCH_TURNS), empty.import_cursor);
            OlderTranscriptTurns {
                first,
                turns: Vec::new(),
                import_cursor: told_from,
                transcript: None,
                reason: error.to_string(),
            }
        }
        older => older?,
    };
    let OlderTranscriptTurns { first, turns: tales, import_cursor: told_from, transcript: chronicle, reason: why } =
        older;
    let piece = tokio::task::spawn_blocking(move || {
        let blobs = apply_turns(&mut empty, tales);
        let known = std::mem::take(&mut Arc::make_mut(&mut empty.chat).turns);
        let turns = fill_missing_turns(first..until, known, &why);
        let line = |chat: &ChatState| empty.session.chats.iter().find(|line| line.resource == chat.resource).cloned();
        let workers =
            empty.sub_agent_chats.iter().filter_map(|worker| Some((line(&worker.state)?, (*worker.state).clone())));
        let workers = workers.collect();
        ImportBatch { first, turns, sub_agent_chats: workers, blobs, import_cursor: told_from, transcript: chronicle }
    });
    piece.await.map_err(|error| TranscriptStoreError::Failed(error.to_string()))
}

/// The turns for these places: the first of them are lost, if there are too few.
fn fill_missing_turns(places: Range<usize>, known: Vec<Turn>, why: &str) -> Vec<Turn> {
    let missing = places.len().saturating_sub(known.len());
    places.take(missing).map(|place| placeholder_turn(format!("lost-{place}"), why)).chain(known).collect()
}

/// What a record tells of the turns before those that a session has.
struct OlderTranscriptTurns {
    /// The place of the first one.
    first: usize,
    turns: Vec<TranscriptTurn>,
    import_cursor: Option<Uuid>,
    transcript: Option<Arc<dyn Transcript>>,
    /// Why the first ones are lost, if they are.
    reason: String,
}

/// Tells turns by their places in the session, which are those of the record unless somebody has changed its course.
async fn load_older_turns(
    archive: Option<Arc<dyn TranscriptStore>>,
    chronicle: Option<Arc<dyn Transcript>>,
    empty: &Session,
) -> Result<OlderTranscriptTurns, TranscriptStoreError> {
    let chronicle = match chronicle {
        Some(chronicle) => chronicle,
        None => archive.ok_or(TranscriptStoreError::Missing)?.open(empty.conversation).await?,
    };
    let (marks, until) = (chronicle.turns(), empty.unimported_turns);
    let end = match empty.import_cursor {
        Some(next) => marks.iter().position(|mark| mark.id == next).unwrap_or(0),
        // An earlier version did not note it.
        None => until.min(marks.len()),
    };
    let count = count_last_fitting(marks.get(..end).unwrap_or_default(), IMPORT_BATCH_TURNS.min(until));
    // The first ones are those that the record may lack.
    let places = if count == end { IMPORT_BATCH_TURNS.min(until) } else { count };
    let begin = end - count;
    let told_from = if count > 0 { marks.get(begin).map(|mark| mark.id) } else { empty.import_cursor };
    let tales = load_turns(&chronicle, begin..end).await?;
    let why = "the agent's record of the conversation has become shorter".to_owned();
    Ok(OlderTranscriptTurns {
        first: until - places,
        turns: tales,
        import_cursor: told_from,
        transcript: Some(chronicle),
        reason: why,
    })
}

/// What stands in the place of a turn that the record does not tell any more.
fn placeholder_turn(id: String, why: &str) -> Turn {
    let says = format!("This turn could not be taken over: {why}.");
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
    fn turns_are_told_by_number_and_by_bytes() {
        let mark = |bytes| TurnIndexEntry {
            id: Uuid::nil(),
            message_id: None,
            is_command: false,
            is_complete: true,
            record_count: 1,
            size_bytes: bytes,
        };
        let told = |bytes: &[u64], most| count_last_fitting(&bytes.iter().copied().map(mark).collect::<Vec<_>>(), most);
        assert_eq!(told(&[], 3), 0);
        assert_eq!(told(&[1, 2, 3, 4], 3), 3);
        let half = IMPORT_BATCH_BYTES / 2;
        assert_eq!(told(&[1, half, half], 3), 2);
        assert_eq!(told(&[1, half, half + 1], 3), 1);
        assert_eq!(told(&[1, u64::MAX], 3), 1, "however long it is");
        assert_eq!(told(&[u64::MAX, 1], 3), 1);
    }

    #[test]
    fn work_that_fails_leaves_no_hole() {
        let id = Uuid::from_u128(3);
        assert_eq!(catch_turn_panic(id, || 7).ok(), Some(7));
        let lost = catch_turn_panic(id, || -> u8 { std::panic::resume_unwind(Box::new("no")) }).unwrap_err();
        assert_eq!((lost.id, lost.state), (id.to_string(), TurnState::Error));
        let known = vec![placeholder_turn("c".to_owned(), "no")];
        let turns = fill_missing_turns(3..6, known, "it is gone");
        assert_eq!(turns.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["lost-3", "lost-4", "c"]);
    }
}
