//! Taking a conversation in: the last turns at once, the others in pieces. Off the actor; the actor stores what comes out.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ahp_types::StringOrMarkdown;
use ahp_types::state::{
    ChatState, ChatSummary, MessageKind, ResponsePart, SessionConfigState, SessionLifecycle,
    SystemNotificationResponsePart, Turn, TurnState,
};
use hostler_driver::{Archive, ArchiveError, Chronicle, Lead, ToldTurn, TurnMark};
use hostler_store::Blob;
use jiff::Timestamp;
use url::Url;
use uuid::Uuid;

use super::{FoundSession, retell};
use crate::EngineError;
use crate::clock::{self, ClockExt as _};
use crate::host::Host;
use crate::past::{Kept, Past};
use crate::record::Others;
use crate::session::{Session, message};

/// How long ago the last word of an unfinished turn may be, if somebody is still at it.
const UNDER_WAY_MS: i64 = 5 * 60 * 1000;

/// How many older turns are told at a time.
const PIECE: usize = 64;

/// No further turn is told with others once there are so many bytes.
const PIECE_BYTES: u64 = 8 * 1024 * 1024;

/// A conversation that is a session now, but not stored yet.
pub(crate) struct Taken {
    pub(crate) session: Session,
    /// What its turns name.
    pub(crate) blobs: Vec<Blob>,
    pub(crate) chronicle: Arc<dyn Chronicle>,
}

/// Makes a session of a conversation, with its last turns.
pub(crate) async fn take_in(host: &Host, uri: &Arc<str>, found: &FoundSession) -> Result<Taken, EngineError> {
    let driver = host.drivers.get(&found.provider);
    let archive = driver.and_then(|driver| driver.archive());
    let archive = archive.ok_or_else(|| EngineError::ProviderNotFound(found.provider.clone()))?;
    let chronicle = archive.open(found.conversation.id).await?;
    let mut turns = chronicle.turns();
    let first = turns.len() - last_of(turns, host.turns_in_memory.max(1));
    let mut told = tell(&chronicle, first..turns.len()).await?;
    if let Some((last, before)) = turns.split_last()
        && let Some(Tale::Told(turn)) = told.last()
        && is_led(&*archive, found.conversation.id, last.over)
            .await
            .unwrap_or_else(|| is_young(turn, host.clock.now_ms()))
    {
        // Somebody is in the middle of it. It is appended when it is over.
        (turns, _) = (before, told.pop());
    }
    let first = first.min(turns.len());
    let mut session = begin(host, uri, found);
    session.heard = Some(turns.last().map_or(Uuid::nil(), |mark| mark.id));
    session.others = turns.last().map(|mark| Others { turn: mark.id, length: mark.length });
    session.kept = Kept::taken_in(Past { turns: first, completed: first > 0, ..Past::default() });
    session.untold = first;
    session.told_from = chronicle.turns().get(first).map(|mark| mark.id);
    // The agent has what was said last: a turn that failed there can be taken up here.
    session.delivered = turns.last().map(|mark| mark.id.to_string());
    let applied = tokio::task::spawn_blocking(move || {
        let blobs = apply(&mut session, told);
        (session, blobs)
    });
    let (session, blobs) = applied.await.map_err(|error| ArchiveError::Failed(error.to_string()))?;
    Ok(Taken { session, blobs, chronicle })
}

/// Whether somebody is still at the last turn, as far as processes tell. A turn that looks as if it were over may go on, if
/// somebody says so.
pub(crate) async fn is_led(archive: &dyn Archive, conversation: Uuid, over: bool) -> Option<bool> {
    match (archive.lead(conversation).await, over) {
        (Some(Lead::Busy), _) | (Some(Lead::Silent), false) => Some(true),
        (_, true) | (Some(Lead::Idle), false) => Some(false),
        (None, false) => None,
    }
}

/// Whether the last word of a turn is so young that somebody may still be at it.
pub(crate) fn is_young(turn: &ToldTurn, now_ms: i64) -> bool {
    let last = turn.ended.as_ref().or(turn.began.as_ref()).and_then(|time| time.parse::<Timestamp>().ok());
    last.is_some_and(|last| now_ms.saturating_sub(last.as_millisecond()) < UNDER_WAY_MS)
}

