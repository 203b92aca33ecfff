//! What the engine hands to the sequencer, and what comes out of it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ahp_types::{ActionOrigin, StateAction};
use bytes::Bytes;
use hostler_redact::{length, variant};
use tokio::sync::oneshot;

use crate::{AuditEntry, Blob, StoreError};

/// How hard a batch must be kept before clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Numbered and published, never written: rejections, and everything about provisional sessions.
    Memory,
    /// Published at once, committed within 100 ms: streamed output.
    Stream,
    /// Committed before it is published: acceptances, answers, queue changes, turn ends.
    Durable,
}

/// One action on one channel, encoded once.
#[derive(Clone)]
pub struct Entry {
    pub(crate) channel: Arc<str>,
    pub(crate) action: Arc<StateAction>,
    pub(crate) json: Arc<str>,
    pub(crate) origin: Option<ActionOrigin>,
    pub(crate) rejection: Option<String>,
}

impl Entry {
    /// An action that the host itself originated.
    ///
    /// # Errors
    /// If the action cannot be encoded, which means that it holds a number JSON does not have.
    pub fn new(channel: Arc<str>, action: StateAction) -> Result<Self, StoreError> {
        let json = serde_json::to_string(&action)
            .map_err(|error| StoreError::Database(format!("an action cannot be encoded: {error}")))?;
        Ok(Self { channel, action: Arc::new(action), json: json.into(), origin: None, rejection: None })
    }

    /// The same as an echo of a client's dispatch.
    #[must_use]
    pub fn with_origin(mut self, origin: Option<ActionOrigin>) -> Self {
        self.origin = origin;
        self
    }

    /// The same as a refusal: clients undo it.
    #[must_use]
    pub fn rejected(mut self, reason: impl Into<String>) -> Self {
        self.rejection = Some(reason.into());
        self
    }

    /// The action.
    pub fn action(&self) -> &StateAction {
        &self.action
    }
}

/// A private fact, stored in the same log as the actions around it.
#[derive(Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// The channel that the fact is about.
    pub channel: Arc<str>,
    /// The record's JSON, written and read by the engine.
    pub json: String,
}

/// A change of the catalogue that belongs to a batch.
#[derive(Clone, PartialEq, Eq)]
pub enum CatalogueChange {
    /// Writes a session's row.
    Put {
        /// The session's URI.
        session: Arc<str>,
        /// Whether the session is announced; unlisted rows are sessions that were never started successfully.
        listed: bool,
        /// The `SessionSummary` as JSON.
        summary: String,
    },
    /// Forgets a session, its channels and its part of the journal. Its conversations are noted as deleted.
    Remove {
        /// The session's URI.
        session: Arc<str>,
    },
}

/// A session as it is after a batch, so that nothing before it is needed to bring it back.
#[derive(Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    /// The session without its ended turns, as JSON that the engine writes and reads.
    pub body: String,
    /// Turns that ended and are not stored yet.
    pub turns: Vec<TurnRow>,
    /// The chats whose turns are others than they were in the snapshot before.
    pub chats: Vec<ChatRow>,
}

/// The turns of a chat at a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRow {
    /// The chat.
    pub uri: Arc<str>,
    /// The first turn that is needed to bring the session back.
    pub first: usize,
    /// How many turns have ended.
    pub turns: usize,
}

/// A turn that ended.
#[derive(Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// The chat that it belongs to.
    pub chat: Arc<str>,
    /// Its place in the chat, from 0.
    pub position: usize,
    /// The name by which clients know it.
    pub id: String,
    /// The turn as JSON.
    pub body: String,
}

/// A client as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredClient {
    /// Its identity.
    pub id: String,
    /// What its surface wants to know when it comes back; opaque to everybody else.
    pub memo: String,
    /// When it was here last (milliseconds since the epoch).
    pub seen_ms: i64,
}

/// Whose a conversation of the agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConversation {
    /// The conversation.
    pub id: String,
    /// The session that it belongs to; `None` if a person has deleted it.
    pub session: Option<String>,
}

/// Runs in sequence order, under the sequencer's lock, with the last number that was given out. Must be quick.
pub(crate) type Then = Box<dyn FnOnce(u64) + Send>;

