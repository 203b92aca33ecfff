//! Turns by the page: how much of a chat a snapshot holds, and the turns before it.
//!
//! A turn that has ended does not change, so that turns which only the store holds can be read after the moment that a
//! snapshot is about. Where a connection's turns begin is noted with its subscriber, in the order of numbers.

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

use crate::EngineError;
use crate::broadcaster::{Delivery, Subscriber};
use crate::host::Host;
use crate::session::clone_without_turns;
use crate::turn_storage::EvictedTurns;

/// How many turns `fetchTurns` loads at most.
const MAX_PAGE_TURNS: usize = 100;

/// No further turn of a page once there are so many bytes.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// How much of a long chat is read at a time on its way to a client.
const READ_PAGE: TurnPageLimits = TurnPageLimits { max_turns: 512, max_bytes: 1024 * 1024, from_end: false };

/// How much of a chat a snapshot is to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotTurns {
    /// All turns.
    #[default]
    All,
    /// So many of the last turns; at least one, since the last turn can be taken up again.
    Last(usize),
    /// Those from where the client's turns began on its connection before this one; all, if that is not known.
    SameAsBefore,
}

/// Turns that come before those of a snapshot's state and are still to be read.
#[derive(Clone)]
pub struct OlderTurns {
    host: Arc<Host>,
    chat: Arc<str>,
    positions: Range<usize>,
}

impl fmt::Debug for OlderTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OlderTurns").field("between", &self.positions).finish_non_exhaustive()
    }
}

impl OlderTurns {
    /// The next of them in their order, each as JSON; `None` after the last one.
    ///
    /// # Errors
    /// If the store cannot be read, or the chat is gone.
    pub async fn next_page(&mut self) -> Result<Option<Vec<String>>, EngineError> {
        if self.positions.is_empty() {
            return Ok(None);
        }
        self.host.wait_until_imported(&self.chat, self.positions.start).await?;
        let turns = self.host.store.load_turns(&self.chat, self.positions.clone(), READ_PAGE).await?;
        if turns.is_empty() {
            return Err(EngineError::ChannelNotFound(self.chat.to_string()));
        }
        self.positions.start += turns.len();
        Ok(Some(turns.into_iter().map(turn_json).collect()))
    }
}

/// A chat as a snapshot shows it.
pub(crate) struct ChatSnapshot {
    pub(crate) state: Arc<ChatState>,
    /// Where its turns begin.
    pub(crate) first_turn: usize,
    /// Those that have to be read.
    pub(crate) older_turns: Option<OlderTurns>,
}

/// Where a page ends: before a turn, which is named by the one that comes right before it, if that is known yet.
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

/// Older turns of a chat.
struct TurnPage {
    turns: Vec<Turn>,
    /// Where they begin.
    first_turn: usize,
    next_cursor: Option<String>,
}

impl Host {
    /// A chat to the extent that a subscriber wants to see it.
    pub(crate) async fn chat_snapshot(
        self: &Arc<Self>,
        chat: &Arc<ChatState>,
        past: &EvictedTurns,
        extent: SnapshotTurns,
        subscriber: &Subscriber,
    ) -> Result<ChatSnapshot, EngineError> {
        let total = past.count + chat.turns.len();
        let last = |turns: usize| total.saturating_sub(turns.max(1));
        let first = match extent {
            SnapshotTurns::All => 0,
            SnapshotTurns::Last(turns) => last(turns),
            SnapshotTurns::SameAsBefore => {
                subscriber.turn_window(&chat.resource).map_or(0, |begins| begins.first_turn).min(last(1))
            }
        };
        let read = first.min(past.count)..past.count;
        let older = (!read.is_empty()).then(|| OlderTurns {
            host: Arc::clone(self),
            chat: chat.resource.as_str().into(),
            positions: read,
        });
        if first == 0 {
            return Ok(ChatSnapshot { state: Arc::clone(chat), first_turn: first, older_turns: older });
        }
        let mut state = clone_without_turns(chat);
        state.turns = chat.turns.iter().skip(first.saturating_sub(past.count)).cloned().collect();
        state.turns_next_cursor = self.older_turns_cursor(chat, past, first).await?;
        Ok(ChatSnapshot { state: Arc::new(state), first_turn: first, older_turns: older })
    }

    /// Waits until the turn at a place of a chat is stored, where it is still to be taken in. An error where that is not to be
    /// expected soon.
    pub(crate) async fn wait_until_imported(&self, chat: &str, place: usize) -> Result<(), EngineError> {
        tokio::select! {
            told = self.unimported_turns.wait_until_imported(chat, place) => told,
            () = self.stop.cancelled() => Err(EngineError::Stopping),
        }
    }

