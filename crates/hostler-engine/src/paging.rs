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
use hostler_redact::json_fault;
use hostler_store::{Batch, Durability, Entry, Page, StoredTurn};

use crate::EngineError;
use crate::host::Host;
use crate::hub::{Delivery, Subscriber};
use crate::past::Past;
use crate::session::without_turns;

/// How many turns `fetchTurns` loads at most.
const PAGE: usize = 100;

/// No further turn of a page once there are so many bytes.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// How much of a long chat is read at a time on its way to a client.
const READ: Page = Page { turns: 512, bytes: 1024 * 1024, newest: false };

/// How much of a chat a snapshot is to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// All turns.
    #[default]
    All,
    /// So many of the last turns; at least one, since the last turn can be taken up again.
    Last(usize),
    /// Those from where the client's turns began on its connection before this one; all, if that is not known.
    AsBefore,
}

/// Turns that come before those of a snapshot's state and are still to be read.
#[derive(Clone)]
pub struct OlderTurns {
    host: Arc<Host>,
    chat: Arc<str>,
    between: Range<usize>,
}

impl fmt::Debug for OlderTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OlderTurns").field("between", &self.between).finish_non_exhaustive()
    }
}

impl OlderTurns {
    /// The next of them in their order, each as JSON; `None` after the last one.
    ///
    /// # Errors
    /// If the store cannot be read, or the chat is gone.
    pub async fn next_page(&mut self) -> Result<Option<Vec<String>>, EngineError> {
        if self.between.is_empty() {
            return Ok(None);
        }
        self.host.is_told(&self.chat, self.between.start).await?;
        let turns = self.host.store.turns(&self.chat, self.between.clone(), READ).await?;
        if turns.is_empty() {
            return Err(EngineError::ChannelNotFound(self.chat.to_string()));
        }
        self.between.start += turns.len();
        Ok(Some(turns.into_iter().map(json).collect()))
    }
}

/// A chat as a snapshot shows it.
pub(crate) struct Shown {
    pub(crate) state: Arc<ChatState>,
    /// Where its turns begin.
    pub(crate) first: usize,
    /// Those that have to be read.
    pub(crate) older: Option<OlderTurns>,
}

/// Where a page ends: before a turn, which is named by the one that comes right before it, if that is known yet.
struct Cursor {
    position: usize,
    chat: String,
    turn: String,
}

impl Cursor {
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
struct Older {
    turns: Vec<Turn>,
    /// Where they begin.
    first: usize,
    cursor: Option<String>,
}

impl Host {
    /// A chat to the extent that a subscriber wants to see it.
    pub(crate) async fn shown(
        self: &Arc<Self>,
        chat: &Arc<ChatState>,
        past: &Past,
        extent: Extent,
        subscriber: &Subscriber,
    ) -> Result<Shown, EngineError> {
        let total = past.turns + chat.turns.len();
        let last = |turns: usize| total.saturating_sub(turns.max(1));
        let first = match extent {
            Extent::All => 0,
            Extent::Last(turns) => last(turns),
            Extent::AsBefore => subscriber.first_turn(&chat.resource).map_or(0, |begins| begins.first).min(last(1)),
        };
        let read = first.min(past.turns)..past.turns;
        let older = (!read.is_empty()).then(|| OlderTurns {
            host: Arc::clone(self),
            chat: chat.resource.as_str().into(),
            between: read,
        });
        if first == 0 {
            return Ok(Shown { state: Arc::clone(chat), first, older });
        }
        let mut state = without_turns(chat);
        state.turns = chat.turns.iter().skip(first.saturating_sub(past.turns)).cloned().collect();
        state.turns_next_cursor = self.cursor(chat, past, first).await?;
        Ok(Shown { state: Arc::new(state), first, older })
    }

    /// Waits until the turn at a place of a chat is stored, where it is still to be taken in. An error where that is not to be
    /// expected soon.
    pub(crate) async fn is_told(&self, chat: &str, place: usize) -> Result<(), EngineError> {
        tokio::select! {
            told = self.untold.told(chat, place) => told,
            () = self.stop.cancelled() => Err(EngineError::Stopping),
        }
    }

    /// The cursor of the turns before a place; `None` at the beginning.
    async fn cursor(&self, chat: &ChatState, past: &Past, first: usize) -> Result<Option<String>, EngineError> {
        let Some(before) = first.checked_sub(1) else { return Ok(None) };
        let id = match before.checked_sub(past.turns) {
            Some(index) => chat.turns.get(index).map(|turn| turn.id.clone()),
            // It is still to be taken in. Its place is certain.
            None if before < self.untold.of(&chat.resource) => Some(String::new()),
            None => self.store.turn_at(&chat.resource, before).await?,
        };
        let id = id.ok_or_else(|| EngineError::ChannelNotFound(chat.resource.clone()))?;
        Ok(Some(Cursor::encode(first, &chat.resource, &id)))
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
        self.store.sequencer().commit(Batch::new(None, Durability::Memory)).await?;
        let view = self.view(channel).await.ok_or_else(|| EngineError::ChannelNotFound(channel.to_owned()))?;
        if !self.hub.hears(channel, subscriber.id()) {
            return Err(EngineError::Invalid(
                "subscribe to the chat first: turns are loaded into its state".to_owned(),
            ));
        }
        let known = subscriber.first_turn(channel);
        let cursor =
            cursor.map(|text| Cursor::decode(text).filter(|cursor| cursor.chat == channel).ok_or_else(foreign));
        let cursor = cursor.transpose()?;
        let until = match &cursor {
            Some(cursor) => cursor.position,
            None => known.filter(|known| known.sure).map(|known| known.first).ok_or_else(|| {
                EngineError::Invalid("name the cursor: this connection has not been sent the chat's state".to_owned())
            })?,
        };
        // What a client that came back has, it knows better: the last page may have been lost on its way.
        let elsewhere = known.is_some_and(|known| known.sure && known.first != until);
        if until > view.past.turns + view.chat.turns.len() || elsewhere {
            return Err(stale());
        }
        let Older { turns, first, cursor: next } = self.turns_before(&view.chat, &view.past, until).await?;
        let misses = |cursor: Cursor| {
            let ends_there = |turn: &Turn| cursor.turn.is_empty() || turn.id == cursor.turn;
            !turns.last().is_some_and(ends_there)
        };
        if cursor.is_some_and(misses) {
            return Err(stale());
        }
        let loaded = ChatTurnsLoadedAction { turns, turns_next_cursor: next };
        let entry = Entry::new(channel.into(), StateAction::ChatTurnsLoaded(loaded))?;
        let (host, subscriber) = (Arc::clone(self), subscriber.clone());
        let batch = Batch::new(None, Durability::Memory).aside(entry, move |item| {
            // It may have got another view of the chat meanwhile, or left it.
            let fits = host.hub.hears(&item.channel, subscriber.id()) && subscriber.first_turn(&item.channel) == known;
            let chat = Arc::clone(&item.channel);
            let delivered = subscriber.deliver(Delivery::Turns { token, loaded: fits.then_some(item) });
            if fits && delivered {
                subscriber.turns_begin(&chat, first);
            }
        });
        self.store.sequencer().submit(batch).await?;
        Ok(())
    }