/// Hears an action that nobody else hears. Runs in sequence order, under the sequencer's lock. Must be quick.
pub(crate) type Aside = Box<dyn FnOnce(Arc<Published>) + Send>;

/// What one actor wants to happen atomically.
#[must_use = "a batch does nothing until it is submitted"]
pub struct Batch {
    pub(crate) session: Option<Arc<str>>,
    pub(crate) durability: Durability,
    pub(crate) entries: Vec<Entry>,
    pub(crate) records: Vec<HostRecord>,
    pub(crate) catalogue: Option<CatalogueChange>,
    pub(crate) snapshot: Option<SnapshotRow>,
    pub(crate) client: Option<StoredClient>,
    pub(crate) blobs: Vec<Blob>,
    /// A client brings the contents, although none of its actions is here.
    pub(crate) brought: bool,
    pub(crate) audit: Vec<AuditEntry>,
    pub(crate) conversations: Vec<StoredConversation>,
    /// Conversations whose records are to be removed, or were.
    pub(crate) removals: Vec<(String, bool)>,
    /// An action for one listener only.
    pub(crate) aside: Option<(Entry, Aside)>,
    pub(crate) then: Option<Then>,
    pub(crate) done: Option<oneshot::Sender<Result<u64, StoreError>>>,
}

impl Batch {
    /// An empty batch of a session (or of the root, with `None`).
    pub fn new(session: Option<Arc<str>>, durability: Durability) -> Self {
        Self {
            session,
            durability,
            entries: Vec::new(),
            records: Vec::new(),
            catalogue: None,
            snapshot: None,
            client: None,
            blobs: Vec::new(),
            brought: false,
            audit: Vec::new(),
            conversations: Vec::new(),
            removals: Vec::new(),
            aside: None,
            then: None,
            done: None,
        }
    }

    /// Adds an action.
    pub fn entry(mut self, entry: Entry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Adds several actions.
    pub fn entries(mut self, entries: impl IntoIterator<Item = Entry>) -> Self {
        self.entries.extend(entries);
        self
    }

    /// Adds a private fact. Ignored for memory-only batches.
    pub fn record(mut self, record: HostRecord) -> Self {
        self.records.push(record);
        self
    }

    /// Adds a change of the catalogue.
    pub fn catalogue(mut self, change: CatalogueChange) -> Self {
        self.catalogue = Some(change);
        self
    }

    /// Adds the session's state after this batch.
    pub fn snapshot(mut self, snapshot: SnapshotRow) -> Self {
        self.snapshot = Some(snapshot);
        self
    }

    /// Notes that a client was here.
    pub fn client(mut self, client: StoredClient) -> Self {
        self.client = Some(client);
        self
    }

    /// Adds contents that the batch's actions name. A batch that has any is to be durable: whoever reads a name can then
    /// read what it stands for. Ignored for batches of no session.
    ///
    /// A batch that names contents again which its session may have ceased to name brings them again, stored or not:
    /// otherwise they may be collected just then. If a client's action is among the batch's, the contents have to fit the
    /// quota, or the batch is refused with [`StoreError::Quota`].
    pub fn blobs(mut self, blobs: impl IntoIterator<Item = Blob>) -> Self {
        self.blobs.extend(blobs);
        self
    }

    /// Adds contents that a client brings although none of its actions is among the batch's: they have to fit the quota, too.
    pub fn brought(mut self, blobs: impl IntoIterator<Item = Blob>) -> Self {
        self.brought = true;
        self.blobs(blobs)
    }

    /// Adds decisions to the session's audit log. Ignored for batches of no session.
    pub fn audit(mut self, entries: impl IntoIterator<Item = AuditEntry>) -> Self {
        self.audit.extend(entries);
        self
    }

    /// Notes whose a conversation of the agent is. The last note counts. Ignored for memory-only batches.
    pub fn conversation(mut self, id: impl Into<String>, session: Option<&str>) -> Self {
        self.conversations.push(StoredConversation { id: id.into(), session: session.map(str::to_owned) });
        self
    }

    /// Notes that the agent's record of a conversation is still to be removed, or was. Ignored for memory-only batches.
    pub fn removal(mut self, conversation: impl Into<String>, wanted: bool) -> Self {
        self.removals.push((conversation.into(), wanted));
        self
    }

    /// Adds an action that one listener hears and nobody else: it is numbered after the others, handed over in the order
    /// of numbers, and neither published nor written.
    pub fn aside(mut self, entry: Entry, hear: impl FnOnce(Arc<Published>) + Send + 'static) -> Self {
        self.aside = Some((entry, Box::new(hear)));
        self
    }

    /// Runs `then` right after this batch's publication, before anything later is published.
    pub fn then(mut self, then: impl FnOnce(u64) + Send + 'static) -> Self {
        self.then = Some(Box::new(then));
        self
    }
}

// Actions, records, summaries and snapshots hold what people and agents say, and resume tokens.

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("channel", &self.channel)
            .field("action", &variant(&*self.action))
            .field("json", &length(&*self.json))
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostRecord").field("channel", &self.channel).field("json", &length(&self.json)).finish()
    }
}

