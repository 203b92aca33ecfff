//! Pages of turns: how many turns of a chat a snapshot contains, and how clients load the turns before them.
//!
//! Completed turns do not change. Older rows are therefore read first, while the session continues, and the snapshot adds
//! the turn window at a sequence number. The first turn that each connection received is stored with its subscriber, in
//! sequence order; `chat/turnsLoaded` is a unicast action.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ahp_types::actions::ChatTurnsLoadedAction;
use ahp_types::state::{
    ChatState, Message, MessageKind, MessageOrigin, ResponsePart, SystemNotificationResponsePart, Turn, TurnState,
};
use ahp_types::{StateAction, StringOrMarkdown};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hostler_redact::redact_json_error;
use hostler_store::{ActionEntry, Batch, BatchDurability, StoredTurn, TurnPageLimits};

use crate::clients::broadcaster::{Delivery, Subscriber};
use crate::host::Host;
use crate::sessions::session::clone_without_turns;
use crate::sessions::turn_storage::EvictedTurns;
use crate::{EngineError, InvalidParams};

/// Maximum number of turns that one `fetchTurns` loads.
const MAX_PAGE_TURNS: usize = 100;

/// A page gets no further turn once it has this many bytes.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// Page size for reading a long chat before its snapshot is taken.
const READ_PAGE: TurnPageLimits = TurnPageLimits { max_turns: 512, max_bytes: 1024 * 1024, from_end: false };

/// Which turns of a chat a snapshot contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotTurns {
    /// All turns.
    #[default]
    All,
    /// This many of the last turns; at least one, because the last turn can be resumed.
    Last(usize),
    /// Turns from the first one that the client's previous connection had; all turns if that is unknown.
    SameAsBefore,
}

/// Turns before those in a snapshot's state. They were read from the store before the snapshot was taken, so neither the
/// session nor the connection waits for the disk.
#[derive(Clone, Default)]
pub struct OlderTurns {
    turns: VecDeque<String>,
}

impl fmt::Debug for OlderTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OlderTurns").field("count", &self.turns.len()).finish_non_exhaustive()
    }
}

impl Iterator for OlderTurns {
    type Item = String;

    /// The next turn in order, as JSON.
    fn next(&mut self) -> Option<String> {
        self.turns.pop_front()
    }
}

/// A chat as a snapshot contains it.
pub(crate) struct ChatSnapshot {
    pub(crate) state: Arc<ChatState>,
    /// Index of the first turn in the snapshot.
    pub(crate) first_turn: usize,
    /// Turns of the snapshot that are not in memory.
    pub(crate) older_turns: Option<OlderTurns>,
}

/// The part of a chat's snapshot that is in the store only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPart {
    /// Indexes of the turns.
    turns: Range<usize>,
    /// Index of the turn whose id the cursor of the snapshot contains.
    cursor_turn: Option<usize>,
}

/// What was read from the store for a snapshot.
#[derive(Default)]
pub(crate) struct PreparedTurns {
    /// Index of the first of the turns.
    first_turn: usize,
    older: OlderTurns,
    /// A turn's index and id.
    cursor_turn: Option<(usize, String)>,
}

impl PreparedTurns {
    /// The indexes of the turns that were read.
    fn positions(&self) -> Range<usize> {
        self.first_turn..self.first_turn + self.older.turns.len()
    }

    fn contains(&self, part: &StoredPart) -> bool {
        (part.turns.is_empty() || self.positions() == part.turns)
            && part.cursor_turn.is_none_or(|position| self.cursor_id(position).is_some())
    }

    fn cursor_id(&self, position: usize) -> Option<&String> {
        self.cursor_turn.as_ref().filter(|(known, _)| *known == position).map(|(_, id)| id)
    }
}

/// End of a page: the index of a turn, with the id of the turn right before it, if that one is imported.
struct TurnCursor {
    position: usize,
    chat: String,
    turn: String,
}

impl TurnCursor {
    fn encode(position: usize, chat: &str, turn: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{position}\n{chat}\n{turn}"))
    }

    fn decode(text: &str) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let mut parts = text.splitn(3, '\n');
        let position = parts.next()?.parse().ok()?;
        Some(Self { position, chat: parts.next()?.to_owned(), turn: parts.next()?.to_owned() })
    }
}

/// A page of older turns of a chat.
struct TurnPage {
    turns: Vec<Turn>,
    /// Index of the first turn of the page.
    first_turn: usize,
    next_cursor: Option<String>,
}