    /// A page of the turns before a place: from memory, or from the store.
    async fn turns_before(&self, chat: &ChatState, past: &Past, until: usize) -> Result<Older, EngineError> {
        let turns: Vec<Turn> = match until.checked_sub(past.turns) {
            Some(held) if held > 0 => last_page(chat.turns.get(..held).unwrap_or_default()).to_vec(),
            _ => {
                if let Some(last) = until.checked_sub(1) {
                    self.is_told(&chat.resource, last).await?;
                }
                let page = Page { turns: PAGE, bytes: PAGE_BYTES, newest: true };
                let stored = self.store.turns(&chat.resource, 0..until, page).await?;
                stored.iter().map(read).collect()
            }
        };
        let first = until.saturating_sub(turns.len());
        let cursor = self.cursor(chat, past, first).await?;
        Ok(Older { turns, first, cursor })
    }
}

/// As many of the last turns as fit into a page, and at least one.
fn last_page(turns: &[Turn]) -> &[Turn] {
    let mut bytes = 0;
    let fits = |turn: &&Turn| {
        let before = bytes;
        bytes += serde_json::to_string(turn).map_or(0, |json| json.len());
        before == 0 || bytes <= PAGE_BYTES
    };
    let count = turns.iter().rev().take(PAGE).take_while(fits).count();
    turns.get(turns.len() - count..).unwrap_or_default()
}

/// A turn from its row. One that cannot be read keeps its place, so that its neighbours keep theirs.
pub(crate) fn read(turn: &StoredTurn) -> Turn {
    serde_json::from_str(&turn.body).unwrap_or_else(|error| {
        tracing::error!(
            chat = turn.chat,
            turn = turn.id,
            error = json_fault(&error),
            "a stored turn could not be read"
        );
        unreadable(turn)
    })
}

fn unreadable(turn: &StoredTurn) -> Turn {
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
fn json(turn: StoredTurn) -> String {
    // Whole rows are not read once more for this: what the file system lost is lost at an end.
    if turn.body.starts_with('{') && turn.body.ends_with('}') {
        return turn.body;
    }
    serde_json::to_string(&read(&turn)).unwrap_or_default()
}

fn foreign() -> EngineError {
    EngineError::Invalid("the cursor is not one that this host gave for this chat".to_owned())
}

/// The cursor's place is not where this connection's turns begin.
pub(crate) fn stale() -> EngineError {
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
            let cursor = Cursor::decode(&Cursor::encode(7, "ahp-chat:/c", turn)).unwrap();
            assert_eq!((cursor.position, &*cursor.chat, &*cursor.turn), (7, "ahp-chat:/c", turn));
        }
        let of = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for garbage in ["", "%", &of(""), &of("7"), &of("7\nc"), &of("-1\nc\nt"), &of("x\nc\nt")] {
            assert!(Cursor::decode(garbage).is_none(), "{garbage:?}");
        }
    }

    #[test]
    fn a_row_that_cannot_be_read_keeps_its_place() {
        for body in ["", "{", "not JSON", r#"{"id":"t1"}"#] {
            let row = StoredTurn { chat: "c".to_owned(), id: "t1".to_owned(), body: body.to_owned() };
            let turn = read(&row);
            assert_eq!((turn.id.as_str(), turn.state), ("t1", TurnState::Error), "{body:?}");
            let sent = json(row);
            assert!(serde_json::from_str::<serde_json::Value>(&sent).is_ok(), "{body:?}: {sent}");
        }
    }

    #[test]
    fn a_page_from_memory_ends_by_bytes_and_is_never_empty_for_nothing() {
        let turn = |size: usize| {
            let mut turn = unreadable(&StoredTurn { chat: "c".to_owned(), id: "t".to_owned(), body: String::new() });
            turn.message.text = "x".repeat(size);
            turn
        };
        assert_eq!(last_page(&vec![turn(10); PAGE + 5]).len(), PAGE);
        assert_eq!(last_page(&vec![turn(PAGE_BYTES / 3); 9]).len(), 2);
        assert_eq!(last_page(&[turn(1), turn(PAGE_BYTES * 2)]).len(), 1);
        assert!(last_page(&[]).is_empty());
    }
}