    /// The cursor of the turns before a place; `None` at the beginning.
    async fn older_turns_cursor(
        &self,
        chat: &ChatState,
        past: &EvictedTurns,
        first: usize,
    ) -> Result<Option<String>, EngineError> {
        let Some(before) = first.checked_sub(1) else { return Ok(None) };
        let id = match before.checked_sub(past.count) {
            Some(index) => chat.turns.get(index).map(|turn| turn.id.clone()),
            // It is still to be taken in. Its place is certain.
            None if before < self.unimported_turns.missing_count(&chat.resource) => Some(String::new()),
            None => self.store.turn_id_at(&chat.resource, before).await?,
        };
        let id = id.ok_or_else(|| EngineError::ChannelNotFound(chat.resource.clone()))?;
        Ok(Some(TurnCursor::encode(first, &chat.resource, &id)))
    }

    /// Loads older turns for one connection: `chat/turnsLoaded` arrives in its queue under `token`, in the order of
    /// numbers, and nobody else hears it.
    pub(crate) async fn fetch_turns(
        self: &Arc<Self>,
        channel: &str,
        cursor: Option<&str>,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        // A subscription that was asked for before has happened then.
        self.store.sequencer().commit(Batch::new(None, BatchDurability::Memory)).await?;
        let view = self.chat_view(channel).await.ok_or_else(|| EngineError::ChannelNotFound(channel.to_owned()))?;
        if !self.broadcaster.is_subscribed(channel, subscriber.id()) {
            return Err(EngineError::Invalid(
                "subscribe to the chat first: turns are loaded into its state".to_owned(),
            ));
        }
        let known = subscriber.turn_window(channel);
        let cursor = cursor.map(|text| {
            TurnCursor::decode(text).filter(|cursor| cursor.chat == channel).ok_or_else(foreign_cursor_error)
        });
        let cursor = cursor.transpose()?;
        let until = match &cursor {
            Some(cursor) => cursor.position,
            None => known.filter(|known| known.is_confirmed).map(|known| known.first_turn).ok_or_else(|| {
                EngineError::Invalid("name the cursor: this connection has not been sent the chat's state".to_owned())
            })?,
        };
        // What a client that came back has, it knows better: the last page may have been lost on its way.
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
            // It may have got another view of the chat meanwhile, or left it.
            let fits = host.broadcaster.is_subscribed(&item.channel, subscriber.id())
                && subscriber.turn_window(&item.channel) == known;
            let chat = Arc::clone(&item.channel);
            let delivered = subscriber.deliver(Delivery::TurnsLoaded { token, envelope: fits.then_some(item) });
            if fits && delivered {
                subscriber.set_turn_window(&chat, first);
            }
        });
        self.store.sequencer().submit(batch).await?;
        Ok(())
    }

    /// A page of the turns before a place: from memory, or from the store.
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

/// A turn from its row. One that cannot be read keeps its place, so that its neighbours keep theirs.
pub(crate) fn parse_stored_turn(turn: &StoredTurn) -> Turn {
    serde_json::from_str(&turn.body).unwrap_or_else(|error| {
        tracing::error!(
            chat = turn.chat,
            turn = turn.id,
            error = redact_json_error(&error),
            "a stored turn could not be read"
        );
        unreadable_turn(turn)
    })
}

fn unreadable_turn(turn: &StoredTurn) -> Turn {
    let says = "This turn could not be read back from the host's store.";
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

/// A turn as JSON, whatever became of its row.
fn turn_json(turn: StoredTurn) -> String {
    // Whole rows are not read once more for this: what the file system lost is lost at an end.
    if turn.body.starts_with('{') && turn.body.ends_with('}') {
        return turn.body;
    }
    serde_json::to_string(&parse_stored_turn(&turn)).unwrap_or_default()
}

fn foreign_cursor_error() -> EngineError {
    EngineError::Invalid("the cursor is not one that this host gave for this chat".to_owned())
}

/// The cursor's place is not where this connection's turns begin.
pub(crate) fn stale_cursor_error() -> EngineError {
    EngineError::Invalid(
        "the cursor is not the chat's last one on this connection; use turnsNextCursor as it is now".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_garbage_is_not() {
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
    fn a_row_that_cannot_be_read_keeps_its_place() {
        for body in ["", "{", "not JSON", r#"{"id":"t1"}"#] {
            let row = StoredTurn { chat: "c".to_owned(), id: "t1".to_owned(), body: body.to_owned() };
            let turn = parse_stored_turn(&row);
            assert_eq!((turn.id.as_str(), turn.state), ("t1", TurnState::Error), "{body:?}");
            let sent = turn_json(row);
            assert!(serde_json::from_str::<serde_json::Value>(&sent).is_ok(), "{body:?}: {sent}");
        }
    }

    #[test]
    fn a_page_from_memory_ends_by_bytes_and_is_never_empty_for_nothing() {
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