impl Host {
    /// Returns a chat with the turns that a subscriber requested. Never waits.
    ///
    /// # Errors
    /// The part that has to be read from the store first.
    pub(crate) fn chat_snapshot(
        &self,
        chat: &Arc<ChatState>,
        past: &EvictedTurns,
        extent: SnapshotTurns,
        subscriber: &Subscriber,
        prepared: PreparedTurns,
    ) -> Result<ChatSnapshot, (StoredPart, PreparedTurns)> {
        let total = past.count + chat.turns.len();
        let last = |turns: usize| total.saturating_sub(turns.max(1));
        let first = match extent {
            SnapshotTurns::All => 0,
            SnapshotTurns::Last(turns) => last(turns),
            SnapshotTurns::SameAsBefore => {
                subscriber.turn_window(&chat.resource).map_or(0, |begins| begins.first_turn).min(last(1))
            }
        };
        let cursor_turn = first.checked_sub(1);
        // A turn that is not imported yet has no id. Its index is fixed.
        let unimported = self.external.unimported_count(&chat.resource);
        let part = StoredPart {
            turns: first.min(past.count)..past.count,
            cursor_turn: cursor_turn.filter(|position| (unimported..past.count).contains(position)),
        };
        if !prepared.contains(&part) {
            return Err((part, prepared));
        }
        let older_turns = (!part.turns.is_empty()).then_some(prepared.older);
        let Some(position) = cursor_turn else {
            return Ok(ChatSnapshot { state: Arc::clone(chat), first_turn: first, older_turns });
        };
        let in_memory = || chat.turns.get(position.checked_sub(past.count)?).map(|turn| &turn.id);
        let prepared_id = prepared.cursor_turn.as_ref().filter(|_| part.cursor_turn.is_some()).map(|(_, id)| id);
        let id = prepared_id.or_else(in_memory).map(String::as_str).unwrap_or_default();
        let mut state = clone_without_turns(chat);
        state.turns = chat.turns.iter().skip(first.saturating_sub(past.count)).cloned().collect();
        state.turns_next_cursor = Some(TurnCursor::encode(first, &chat.resource, id));
        Ok(ChatSnapshot { state: Arc::new(state), first_turn: first, older_turns })
    }

    /// Reads a part of a chat from the store, beyond what was read before.
    pub(crate) async fn read_stored_part(
        &self,
        chat: &str,
        part: StoredPart,
        mut prepared: PreparedTurns,
    ) -> Result<PreparedTurns, EngineError> {
        let StoredPart { turns, cursor_turn } = part;
        let missing = || EngineError::ChannelNotFound(chat.to_owned());
        if let Some(position) = cursor_turn.filter(|position| prepared.cursor_id(*position).is_none()) {
            let id = self.store.turn_id_at(chat, position).await?.ok_or_else(missing)?;
            prepared.cursor_turn = Some((position, id));
        }
        if turns.is_empty() {
            return Ok(prepared);
        }
        // Turns may have been evicted meanwhile, but the earlier ones are the same.
        if prepared.first_turn > turns.start || prepared.positions().end > turns.end {
            prepared.older.turns.clear();
        }
        let surplus = turns.start.saturating_sub(prepared.first_turn).min(prepared.older.turns.len());
        prepared.older.turns.drain(..surplus);
        prepared.first_turn = turns.start;
        while prepared.positions().end < turns.end {
            let next = prepared.positions().end;
            self.wait_until_imported(chat, next).await?;
            let page = self.store.load_turns(chat, next..turns.end, READ_PAGE).await?;
            if page.is_empty() {
                return Err(missing());
            }
            prepared.older.turns.extend(page.into_iter().map(turn_json));
        }
        Ok(prepared)
    }

    /// Waits until the turn at an index is stored, if it is not imported yet.
    /// Fails if the import is not expected to reach it soon.
    pub(crate) async fn wait_until_imported(&self, chat: &str, place: usize) -> Result<(), EngineError> {
        tokio::select! {
            imported = self.external.wait_until_imported(chat, place) => imported,
            () = self.tasks.stopped() => Err(EngineError::Stopping),
        }
    }

