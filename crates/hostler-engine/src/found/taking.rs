//! Taking a conversation in: the last turns at once, the others in pieces. Off the actor; the actor stores what comes out.

use std::ops::Range;
use std::sync::Arc;

use ahp_types::StringOrMarkdown;
use ahp_types::state::{
    ChatState, ChatSummary, MessageKind, ResponsePart, SessionConfigState, SessionLifecycle,
    SystemNotificationResponsePart, Turn, TurnState,
};
use hostler_driver::{Archive, ArchiveError, Chronicle, Lead, ToldTurn};
use hostler_store::Blob;
use jiff::Timestamp;
use tokio::task::JoinError;
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
    let first = turns.len().saturating_sub(host.turns_in_memory.max(1));
    let mut told = Arc::clone(&chronicle).tell(first..turns.len()).await?;
    if let Some((last, before)) = turns.split_last()
        && let Some(turn) = told.last()
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
    // The agent has what was said last: a turn that failed there can be taken up here.
    session.delivered = turns.last().map(|mark| mark.id.to_string());
    let (session, blobs) = off_the_actor(move || {
        let blobs = apply(&mut session, told);
        (session, blobs)
    })
    .await?;
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

/// Applies told turns to a session, in their order. Gives the contents that they name.
fn apply(session: &mut Session, told: Vec<ToldTurn>) -> Vec<Blob> {
    let mut blobs = Vec::new();
    for turn in told {
        let otherwise = session.chat.modified_at.clone();
        let retold = retell(session, turn, &otherwise);
        for (channel, action) in &retold.actions {
            session.apply(channel, action);
        }
        blobs.extend(retold.blobs);
    }
    let uri = Arc::clone(&session.uri);
    for projection in session.chat_projections() {
        session.apply(&uri, &projection);
    }
    blobs
}

/// Older turns of a session, ready to be stored.
pub(crate) struct Piece {
    /// The place of the first of them; they go on to where the session's turns began.
    pub(crate) first: usize,
    pub(crate) turns: Vec<Turn>,
    /// The chats of their sub-agents, each with its line in the session.
    pub(crate) workers: Vec<(ChatSummary, ChatState)>,
    pub(crate) blobs: Vec<Blob>,
    /// The record, for the next piece.
    pub(crate) chronicle: Option<Arc<dyn Chronicle>>,
}

/// Tells the turns before those that a session has: as many as make a piece. `empty` is the session without any turn, `next`
/// the id of the first turn that it has.
///
/// What the record does not tell any more is said in its place, so that every turn keeps its own. `None` if it may be told
/// later.
pub(crate) async fn gather(
    archive: Option<Arc<dyn Archive>>,
    chronicle: Option<Arc<dyn Chronicle>>,
    mut empty: Session,
    next: Option<String>,
) -> Option<Piece> {
    let until = empty.untold;
    let first = until.saturating_sub(PIECE);
    let told = tell(archive, chronicle, empty.conversation, first..until, next.as_deref()).await;
    let (told, chronicle, why) = match told {
        Ok((told, chronicle)) => (told, Some(chronicle), None),
        Err(error @ ArchiveError::Failed(_)) => {
            tracing::warn!(session = &*empty.uri, %error, "turns of a record cannot be told yet");
            return None;
        }
        Err(error) => {
            tracing::warn!(session = &*empty.uri, %error, "turns of a record cannot be told any more");
            (Vec::new(), None, Some(error.to_string()))
        }
    };
    let piece = tokio::task::spawn_blocking(move || {
        let blobs = apply(&mut empty, told);
        let known = std::mem::take(&mut Arc::make_mut(&mut empty.chat).turns);
        let why = why.as_deref().unwrap_or("the agent's record of the conversation has become shorter");
        let turns = filled(first..until, known, why);
        let line = |chat: &ChatState| empty.session.chats.iter().find(|line| line.resource == chat.resource).cloned();
        let workers = empty.workers.iter().filter_map(|worker| Some((line(&worker.chat)?, (*worker.chat).clone())));
        (turns, workers.collect(), blobs)
    });
    let (turns, workers, blobs) = worked(piece.await, first..until)?;
    Some(Piece { first, turns, workers, blobs, chronicle })
}

type Worked = (Vec<Turn>, Vec<(ChatSummary, ChatState)>, Vec<Blob>);

/// What became of the work on a piece. It would fail again where it failed, so its turns are lost; one that the host's end
/// has kept from being done is not.
fn worked(result: Result<Worked, JoinError>, places: Range<usize>) -> Option<Worked> {
    match result {
        Ok(worked) => Some(worked),
        Err(error) if error.is_panic() => {
            let why = "the host failed while it read the agent's record of the conversation";
            Some((filled(places, Vec::new(), why), Vec::new(), Vec::new()))
        }
        Err(_) => None,
    }
}

/// The turns for these places: the first of them are lost, if there are too few.
fn filled(places: Range<usize>, known: Vec<Turn>, why: &str) -> Vec<Turn> {
    let missing = places.len().saturating_sub(known.len());
    places.take(missing).map(|place| lost(place, why)).chain(known).collect()
}

type Told = (Vec<ToldTurn>, Arc<dyn Chronicle>);

/// Tells turns by their places in the session, which are those of the record unless somebody has changed its course.
async fn tell(
    archive: Option<Arc<dyn Archive>>,
    chronicle: Option<Arc<dyn Chronicle>>,
    conversation: Uuid,
    places: Range<usize>,
    next: Option<&str>,
) -> Result<Told, ArchiveError> {
    let chronicle = match chronicle {
        Some(chronicle) => chronicle,
        None => archive.ok_or(ArchiveError::Missing)?.open(conversation).await?,
    };
    let next = next.and_then(|id| Uuid::try_parse(id).ok());
    let end = chronicle.turns().iter().position(|mark| Some(mark.id) == next).unwrap_or(0);
    let count = places.len().min(end);
    // The first ones are those that the record may lack.
    let told = Arc::clone(&chronicle).tell(end - count..end).await?;
    Ok((told, chronicle))
}

/// What stands in the place of a turn that the record does not tell any more.
fn lost(place: usize, why: &str) -> Turn {
    let says = format!("This turn could not be taken over: {why}.");
    Turn {
        id: format!("lost-{place}"),
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

async fn off_the_actor<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, EngineError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| EngineError::Stopping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_fails_leaves_no_hole() {
        let failed = tokio::task::spawn_blocking(|| -> Worked { std::panic::resume_unwind(Box::new("no")) }).await;
        let (turns, ..) = worked(failed, 3..5).unwrap();
        assert_eq!(turns.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["lost-3", "lost-4"]);
        let never = tokio::spawn(std::future::pending::<Worked>());
        never.abort();
        assert!(worked(never.await, 3..5).is_none(), "it was only not done");
    }
}
