//! Types of the sequencer's input and output: batches, and published actions.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ahp_types::{ActionOrigin, StateAction};
use bytes::Bytes;
use hostler_redact::{byte_length, variant_name};
use tokio::sync::oneshot;

use crate::{AuditEntry, Blob, StoreError};

/// How durable a batch must be before clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchDurability {
    /// Numbered and published, never written: rejections, and everything about provisional sessions.
    Memory,
    /// Published at once, committed within 100 ms: streamed output.
    Stream,
    /// Committed before it is published: acceptances, answers, queue changes, turn ends.
    Durable,
}

/// One action on one channel, encoded once.
#[derive(Clone)]
pub struct ActionEntry {
    pub(crate) channel: Arc<str>,
    pub(crate) action: Arc<StateAction>,
    pub(crate) action_json: Arc<str>,
    pub(crate) origin: Option<ActionOrigin>,
    pub(crate) rejection: Option<PublishedRejection>,
}

impl ActionEntry {
    /// An action that the host originates.
    ///
    /// # Errors
    /// If the action cannot be encoded, which means that it contains a number that JSON does not have.
    pub fn new(channel: Arc<str>, action: StateAction) -> Result<Self, StoreError> {
        let json = serde_json::to_string(&action)
            .map_err(|error| StoreError::Database(format!("failed to encode an action: {error}")))?;
        Ok(Self { channel, action: Arc::new(action), action_json: json.into(), origin: None, rejection: None })
    }

    /// Marks the entry as echo of a client's dispatch.
    #[must_use]
    pub fn with_origin(mut self, origin: Option<ActionOrigin>) -> Self {
        self.origin = origin;
        self
    }

    /// Marks the entry as rejected: clients undo it.
    #[must_use]
    pub fn with_rejection(mut self, rejection: PublishedRejection) -> Self {
        self.rejection = Some(rejection);
        self
    }

    /// The action.
    pub fn action(&self) -> &StateAction {
        &self.action
    }
}

/// A private fact, stored in the same journal as the actions around it.
#[derive(Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// The channel that the fact is about.
    pub channel: Arc<str>,
    /// The record's JSON, written and read by the engine.
    pub json: String,
}

/// A change of the session catalog that belongs to a batch.
#[derive(Clone, PartialEq, Eq)]
pub enum CatalogChange {
    /// Writes a session's row.
    Put {
        /// The session's URI.
        session: Arc<str>,
        /// Whether the session is announced; unlisted rows are sessions that never started successfully.
        listed: bool,
        /// The `SessionSummary` as JSON.
        summary: String,
    },
    /// Removes a session, its channels and its part of the journal. Its conversations are recorded as deleted.
    Remove {
        /// The session's URI.
        session: Arc<str>,
    },
}

/// A session's state after a batch, which makes everything before it unnecessary to restore the session.
#[derive(Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    /// The session without its ended turns, as JSON that the engine writes and reads.
    pub body: String,
    /// Turns that ended and are not stored yet.
    pub turns: Vec<TurnRow>,
    /// The chats whose turns have changed since the previous snapshot.
    pub chats: Vec<ChatRow>,
}

/// The turns of a chat at a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRow {
    /// The chat.
    pub uri: Arc<str>,
    /// Position of the first turn that is needed to restore the session.
    pub first_needed: usize,
    /// Number of ended turns.
    pub turn_count: usize,
}

/// A turn that ended.
#[derive(Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// The chat that it belongs to.
    pub chat: Arc<str>,
    /// Its position in the chat, from 0.
    pub position: usize,
    /// Its id, known to clients.
    pub id: String,
    /// The turn as JSON.
    pub body: String,
}

/// A client as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredClient {
    /// Its identity.
    pub id: String,
    /// What its surface stores for its next connection; opaque to all others.
    pub client_metadata: String,
    /// When it was last connected (milliseconds since the epoch).
    pub last_seen_ms: i64,
}

/// Which session a conversation of the agent belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConversation {
    /// The conversation.
    pub id: String,
    /// The session that it belongs to; `None` if a person has deleted it.
    pub session: Option<String>,
}

/// Runs in sequence order, under the sequencer's lock, with the last assigned number. Must be quick.
pub(crate) type AfterPublish = Box<dyn FnOnce(u64) + Send>;