impl fmt::Debug for CatalogueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { session, listed, summary } => f
                .debug_struct("Put")
                .field("session", session)
                .field("listed", listed)
                .field("summary", &length(summary))
                .finish(),
            Self::Remove { session } => f.debug_struct("Remove").field("session", session).finish(),
        }
    }
}

impl fmt::Debug for SnapshotRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotRow")
            .field("body", &length(&self.body))
            .field("turns", &self.turns)
            .field("chats", &self.chats)
            .finish()
    }
}

impl fmt::Debug for TurnRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnRow")
            .field("chat", &self.chat)
            .field("position", &self.position)
            .field("id", &self.id)
            .field("body", &length(&self.body))
            .finish()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("durability", &self.durability)
            .field("entries", &self.entries.len())
            .field("records", &self.records.len())
            .finish_non_exhaustive()
    }
}

/// How many wire encodings of one envelope are kept: for each protocol version, plain and compressed.
const FRAME_SLOTS: usize = 4;

/// A numbered action on its way to the subscribers.
pub struct Published {
    /// The number.
    pub seq: u64,
    /// The channel.
    pub channel: Arc<str>,
    /// The action.
    pub action: Arc<StateAction>,
    /// The action as JSON, encoded once.
    pub action_json: Arc<str>,
    /// Whose dispatch this echoes.
    pub origin: Option<ActionOrigin>,
    /// Why it was refused, if it was.
    pub rejection: Option<String>,
    frames: [OnceLock<Bytes>; FRAME_SLOTS],
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published")
            .field("seq", &self.seq)
            .field("channel", &self.channel)
            .field("action", &variant(&*self.action))
            .field("json", &length(&*self.action_json))
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Published {
    pub(crate) fn new(seq: u64, entry: Entry) -> Self {
        Self {
            seq,
            channel: entry.channel,
            action: entry.action,
            action_json: entry.json,
            origin: entry.origin,
            rejection: entry.rejection,
            frames: Default::default(),
        }
    }

    pub(crate) fn with_seq(&self, seq: u64) -> Self {
        Self {
            seq,
            channel: Arc::clone(&self.channel),
            action: Arc::clone(&self.action),
            action_json: Arc::clone(&self.action_json),
            origin: self.origin.clone(),
            rejection: self.rejection.clone(),
            frames: Default::default(),
        }
    }

    /// An envelope that was read back from the journal.
    pub fn stored(
        seq: u64,
        channel: Arc<str>,
        action: StateAction,
        json: Arc<str>,
        origin: Option<ActionOrigin>,
    ) -> Self {
        let entry = Entry { channel, action: Arc::new(action), json, origin, rejection: None };
        Self::new(seq, entry)
    }

    /// About how much memory it takes.
    pub fn size(&self) -> usize {
        // The action itself, its JSON, and a frame that most envelopes get.
        self.action_json.len() * 3 + self.channel.len() + 256
    }

    /// The wire frame in a protocol layer's `slot`, made by whoever needs it first and shared by all others.
    pub fn frame(&self, slot: usize, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        match self.frames.get(slot) {
            Some(cell) => cell.get_or_init(|| encode(self)).clone(),
            None => encode(self),
        }
    }
}

/// Takes what has been numbered, in order.
pub trait Publisher: Send + Sync + 'static {
    /// Called under the sequencer's lock, once per number, in order. Must not block.
    fn publish(&self, item: &Arc<Published>);
}