/// The session of a conversation, before anything is told of it.
fn begin(host: &Host, uri: &Arc<str>, found: &FoundSession) -> Session {
    let FoundSession { provider, conversation } = found;
    // It may be gone: then the session can be read, and the next message says so.
    let directory = conversation.directory.clone().filter(|directory| directory.is_absolute());
    let directory = directory.unwrap_or_else(|| host.default_directory.clone());
    let directories = Url::from_file_path(&directory).map(String::from).into_iter().collect();
    let config = host.session_config(Some(&directory), &Default::default());
    let config = config.inspect_err(|error| tracing::warn!(%error, "a found session begins without a configuration"));
    let config = config.ok().map(|config| SessionConfigState { schema: config.schema, values: config.values });
    let modified = clock::text(conversation.modified);
    let created = conversation.created.clone().unwrap_or_else(|| modified.clone());
    let mut session = Session::provisional(Arc::clone(uri), provider.clone(), directories, config, modified);
    session.created_at = created;
    session.conversation = conversation.id;
    session.token = Some(conversation.token.clone());
    session.notes.title.clone_from(&conversation.given_title);
    let state = Arc::make_mut(&mut session.session);
    state.title.clone_from(&conversation.title);
    state.meta = Some(super::meta(conversation));
    state.lifecycle = SessionLifecycle::Ready;
    session
}

/// How many of the last turns are told at a time: at most so many, and at least one.
fn last_of(marks: &[TurnMark], most: usize) -> usize {
    let mut bytes = 0u64;
    let fits = |mark: &&TurnMark| {
        let before = bytes;
        bytes = bytes.saturating_add(mark.bytes);
        before == 0 || bytes <= PIECE_BYTES
    };
    marks.iter().rev().take(most).take_while(fits).count()
}

/// A turn of a record.
enum Tale {
    /// What happened in it.
    Told(ToldTurn),
    /// It cannot be told, and this stands in its place.
    Lost(Box<Turn>),
}