/// Receives a unicast action. Runs in sequence order, under the sequencer's lock. Must be quick.
pub(crate) type UnicastDelivery = Box<dyn FnOnce(Arc<PublishedAction>) + Send>;

/// Changes of one actor that take effect atomically.
#[must_use = "a batch does nothing until it is submitted"]
pub struct Batch {
    pub(crate) session: Option<Arc<str>>,
    pub(crate) durability: BatchDurability,
    pub(crate) entries: Vec<ActionEntry>,
    pub(crate) records: Vec<HostRecord>,
    pub(crate) catalog: Option<CatalogChange>,
    pub(crate) snapshot: Option<SnapshotRow>,
    pub(crate) client: Option<StoredClient>,
    pub(crate) blobs: Vec<Blob>,
    /// Whether a client provides the blobs although the batch has no action of a client.
    pub(crate) has_client_blobs: bool,
    pub(crate) audit: Vec<AuditEntry>,
    pub(crate) conversations: Vec<StoredConversation>,
    /// Conversations whose transcripts are to be deleted (`true`), or were.
    pub(crate) deletions: Vec<(String, bool)>,
    /// An action for one recipient only.
    pub(crate) unicast: Option<(ActionEntry, UnicastDelivery)>,
    pub(crate) after_publish: Option<AfterPublish>,
    pub(crate) done: Option<oneshot::Sender<Result<u64, StoreError>>>,
}

impl Batch {
    /// An empty batch of a session (or of the root, with `None`).
    pub fn new(session: Option<Arc<str>>, durability: BatchDurability) -> Self {
        Self {
            session,
            durability,
            entries: Vec::new(),
            records: Vec::new(),
            catalog: None,
            snapshot: None,
            client: None,
            blobs: Vec::new(),
            has_client_blobs: false,
            audit: Vec::new(),
            conversations: Vec::new(),
            deletions: Vec::new(),
            unicast: None,
            after_publish: None,
            done: None,
        }
    }

    /// Adds an action.
    pub fn entry(mut self, entry: ActionEntry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Adds several actions.
    pub fn entries(mut self, entries: impl IntoIterator<Item = ActionEntry>) -> Self {
        self.entries.extend(entries);
        self
    }

    /// Adds a host record. Ignored for memory-only batches.
    pub fn record(mut self, record: HostRecord) -> Self {
        self.records.push(record);
        self
    }

    /// Adds a change of the catalog.
    pub fn catalog(mut self, change: CatalogChange) -> Self {
        self.catalog = Some(change);
        self
    }

    /// Adds the session's state after this batch.
    pub fn snapshot(mut self, snapshot: SnapshotRow) -> Self {
        self.snapshot = Some(snapshot);
        self
    }

    /// Records that a client was connected.
    pub fn client(mut self, client: StoredClient) -> Self {
        self.client = Some(client);
        self
    }

    /// Adds blobs that the batch's actions refer to. Such a batch must be durable: a client that receives a reference
    /// can then read the blob. Ignored for batches without a session.
    ///
    /// A batch that refers to a blob which its session may no longer refer to must add the blob again, stored or not:
    /// otherwise the collector may delete it at that moment. If the batch contains a client's action, the blobs have to
    /// fit the quota; otherwise the batch is refused with [`StoreError::Quota`].
    pub fn blobs(mut self, blobs: impl IntoIterator<Item = Blob>) -> Self {
        self.blobs.extend(blobs);
        self
    }

    /// Adds blobs that a client provides although the batch has no action of a client: they have to fit the quota, too.
    pub fn client_blobs(mut self, blobs: impl IntoIterator<Item = Blob>) -> Self {
        self.has_client_blobs = true;
        self.blobs(blobs)
    }

    /// Adds decisions to the session's audit log. Ignored for batches without a session.
    pub fn audit(mut self, entries: impl IntoIterator<Item = AuditEntry>) -> Self {
        self.audit.extend(entries);
        self
    }

    /// Records which session a conversation of the agent belongs to. The last record counts. Ignored for memory-only
    /// batches.
    pub fn conversation(mut self, id: impl Into<String>, session: Option<&str>) -> Self {
        self.conversations.push(StoredConversation { id: id.into(), session: session.map(str::to_owned) });
        self
    }

    /// Records whether the transcript of a conversation is still to be deleted. Ignored for memory-only batches.
    pub fn deletion(mut self, conversation: impl Into<String>, is_pending: bool) -> Self {
        self.deletions.push((conversation.into(), is_pending));
        self
    }

    /// Adds an action for one recipient: it is numbered after the others, delivered in sequence order, and neither
    /// published nor written.
    pub fn unicast(mut self, entry: ActionEntry, deliver: impl FnOnce(Arc<PublishedAction>) + Send + 'static) -> Self {
        self.unicast = Some((entry, Box::new(deliver)));
        self
    }

    /// Runs `then` right after this batch's publication, before anything later is published.
    pub fn after_publish(mut self, then: impl FnOnce(u64) + Send + 'static) -> Self {
        self.after_publish = Some(Box::new(then));
        self
    }
}

// Debug output is redacted: actions, records, summaries and snapshots contain messages and resume tokens.

impl fmt::Debug for ActionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActionEntry")
            .field("channel", &self.channel)
            .field("action", &variant_name(&*self.action))
            .field("json", &byte_length(&*self.action_json))
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostRecord").field("channel", &self.channel).field("json", &byte_length(&self.json)).finish()
    }
}