    /// Cursor of the turns before an index; `None` at the first turn.
    async fn older_turns_cursor(
        &self,
        chat: &ChatState,
        past: &EvictedTurns,
        first: usize,
    ) -> Result<Option<String>, EngineError> {
        let Some(before) = first.checked_sub(1) else { return Ok(None) };
        let id = match before.checked_sub(past.count) {
            Some(index) => chat.turns.get(index).map(|turn| turn.id.clone()),
            // The turn is not imported yet. Its index is fixed.
            None if before < self.external.unimported_count(&chat.resource) => Some(String::new()),
            None => self.store.turn_id_at(&chat.resource, before).await?,
        };
        let id = id.ok_or_else(|| EngineError::ChannelNotFound(chat.resource.clone()))?;
        Ok(Some(TurnCursor::encode(first, &chat.resource, &id)))
    }

    /// Loads older turns for one connection: `chat/turnsLoaded` arrives in its queue under `token`, in sequence order,
    /// and is sent to no other connection.
    pub(crate) async fn fetch_turns(
        self: &Arc<Self>,
        channel: &str,
        cursor: Option<&str>,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        // This commit runs after any subscription that was requested earlier.
        self.publication.commit(Batch::new(None, BatchDurability::Memory)).await?;
        let view = self.chat_view(channel).await.ok_or_else(|| EngineError::ChannelNotFound(channel.to_owned()))?;
        if !self.publication.is_subscribed(channel, subscriber.id()) {
            return Err(InvalidParams::NotSubscribed.into());
        }
        let known = subscriber.turn_window(channel);
        let cursor = cursor.map(|text| {
            TurnCursor::decode(text).filter(|cursor| cursor.chat == channel).ok_or_else(foreign_cursor_error)
        });
        let cursor = cursor.transpose()?;
        let until = match &cursor {
            Some(cursor) => cursor.position,
            None => known
                .filter(|known| known.is_confirmed)
                .map(|known| known.first_turn)
                .ok_or(InvalidParams::CursorRequired)?,
        };
        // After a reconnect the client's own cursor counts, because the last page may not have arrived.
        let elsewhere = known.is_some_and(|known| known.is_confirmed && known.first_turn != until);
        if until > view.evicted_turns.count + view.chat.turns.len() || elsewhere {
            return Err(stale_cursor_error());
        }
        let TurnPage { turns, first_turn: first, next_cursor: next } =
            self.load_turns_before(&view.chat, &view.evicted_turns, until).await?;
        let misses = |cursor: TurnCursor| {
            let ends_there = |turn: &Turn| cursor.turn.is_empty() || turn.id == cursor.turn;
            !turns.last().is_some_and(ends_there)
        };
        if cursor.is_some_and(misses) {
            return Err(stale_cursor_error());
        }
        let loaded = ChatTurnsLoadedAction { turns, turns_next_cursor: next };
        let entry = ActionEntry::new(channel.into(), StateAction::ChatTurnsLoaded(loaded))?;
        let (host, subscriber) = (Arc::clone(self), subscriber.clone());
        let batch = Batch::new(None, BatchDurability::Memory).unicast(entry, move |item| {
            // The client may have received another snapshot meanwhile, or unsubscribed.
            let fits = host.publication.is_subscribed(&item.channel, subscriber.id())
                && subscriber.turn_window(&item.channel) == known;
            let chat = Arc::clone(&item.channel);
            let delivered = subscriber.deliver(Delivery::TurnsLoaded { token, envelope: fits.then_some(item) });
            if fits && delivered {
                subscriber.set_turn_window(&chat, first);
            }
        });
        self.publication.submit(batch).await?;
        Ok(())
    }

    /// Loads a page of the turns before an index, from memory or from the store.
    async fn load_turns_before(
        &self,
        chat: &ChatState,
        past: &EvictedTurns,
        until: usize,
    ) -> Result<TurnPage, EngineError> {
        let turns: Vec<Turn> = match until.checked_sub(past.count) {
            Some(held) if held > 0 => last_page(chat.turns.get(..held).unwrap_or_default()).to_vec(),
            _ => {
                if let Some(last) = until.checked_sub(1) {
                    self.wait_until_imported(&chat.resource, last).await?;
                }
                let page = TurnPageLimits { max_turns: MAX_PAGE_TURNS, max_bytes: MAX_PAGE_BYTES, from_end: true };
                let stored = self.store.load_turns(&chat.resource, 0..until, page).await?;
                stored.iter().map(parse_stored_turn).collect()
            }
        };
        let first = until.saturating_sub(turns.len());
        let cursor = self.older_turns_cursor(chat, past, first).await?;
        Ok(TurnPage { turns, first_turn: first, next_cursor: cursor })
    }
}