/// Tells turns by their places in the record. One that cannot be told does not take its neighbours with it.
async fn tell(chronicle: &Arc<dyn Chronicle>, places: Range<usize>) -> Result<Vec<Tale>, ArchiveError> {
    match Arc::clone(chronicle).tell(places.clone()).await {
        Ok(told) => return Ok(told.into_iter().map(Tale::Told).collect()),
        Err(ArchiveError::Untellable(_)) => {}
        Err(error) => return Err(error),
    }
    let mut tales = Vec::with_capacity(places.len());
    for place in places {
        match Arc::clone(chronicle).tell(place..place + 1).await {
            Ok(told) => tales.extend(told.into_iter().map(Tale::Told)),
            Err(error @ ArchiveError::Untellable(_)) => {
                let id = chronicle.turns().get(place).map_or_else(Uuid::new_v4, |mark| mark.id);
                tracing::warn!(turn = %id, "a turn of a record cannot be told");
                tales.push(Tale::Lost(Box::new(lost(id.to_string(), &error.to_string()))));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(tales)
}

/// Applies turns to a session, in their order. Gives the contents that they name.
fn apply(session: &mut Session, tales: Vec<Tale>) -> Vec<Blob> {
    let mut blobs = Vec::new();
    for tale in tales {
        match tale {
            Tale::Told(turn) => {
                let id = turn.id;
                let otherwise = session.chat.modified_at.clone();
                match guarded(id, || retell(session, turn, &otherwise)) {
                    Ok(retold) => {
                        for (channel, action) in &retold.actions {
                            session.apply(channel, action);
                        }
                        blobs.extend(retold.blobs);
                    }
                    Err(lost) => put_lost(session, *lost),
                }
            }
            Tale::Lost(turn) => put_lost(session, *turn),
        }
    }
    let uri = Arc::clone(&session.uri);
    for projection in session.chat_projections() {
        session.apply(&uri, &projection);
    }
    blobs
}

fn put_lost(session: &mut Session, turn: Turn) {
    Arc::make_mut(&mut session.chat).turns.push(turn);
}

/// Work on a turn that would fail again where it failed: then the turn is lost, and no other one with it.
fn guarded<T>(turn: Uuid, work: impl FnOnce() -> T) -> Result<T, Box<Turn>> {
    // Nothing that the work has changed is seen again.
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let why = "the host failed while it read the agent's record of the conversation";
        Box::new(lost(turn.to_string(), why))
    })
}

/// Older turns of a session, ready to be stored.
pub(crate) struct Piece {
    /// The place of the first of them; they go on to where the session's turns began.
    pub(crate) first: usize,
    pub(crate) turns: Vec<Turn>,
    /// The chats of their sub-agents, each with its line in the session.
    pub(crate) workers: Vec<(ChatSummary, ChatState)>,
    pub(crate) blobs: Vec<Blob>,
    /// The turn of the record that the first of them is, so that the next piece is found before it.
    pub(crate) told_from: Option<Uuid>,
    /// The record, for the next piece; nothing if it was given up.
    pub(crate) chronicle: Option<Arc<dyn Chronicle>>,
}

/// Tells the turns before those that a session has: as many as make a piece. `empty` is the session without any turn.
///
/// What the record does not tell any more is said in its place, so that every turn keeps its own. One that is `gone` has been
/// looked for often enough; any other trouble is an error, since it may be over later.
pub(crate) async fn gather(
    archive: Option<Arc<dyn Archive>>,
    chronicle: Option<Arc<dyn Chronicle>>,
    mut empty: Session,
    gone: bool,
) -> Result<Piece, ArchiveError> {
    let until = empty.untold;
    let older = match older(archive, chronicle, &empty).await {
        Err(error @ ArchiveError::Missing) if gone => {
            tracing::warn!(session = &*empty.uri, %error, "turns of a record are given up");
            let (first, told_from) = (until.saturating_sub(PIECE), empty.told_from);
            Older { first, tales: Vec::new(), told_from, chronicle: None, why: error.to_string() }
        }
        older => older?,
    };
    let Older { first, tales, told_from, chronicle, why } = older;
    let piece = tokio::task::spawn_blocking(move || {
        let blobs = apply(&mut empty, tales);
        let known = std::mem::take(&mut Arc::make_mut(&mut empty.chat).turns);
        let turns = filled(first..until, known, &why);
        let line = |chat: &ChatState| empty.session.chats.iter().find(|line| line.resource == chat.resource).cloned();
        let workers = empty.workers.iter().filter_map(|worker| Some((line(&worker.chat)?, (*worker.chat).clone())));
        let workers = workers.collect();
        Piece { first, turns, workers, blobs, told_from, chronicle }
    });
    piece.await.map_err(|error| ArchiveError::Failed(error.to_string()))
}

/// The turns for these places: the first of them are lost, if there are too few.
fn filled(places: Range<usize>, known: Vec<Turn>, why: &str) -> Vec<Turn> {
    let missing = places.len().saturating_sub(known.len());
    places.take(missing).map(|place| lost(format!("lost-{place}"), why)).chain(known).collect()
}

/// What a record tells of the turns before those that a session has.
struct Older {
    /// The place of the first one.
    first: usize,
    tales: Vec<Tale>,
    told_from: Option<Uuid>,
    chronicle: Option<Arc<dyn Chronicle>>,
    /// Why the first ones are lost, if they are.
    why: String,
}

/// Tells turns by their places in the session, which are those of the record unless somebody has changed its course.
async fn older(
    archive: Option<Arc<dyn Archive>>,
    chronicle: Option<Arc<dyn Chronicle>>,
    empty: &Session,
) -> Result<Older, ArchiveError> {
    let chronicle = match chronicle {
        Some(chronicle) => chronicle,
        None => archive.ok_or(ArchiveError::Missing)?.open(empty.conversation).await?,
    };
    let (marks, until) = (chronicle.turns(), empty.untold);
    let end = match empty.told_from {
        Some(next) => marks.iter().position(|mark| mark.id == next).unwrap_or(0),
        // An earlier version did not note it.
        None => until.min(marks.len()),
    };
    let count = last_of(marks.get(..end).unwrap_or_default(), PIECE.min(until));
    // The first ones are those that the record may lack.
    let places = if count == end { PIECE.min(until) } else { count };
    let begin = end - count;
    let told_from = if count > 0 { marks.get(begin).map(|mark| mark.id) } else { empty.told_from };
    let tales = tell(&chronicle, begin..end).await?;
    let why = "the agent's record of the conversation has become shorter".to_owned();
    Ok(Older { first: until - places, tales, told_from, chronicle: Some(chronicle), why })
}

/// What stands in the place of a turn that the record does not tell any more.
fn lost(id: String, why: &str) -> Turn {
    let says = format!("This turn could not be taken over: {why}.");
    Turn {
        id,
        started_at: None,
        duration: None,
        message: message(String::new(), MessageKind::SystemNotification),
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
        let mark = |bytes| TurnMark { id: Uuid::nil(), message: None, command: false, over: true, length: 1, bytes };
        let told = |bytes: &[u64], most| last_of(&bytes.iter().copied().map(mark).collect::<Vec<_>>(), most);
        assert_eq!(told(&[], 3), 0);
        assert_eq!(told(&[1, 2, 3, 4], 3), 3);
        let half = PIECE_BYTES / 2;
        assert_eq!(told(&[1, half, half], 3), 2);
        assert_eq!(told(&[1, half, half + 1], 3), 1);
        assert_eq!(told(&[1, u64::MAX], 3), 1, "however long it is");
        assert_eq!(told(&[u64::MAX, 1], 3), 1);
    }

    #[test]
    fn work_that_fails_leaves_no_hole() {
        let id = Uuid::from_u128(3);
        assert_eq!(guarded(id, || 7).ok(), Some(7));
        let lost = guarded(id, || -> u8 { std::panic::resume_unwind(Box::new("no")) }).unwrap_err();
        assert_eq!((lost.id, lost.state), (id.to_string(), TurnState::Error));
        let known = vec![super::lost("c".to_owned(), "no")];
        let turns = filled(3..6, known, "it is gone");
        assert_eq!(turns.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["lost-3", "lost-4", "c"]);
    }
}