impl fmt::Debug for CatalogChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { session, listed, summary } => f
                .debug_struct("Put")
                .field("session", session)
                .field("listed", listed)
                .field("summary", &byte_length(summary))
                .finish(),
            Self::Remove { session } => f.debug_struct("Remove").field("session", session).finish(),
        }
    }
}

impl fmt::Debug for SnapshotRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotRow")
            .field("body", &byte_length(&self.body))
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
            .field("body", &byte_length(&self.body))
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

/// Number of cached wire encodings per envelope: for each protocol version, plain and compressed.
const FRAME_SLOTS: usize = 4;

/// A numbered action for subscribers.
pub struct PublishedAction {
    /// The sequence number.
    pub seq: u64,
    /// The channel.
    pub channel: Arc<str>,
    /// The action.
    pub action: Arc<StateAction>,
    /// The action as JSON, encoded once.
    pub action_json: Arc<str>,
    /// The dispatch that this echoes.
    pub origin: Option<ActionOrigin>,
    /// Why it was rejected, if it was.
    pub rejection: Option<PublishedRejection>,
    frames: [OnceLock<Bytes>; FRAME_SLOTS],
}

/// Why an action was rejected: a code for programs, and a message for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedRejection {
    /// The stable code.
    pub code: &'static str,
    /// The message.
    pub message: String,
}

impl fmt::Display for PublishedRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for PublishedAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishedAction")
            .field("seq", &self.seq)
            .field("channel", &self.channel)
            .field("action", &variant_name(&*self.action))
            .field("json", &byte_length(&*self.action_json))
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl PublishedAction {
    pub(crate) fn new(seq: u64, entry: ActionEntry) -> Self {
        Self {
            seq,
            channel: entry.channel,
            action: entry.action,
            action_json: entry.action_json,
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
    pub fn from_journal(
        seq: u64,
        channel: Arc<str>,
        action: StateAction,
        json: Arc<str>,
        origin: Option<ActionOrigin>,
    ) -> Self {
        let entry = ActionEntry { channel, action: Arc::new(action), action_json: json, origin, rejection: None };
        Self::new(seq, entry)
    }

    /// Approximate memory use.
    pub fn memory_bytes(&self) -> usize {
        // The action itself, its JSON, and one cached frame, which most envelopes have.
        self.action_json.len() * 3 + self.channel.len() + 256
    }

    /// The wire frame in a protocol layer's `slot`, encoded on first use and shared.
    pub fn cached_frame(&self, slot: usize, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        match self.frames.get(slot) {
            Some(cell) => cell.get_or_init(|| encode(self)).clone(),
            None => encode(self),
        }
    }
}

/// Receives numbered actions, in order.
pub trait Publisher: Send + Sync + 'static {
    /// Called under the sequencer's lock, once per number, in order. Must not block.
    fn publish(&self, item: &Arc<PublishedAction>);
}