/// As many of the last turns as fit into a page, and at least one.
fn last_page(turns: &[Turn]) -> &[Turn] {
    let mut bytes = 0;
    let fits = |turn: &&Turn| {
        let before = bytes;
        bytes += serde_json::to_string(turn).map_or(0, |json| json.len());
        before == 0 || bytes <= MAX_PAGE_BYTES
    };
    let count = turns.iter().rev().take(MAX_PAGE_TURNS).take_while(fits).count();
    turns.get(turns.len() - count..).unwrap_or_default()
}

/// Parses a stored turn. An unreadable row becomes a placeholder turn, so that the indexes of its neighbors do not
/// change.
pub(crate) fn parse_stored_turn(turn: &StoredTurn) -> Turn {
    serde_json::from_str(&turn.body).unwrap_or_else(|error| {
        tracing::error!(
            chat = turn.chat,
            turn = turn.id,
            error = redact_json_error(&error),
            "failed to read a stored turn"
        );
        unreadable_turn(turn)
    })
}

fn unreadable_turn(turn: &StoredTurn) -> Turn {
    let says = "This turn could not be read from the host's store.";
    Turn {
        id: turn.id.clone(),
        started_at: None,
        duration: None,
        message: Message {
            text: String::new(),
            origin: MessageOrigin { kind: MessageKind::SystemNotification },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        },
        response_parts: vec![ResponsePart::SystemNotification(SystemNotificationResponsePart {
            content: StringOrMarkdown::Plain(says.to_owned()),
            meta: None,
        })],
        usage: None,
        state: TurnState::Error,
    }
}

/// Returns a turn as JSON; a damaged row becomes a placeholder.
fn turn_json(turn: StoredTurn) -> String {
    // Rows are not parsed again here: data that a file system loses is missing at the start or at the end.
    if turn.body.starts_with('{') && turn.body.ends_with('}') {
        return turn.body;
    }
    serde_json::to_string(&parse_stored_turn(&turn)).unwrap_or_default()
}

fn foreign_cursor_error() -> EngineError {
    InvalidParams::ForeignTurnCursor.into()
}

/// The cursor does not match the first turn of this connection.
pub(crate) fn stale_cursor_error() -> EngineError {
    InvalidParams::StaleTurnCursor.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_round_trips_and_rejects_garbage() {
        for turn in ["t1", "", "two\nlines"] {
            let cursor = TurnCursor::decode(&TurnCursor::encode(7, "ahp-chat:/c", turn)).unwrap();
            assert_eq!((cursor.position, &*cursor.chat, &*cursor.turn), (7, "ahp-chat:/c", turn));
        }
        let of = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for garbage in ["", "%", &of(""), &of("7"), &of("7\nc"), &of("-1\nc\nt"), &of("x\nc\nt")] {
            assert!(TurnCursor::decode(garbage).is_none(), "{garbage:?}");
        }
    }

    #[test]
    fn unreadable_row_keeps_its_index() {
        for body in ["", "{", "not JSON", r#"{"id":"t1"}"#] {
            let row = StoredTurn { chat: "c".to_owned(), id: "t1".to_owned(), body: body.to_owned() };
            let turn = parse_stored_turn(&row);
            assert_eq!((turn.id.as_str(), turn.state), ("t1", TurnState::Error), "{body:?}");
            let sent = turn_json(row);
            assert!(serde_json::from_str::<serde_json::Value>(&sent).is_ok(), "{body:?}: {sent}");
        }
    }

    #[test]
    fn page_from_memory_is_limited_by_bytes_and_has_at_least_one_turn() {
        let turn = |size: usize| {
            let mut turn =
                unreadable_turn(&StoredTurn { chat: "c".to_owned(), id: "t".to_owned(), body: String::new() });
            turn.message.text = "x".repeat(size);
            turn
        };
        assert_eq!(last_page(&vec![turn(10); MAX_PAGE_TURNS + 5]).len(), MAX_PAGE_TURNS);
        assert_eq!(last_page(&vec![turn(MAX_PAGE_BYTES / 3); 9]).len(), 2);
        assert_eq!(last_page(&[turn(1), turn(MAX_PAGE_BYTES * 2)]).len(), 1);
        assert!(last_page(&[]).is_empty());
    }
}
